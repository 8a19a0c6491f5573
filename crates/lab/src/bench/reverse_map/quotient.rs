//! Models the positions of entries in a quotient filter.

use twiceshy::Hash;

/// The slots of a quotient filter. The fingerprints are sorted, and each is as close after its home
/// slot as the preceding ones allow (Robin Hood hashing). The model leaves out the metadata with
/// which a filter finds fingerprints.
///
/// Within a minirun, fingerprints are in insertion order, like in the `AdaptiveQF`. Extensions are
/// stored outside the slots, so a repair moves nothing.
pub(super) struct QuotientModel {
    log2_slots: u32,
    remainder_bits: u32,
    /// The home slots, followed by more slots for entries that are pushed past the last home slot.
    slots: Vec<Option<Fingerprint>>,
}

#[derive(Clone, Copy)]
pub(super) struct Fingerprint {
    /// The minirun, which is the quotient and the remainder.
    pub(super) minirun: u64,
    /// The digits after the remainder, and their number.
    extension: u128,
    digits: u32,
}

/// The position of a fingerprint.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) slot: usize,
    pub(super) minirun: u64,
    /// The number of fingerprints before this one in its minirun.
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

    /// Returns the first `digits` digits of a hash after its remainder.
    fn extension(&self, hash: Hash, digits: u32) -> u128 {
        let bits = digits * self.remainder_bits;
        let rest = hash.as_u128() << (self.log2_slots + self.remainder_bits);
        if bits == 0 { 0 } else { rest >> (128 - bits) }
    }

    /// Returns whether a fingerprint matches this hash.
    pub(super) fn covers(&self, fingerprint: &Fingerprint, hash: Hash) -> bool {
        fingerprint.minirun == self.minirun(hash)
            && fingerprint.extension == self.extension(hash, fingerprint.digits)
    }

    /// Returns the first slot that is empty or has a fingerprint for which `is_it` is true. Begins
    /// at the home slot of the minirun.
    fn first(&self, minirun: u64, is_it: impl Fn(&Fingerprint) -> bool) -> usize {
        let home = self.home(minirun);
        let slots = self.slots[home..].iter();
        let found = slots.take_while(|slot| slot.is_some_and(|fingerprint| !is_it(&fingerprint)));
        home + found.count()
    }

    /// Inserts a member at the end of its minirun. Returns its place, and the slot that was empty
    /// before. All entries between these two have moved by one slot.
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

    /// Iterates over the places of fingerprints that match this hash.
    pub(super) fn matches(&self, hash: Hash) -> impl Iterator<Item = Place> {
        let minirun = self.minirun(hash);
        let start = self.first(minirun, |other| other.minirun >= minirun);
        let members = self.slots[start..].iter().map_while(|slot| *slot).enumerate();
        let members = members.take_while(move |(_, fingerprint)| fingerprint.minirun == minirun);
        let covering = members.filter(move |(_, fingerprint)| self.covers(fingerprint, hash));
        covering.map(move |(rank, _)| Place { slot: start + rank, minirun, rank: rank as u32 })
    }

    /// Returns the number of fingerprints in a minirun.
    pub(super) fn minirun_len(&self, minirun: u64) -> u32 {
        let start = self.first(minirun, |other| other.minirun >= minirun);
        (self.first(minirun, |other| other.minirun > minirun) - start) as u32
    }

    /// Lengthens a member's fingerprint until it no longer matches the mistake.
    pub(super) fn lengthen(&mut self, slot: usize, member: Hash, mistake: Hash) {
        let mut fingerprint = self.slots[slot].expect("a member's slot");
        assert!(self.covers(&fingerprint, member), "the map led to a different key");
        while self.covers(&fingerprint, mistake) {
            fingerprint.digits += 1;
            fingerprint.extension = self.extension(member, fingerprint.digits);
        }
        self.slots[slot] = Some(fingerprint);
    }

    /// Removes the entry in a slot. Returns the slot that is empty afterwards. All entries between
    /// these two have moved by one slot.
    pub(super) fn remove(&mut self, slot: usize) -> usize {
        let is_away = |(index, fingerprint): &(usize, Fingerprint)| {
            self.home(fingerprint.minirun) < slot + 1 + index
        };
        let following = self.slots[slot + 1..].iter().map_while(|slot| *slot).enumerate();
        let last = slot + following.take_while(is_away).count();
        self.slots.copy_within(slot + 1..=last, slot);
        self.slots[last] = None;
        last
    }

    /// Iterates over all slots, in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Option<&Fingerprint>> {
        self.slots.iter().map(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::random::Random;
    use super::*;

    /// Checks that the fingerprints are sorted, that none is before its home slot, and that there
    /// is no gap between a home slot and its fingerprints.
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
    fn fingerprints_are_sorted_and_close_to_their_home_slots() {
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
    fn lengthened_fingerprint_still_matches_its_member() {
        let mut slots = QuotientModel::new(8, 4);
        let [member, mistake] = [0x1234_5670, 0x1234_5671].map(|top| Hash::from_u128(top << 96));
        let (place, _) = slots.insert(member);
        assert_eq!(slots.matches(mistake).count(), 1);
        slots.lengthen(place.slot, member, mistake);
        assert_eq!((slots.matches(mistake).count(), slots.matches(member).count()), (0, 1));
    }
}
