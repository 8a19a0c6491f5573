//! Rebuilding and validating the filter.

use super::ListStore;
use crate::backend::Backend;
use crate::error::{Result, StoreError};
use crate::kind::List;
use twiceshy::Hash;

impl<B: Backend> ListStore<B> {
    /// Rebuilds the filter from the lists, shard by shard, while the store is in use. This clears *ghosts*,
    /// which are fingerprints without a key.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn rebuild(&self) -> Result<()> {
        // Without this, the next open would load the old filter.
        self.storage.invalidate_saved()?;
        self.maintained.rebuild_all(self, || Ok(()), || true, |_| ())
    }

    /// Checks every invariant of the filter, that the filter is right about each key on disk, and
    /// that no key is on both lists. Writes wait in the meantime; lookups don't. For tests, and for
    /// diagnosing suspected damage.
    ///
    /// Keys of a failed write are not checked until the store is opened again.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] says what is wrong. If the backend fails, its error.
    pub fn validate(&self) -> Result<()> {
        let name = |key: &[u8]| key.escape_ascii().to_string();
        let invalid = |what: String| Err(StoreError::Invalid(what));
        let locked = self.maintained.lock_all();
        let filter = &self.maintained.filter;
        if let Err(broken) = filter.validate() {
            return invalid(broken.to_string());
        }
        for entry in self.entries(List::Yes) {
            let (hash, key) = entry?;
            if !filter.contains(hash) {
                return invalid(format!("{} is on the yes list, but answered \"no\"", name(&key)));
            }
            if locked.has_mistake(hash) {
                return invalid(format!("{} is on both lists", name(&key)));
            }
        }
        let is_doubtful = self.storage.is_doubtful();
        let mut no = 0;
        for entry in self.entries(List::No) {
            let (hash, key) = entry?;
            no += 1;
            if filter.contains(hash) && (locked.has_mistake(hash) || !is_doubtful) {
                return invalid(format!("{} is on the no list, but answered \"yes\"", name(&key)));
            }
            if !locked.has_mistake(hash) && !is_doubtful {
                return invalid(format!("{} is on the no list, but not in memory", name(&key)));
            }
        }
        let kept = locked.mistakes(&(Hash::MIN..=Hash::MAX)).len();
        if kept != no && !is_doubtful {
            return invalid(format!(
                "{kept} keys of the no list are in memory, but {no} are on disk"
            ));
        }
        Ok(())
    }
}
