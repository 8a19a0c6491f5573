//! A model of a quotient filter, which says where its entries are.

use twiceshy::Hash;

/// The slots of a quotient filter: fingerprints in order, each as close behind its home slot as
/// those before it let it be (Robin Hood hashing), without the metadata by which a filter finds
/// them.
///
/// Within a minirun fingerprints are in the order in which they came, as in the `AdaptiveQF`.
/// Extensions are kept beside the slots, as extension quotient filters have them, so a repair
/// moves nothing.
pub(super) struct QuotientModel {
    log2_slots: u32,
    remainder_bits: u32,
    /// With a tail for what is pushed past the last home slot, as long as it has to be.
    slots: Vec<Option<Fingerprint>>,
}

#[derive(Clone, Copy)]
pub(super) struct Fingerprint {
    /// Quotient and remainder: the minirun.
    pub(super) minirun: u64,
    /// The digits that follow, and how many they are.
    extension: u128,
    digits: u32,
}

/// Where a fingerprint is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) slot: usize,
    pub(super) minirun: u64,
    /// How many of its minirun are before it.
    pub(super) rank: u32,
}

impl QuotientModel {
    pub(super) fn new(log2_slots: u32, remainder_bits: u32) -> Self {
        Self { log2_slots, remainder_bits, slots: vec![None; 1 << log2_slots] }
    }

    fn minirun(&self, hash: Hash) -> u64 {
        (hash.as_u128() >> (128 - self.log2_slots - self.remainder_bits)) as u64
    }

    fn home(&self, minirun: u64) -> usize {
        (minirun >> self.remainder_bits) as usize
    }

    /// So many digits behind the remainder.
    fn extension(&self, hash: Hash, digits: u32) -> u128 {
        let bits = digits * self.remainder_bits;
        let rest = hash.as_u128() << (self.log2_slots + self.remainder_bits);
        if bits == 0 { 0 } else { rest >> (128 - bits) }
    }

    /// Whether a fingerprint is one of that hash.
    pub(super) fn covers(&self, fingerprint: &Fingerprint, hash: Hash) -> bool {
        fingerprint.minirun == self.minirun(hash)
            && fingerprint.extension == self.extension(hash, fingerprint.digits)
    }

    /// The first slot, from a minirun's home on, that is empty or has a fingerprint of which
    /// this is true.
    fn first(&self, minirun: u64, is_it: impl Fn(&Fingerprint) -> bool) -> usize {
        let home = self.home(minirun);
        let slots = self.slots[home..].iter();
        let found = slots.take_while(|slot| slot.is_some_and(|fingerprint| !is_it(&fingerprint)));
        home + found.count()
    }

    /// Inserts a member behind its minirun. Returns where, and the slot that was empty before;
    /// all from there on moved by one.
    pub(super) fn insert(&mut self, hash: Hash) -> (Place, usize) {
        let minirun = self.minirun(hash);
        let start = self.first(minirun, |other| other.minirun >= minirun);
        let slot = self.first(minirun, |other| other.minirun > minirun);
        let empty = slot + self.slots[slot..].iter().take_while(|slot| slot.is_some()).count();
        if empty == self.slots.len() {
            self.slots.push(None);
        }
        self.slots.copy_within(slot..empty, slot + 1);
        self.slots[slot] = Some(Fingerprint { minirun, extension: 0, digits: 0 });
        (Place { slot, minirun, rank: (slot - start) as u32 }, empty)
    }

    /// Where fingerprints of that hash are.
    pub(super) fn matches(&self, hash: Hash) -> impl Iterator<Item = Place> {
        let minirun = self.minirun(hash);
        let start = self.first(minirun, |other| other.minirun >= minirun);
        let members = self.slots[start..].iter().map_while(|slot| *slot).enumerate();
        let members = members.take_while(move |(_, fingerprint)| fingerprint.minirun == minirun);
        let covering = members.filter(move |(_, fingerprint)| self.covers(fingerprint, hash));
        covering.map(move |(rank, _)| Place { slot: start + rank, minirun, rank: rank as u32 })
    }

    /// How many fingerprints a minirun has.
    pub(super) fn minirun_len(&self, minirun: u64) -> u32 {
        let start = self.first(minirun, |other| other.minirun >= minirun);
        (self.first(minirun, |other| other.minirun > minirun) - start) as u32
    }

    /// Lengthens a member's fingerprint until it isn't the mistake's any more.
    pub(super) fn lengthen(&mut self, slot: usize, member: Hash, mistake: Hash) {
        let mut fingerprint = self.slots[slot].expect("a member's slot");
        assert!(self.covers(&fingerprint, member), "the map led to another key");
        while self.covers(&fingerprint, mistake) {
            fingerprint.digits += 1;
            fingerprint.extension = self.extension(member, fingerprint.digits);
        }
        self.slots[slot] = Some(fingerprint);
    }

    /// Removes what is in a slot. Returns the slot that is empty then; all up to there moved by
    /// one.
    pub(super) fn remove(&mut self, slot: usize) -> usize {
        let is_away = |(index, fingerprint): &(usize, Fingerprint)| {
            self.home(fingerprint.minirun) < slot + 1 + index
        };
        let behind = self.slots[slot + 1..].iter().map_while(|slot| *slot).enumerate();
        let last = slot + behind.take_while(is_away).count();
        self.slots.copy_within(slot + 1..=last, slot);
        self.slots[last] = None;
        last
    }

    /// All slots, in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Option<&Fingerprint>> {
        self.slots.iter().map(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::random::Random;
    use super::*;

    /// In order, none before its home, and no gap between a home and what belongs there.
    fn validate(slots: &QuotientModel) {
        let mut last = None;
        let mut gap = 0;
        for (index, slot) in slots.iter().enumerate() {
            let Some(fingerprint) = slot else {
                gap = index + 1;
                continue;
            };
            let home = slots.home(fingerprint.minirun);
            assert!(gap <= home && home <= index);
            assert!(last <= Some(fingerprint.minirun));
            last = Some(fingerprint.minirun);
        }
    }

    #[test]
    fn slots_are_in_order_and_close_to_home() {
        let mut random = Random(1);
        let mut slots = QuotientModel::new(8, 4);
        let mut hash = || Hash::from_u128(u128::from(random.next()) << 64 | 1);
        let members: Vec<Hash> = (0..240).map(|_| hash()).collect();
        for &member in &members {
            let before: Vec<_> = slots.matches(member).collect();
            let (place, empty) = slots.insert(member);
            assert!(place.rank as usize == before.len() && place.slot <= empty);
            validate(&slots);
        }
        for &member in &members {
            let place = slots.matches(member).next().expect("no false negative");
            slots.remove(place.slot);
            validate(&slots);
        }
        assert!(slots.iter().all(|slot| slot.is_none()));
    }

    #[test]
    fn a_lengthened_fingerprint_is_still_the_members() {
        let mut slots = QuotientModel::new(8, 4);
        let [member, mistake] = [0x1234_5670, 0x1234_5671].map(|top| Hash::from_u128(top << 96));
        let (place, _) = slots.insert(member);
        assert_eq!(slots.matches(mistake).count(), 1);
        slots.lengthen(place.slot, member, mistake);
        assert_eq!((slots.matches(mistake).count(), slots.matches(member).count()), (0, 1));
    }
}
