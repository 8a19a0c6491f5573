//! Makes the two maps of the split layout equal while the store is in use; see [`two_maps`]. Until the maps
//! are known to be equal, a key that the reverse map doesn't list isn't removed from the filter.

use super::Inner;
use crate::backend::{Backend, Keyspace};
use crate::census::Census;
use crate::error::Result;
use crate::sync::atomic::Ordering;
use crate::two_maps::{self, Difference};
use twiceshy::{Hash, concurrent::Shard};

impl<B: Backend, F: Shard> Inner<B, F> {
    /// Returns the census of all keys, or of only some keys if the store is being closed.
    pub(super) fn count_keys(&self) -> Result<Census> {
        let keys = two_maps::keys(&self.storage.backend, Keyspace::Keys);
        let hashes = keys.take_while(|_| !self.is_closing()).map(|key| Ok(self.hash(&key?)));
        hashes.sum()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    fn compared(&self) -> impl Iterator<Item = Result<Option<Difference>>> {
        two_maps::compared(&self.storage.backend, |key| Some(self.hash(key)))
    }

    /// Repairs all differences between the maps. Stops if the store is being closed.
    pub(super) fn reconcile(&self) -> Result<()> {
        for difference in self.compared().take_while(|_| !self.is_closing()) {
            match difference? {
                Some(difference) if difference.is_unlisted => self.list(&difference)?,
                Some(difference) => self.unlist(&difference)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Returns what is wrong with the two maps, if they differ.
    pub(super) fn find_difference(&self) -> Result<Option<&'static str>> {
        for difference in self.compared() {
            let Some(difference) = difference? else { continue };
            // Another thread may have been writing or removing the key during the comparison. So
            // look again under the lock.
            let is_still = || self.is_still(&difference);
            if self.maintained.while_locked(difference.hash, is_still)? {
                return Ok(Some(if difference.is_unlisted {
                    "a key is missing from the reverse map; rebuild the filter"
                } else {
                    "the reverse map lists an absent key; rebuild the filter"
                }));
            }
        }
        Ok(None)
    }

    pub(super) fn is_listed(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        two_maps::is_listed(&self.storage.backend, hash, key)
    }

    /// Returns whether the maps still differ in this key. The caller holds the stripe of the key.
    fn is_still(&self, Difference { hash, key, is_unlisted }: &Difference) -> Result<bool> {
        let [is_there, is_listed] = [self.is_there(*hash, key)?, self.is_listed(*hash, key)?];
        Ok(if *is_unlisted { is_there && !is_listed } else { is_listed && !is_there })
    }

    /// Adds a key to the reverse map and to the filter, unless it was removed or listed in the meantime.
    fn list(&self, difference: &Difference) -> Result<()> {
        self.maintained.write_if(
            self,
            difference.hash,
            || self.is_still(difference),
            || self.storage.write(&difference.correction()),
        )
    }

    /// Removes a member that isn't a key from the reverse map, but not from the filter. The filter may never
    /// have held that member, and then a matching fingerprint belongs to another member. Otherwise the member
    /// stays in the filter as a ghost.
    fn unlist(&self, difference: &Difference) -> Result<()> {
        self.maintained.leaving_ghost(
            difference.hash,
            || self.is_still(difference),
            || self.storage.write(&difference.correction()),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Fault, FaultyBackend};
    use crate::two_maps::Difference;
    use crate::{Layout, MemoryBackend, OpenOptions, Store};

    /// Another thread may have put the key again since the scan.
    #[test]
    fn unlist_keeps_an_existing_key_while_a_write_is_in_doubt() {
        let options = OpenOptions::new().capacity(100).layout(Layout::Split);
        let backend = FaultyBackend::new(MemoryBackend::new());
        let store: Store<_> = options.open_with(backend, None).unwrap();
        store.inner.storage.backend.fail_from(0, Fault::Before);
        store.put(b"bee", b"1").unwrap_err();
        store.inner.storage.backend.heal();
        store.put(b"ant", b"1").unwrap();
        let hash = store.inner.hash(b"ant");
        let difference = Difference { hash, key: b"ant"[..].into(), is_unlisted: false };
        store.inner.unlist(&difference).unwrap();
        store.rebuild().unwrap();
        assert!(store.contains(b"ant").unwrap());
    }
}
