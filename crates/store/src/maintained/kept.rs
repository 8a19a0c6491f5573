//! Counts the mistakes that guards and lists keep in memory. The stripes hold the mistakes.

use crate::stripes::{Locked, Mistakes};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use twiceshy::Hash;

/// The number of mistakes in all stripes, and their bytes. Reading these locks no stripe, because a
/// database call may hold a stripe for a long time.
#[derive(Default)]
pub(super) struct Kept {
    len: AtomicUsize,
    bytes: AtomicU64,
}

impl Kept {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds a mistake. Returns whether it is new.
    pub(super) fn insert(&self, locked: &mut Locked<'_>, mistake: Hash) -> bool {
        self.change(locked.stripe_mut(mistake), |mistakes| mistakes.insert(mistake))
    }

    /// Removes a mistake. Returns whether it was there.
    pub(super) fn remove(&self, locked: &mut Locked<'_>, mistake: Hash) -> bool {
        self.change(locked.stripe_mut(mistake), |mistakes| mistakes.remove(mistake))
    }

    /// Removes one mistake from the stripe of `mistake`, if possible a different one.
    pub(super) fn evict(&self, locked: &mut Locked<'_>, mistake: Hash) {
        self.change(locked.stripe_mut(mistake), |mistakes| mistakes.evict(mistake));
    }

    fn change<T>(&self, mistakes: &mut Mistakes, change: impl FnOnce(&mut Mistakes) -> T) -> T {
        let (len, bytes) = (mistakes.len(), mistakes.memory_usage());
        let changed = change(mistakes);
        // Both a negative difference and the sum wrap around, so the totals are right.
        self.len.fetch_add(mistakes.len().wrapping_sub(len), Ordering::Relaxed);
        self.bytes.fetch_add(mistakes.memory_usage().wrapping_sub(bytes), Ordering::Relaxed);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stripes::Stripes;

    #[test]
    fn counters_of_kept_mistakes_follow_inserts_and_removals() {
        let (stripes, kept): (Stripes, _) = (Stripes::new(), Kept::default());
        let hash = |number: u128| Hash::from_u128(number << 100);
        let mut locked = stripes.lock([Hash::MIN..=Hash::MAX]);
        assert_eq!((kept.len(), kept.bytes()), (0, 0));
        assert!((0..1000).all(|number| kept.insert(&mut locked, hash(number))));
        assert!(!kept.insert(&mut locked, hash(7)));
        assert!(kept.len() == 1000 && kept.bytes() > 16 * 1000 && kept.bytes() < 40 * 1000);
        assert!(kept.remove(&mut locked, hash(7)) && !kept.remove(&mut locked, hash(7)));
        kept.evict(&mut locked, hash(8));
        assert_eq!(kept.len(), 998);
        for number in 0..1000 {
            kept.remove(&mut locked, hash(number));
        }
        assert_eq!((kept.len(), kept.bytes()), (0, 0));
    }
}
