//! A model of yes/no lists that change: two sets.

use arbitrary::{Result, Unstructured};
use std::collections::BTreeSet;
use twiceshy::{Hash, YesNoList, list::ListError};

/// A set of only 256 hashes, so that operations often use the same or similar hashes.
#[derive(Clone, Copy, Debug)]
enum Universe {
    /// Hashes anywhere.
    Uniform,
    /// Hashes in a few slots.
    Near,
    /// Hashes that are equal except for the last bits, which makes extensions as long as possible.
    Alike,
    /// Pairs of hashes that differ in the last bit.
    Twins,
}

impl Universe {
    const ALL: [Self; 4] = [Self::Uniform, Self::Near, Self::Alike, Self::Twins];

    fn hash(self, key: u8) -> Hash {
        let random = |n: u8| {
            let odd = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
            let mixed = (u128::from(n) + 1).wrapping_mul(odd);
            (mixed ^ mixed >> 67).wrapping_mul(odd)
        };
        Hash::from_u128(match self {
            Self::Uniform => random(key),
            Self::Near => u128::from(key % 3) << 126 | random(key) >> 12,
            Self::Alike => 5 << 100 | u128::from(key),
            Self::Twins => random(key / 2) & !1 | u128::from(key % 2),
        })
    }
}

/// A list and its expected content.
struct Pair {
    universe: Universe,
    list: YesNoList,
    yes: BTreeSet<Hash>,
    no: BTreeSet<Hash>,
}

/// Builds and changes lists as encoded in `bytes`, and checks everything after each change.
///
/// # Panics
/// If a listed key is answered wrongly, or list and model differ otherwise.
pub fn drive(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if let Ok(mut pair) = Pair::any(&mut bytes) {
        pair.check();
        while !bytes.is_empty() && pair.step(&mut bytes).is_ok() {
            pair.check();
        }
    }
}

impl Pair {
    /// Builds a list, which may be empty.
    fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        let universe = *bytes.choose(&Universe::ALL)?;
        let rate = *bytes.choose(&[0.9, 0.3, 0.1, 0.01, 1e-6])?;
        let (mut yes, mut no) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..bytes.int_in_range(0..=60u8)? {
            let hash = universe.hash(bytes.arbitrary()?);
            if bytes.arbitrary()? {
                no.remove(&hash);
                yes.insert(hash);
            } else {
                yes.remove(&hash);
                no.insert(hash);
            }
        }
        let builder = YesNoList::builder().false_positive_rate(rate);
        // One key is listed twice.
        let all = yes.iter().chain(yes.first()).copied();
        let list = builder.build_from(all.collect(), no.iter().copied().collect());
        Ok(Self { universe, list: list.expect("no hash is on both"), yes, no })
    }

    fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let hash = self.universe.hash(bytes.arbitrary()?);
        match bytes.int_in_range(0..=7u8)? {
            0 | 1 => self.add_yes(hash),
            2 | 3 => self.add_no(hash),
            4 => self.remove_yes(hash),
            5 => self.remove_no(hash),
            // Moves a key from one list to the other.
            _ if self.yes.contains(&hash) => {
                self.remove_yes(hash);
                self.add_no(hash);
            }
            _ if self.no.contains(&hash) => {
                self.remove_no(hash);
                self.add_yes(hash);
            }
            _ => {}
        }
        Ok(())
    }

    fn add_yes(&mut self, hash: Hash) {
        match self.list.add_yes(hash) {
            Err(ListError::OnNoList { hash: found }) => {
                assert!(found == hash && self.no.contains(&hash));
            }
            added => assert_eq!(added.expect("there is room"), self.yes.insert(hash)),
        }
    }

    fn add_no(&mut self, hash: Hash) {
        match self.list.add_no(hash) {
            Err(ListError::OnYesList { hash: found }) => {
                assert!(found == hash && self.yes.contains(&hash));
            }
            added => assert_eq!(added.expect("there is room"), self.no.insert(hash)),
        }
    }

    fn remove_yes(&mut self, hash: Hash) {
        assert_eq!(self.list.remove_yes(hash), self.yes.remove(&hash));
    }

    fn remove_no(&mut self, hash: Hash) {
        assert_eq!(self.list.remove_no(hash), self.no.remove(&hash));
    }

    fn check(&self) {
        self.list.validate().expect("valid lists");
        assert!(self.list.yes().iter().eq(self.yes.iter().copied()));
        assert!(self.list.no().iter().eq(self.no.iter().copied()));
        let all: Vec<Hash> = (0..=255).map(|key| self.universe.hash(key)).collect();
        let mut answers = Vec::new();
        self.list.contains_many(&all, &mut answers);
        for (&hash, answer) in all.iter().zip(answers) {
            assert_eq!(self.list.contains(hash), answer);
            let (is_yes, is_no) = (self.yes.contains(&hash), self.no.contains(&hash));
            assert!(if answer { !is_no } else { !is_yes }, "{hash:?} is answered {answer}");
        }
    }
}
