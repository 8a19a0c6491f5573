//! Comparing a map of keys with the reverse map, which lists the same keys by their hashes.
//!
//! The two maps are written together. But if the engine's journal is damaged, one map may have lost pairs
//! whose counterparts in the other map are already in tables. Then keys would be missing from a filter that
//! is built from the reverse map. So a filter that is built when a store is opened isn't trusted until its
//! members are known to be the keys. To find out, the store compares a census of each map. If the two differ,
//! it compares the maps key by key.

use crate::backend::{Backend, Batch, Bytes, Keyspace, Unbounded};
use crate::error::Result;
use crate::layout;
use twiceshy::Hash;

/// A key that is in only one of the two maps.
pub(crate) struct Difference {
    pub(crate) hash: Hash,
    pub(crate) key: Bytes,
    /// Whether the reverse map lacks the key. Otherwise the map of keys lacks it.
    pub(crate) is_unlisted: bool,
}

/// Returns all keys of one of the maps.
pub(crate) fn keys(backend: &impl Backend, space: Keyspace) -> impl Iterator<Item = Result<Bytes>> {
    backend.range(space, (Unbounded, Unbounded)).map(|pair| Ok(pair?.0))
}

/// Returns whether a key is in the reverse map.
pub(crate) fn is_listed(backend: &impl Backend, hash: Hash, key: &[u8]) -> Result<bool> {
    Ok(backend.get(Keyspace::Members, &layout::member_key(hash, key))?.is_some())
}

/// Compares each key with the reverse map, and each member with the map of keys. Returns the difference for
/// each entry that one map lacks, and `None` for each other entry. `hash` returns the hash of a key, or
/// `None` for a key that no store has written.
pub(crate) fn compared(
    backend: &impl Backend,
    hash: impl Fn(&[u8]) -> Option<Hash>,
) -> impl Iterator<Item = Result<Option<Difference>>> {
    let spaces = [Keyspace::Keys, Keyspace::Members].into_iter();
    spaces.flat_map(|space| keys(backend, space).map(move |key| (space, key))).map(
        move |(space, key)| {
            let (key, is_unlisted) = (key?, space == Keyspace::Keys);
            let user_key = if is_unlisted { Some(&*key) } else { layout::user_key(&key) };
            let hashed = user_key.and_then(|user_key| Some((hash(user_key)?, user_key)));
            let Some((hash, user_key)) = hashed else { return Ok(None) };
            let is_in_both = if is_unlisted {
                is_listed(backend, hash, user_key)?
            } else {
                // Skip members that no store has written.
                !key.starts_with(&layout::prefix(hash))
                    || backend.get(Keyspace::Keys, user_key)?.is_some()
            };
            let difference = || Difference { hash, key: Bytes::from(user_key), is_unlisted };
            Ok((!is_in_both).then(difference))
        },
    )
}

impl Difference {
    /// Returns a batch that makes the maps equal. It changes the reverse map, because the map of keys is
    /// right.
    pub(crate) fn correction(&self) -> Batch {
        let member = layout::member_key(self.hash, &self.key);
        let mut batch = Batch::new();
        if self.is_unlisted {
            batch.insert(Keyspace::Members, member, b"");
        } else {
            batch.remove(Keyspace::Members, member);
        }
        batch
    }
}
