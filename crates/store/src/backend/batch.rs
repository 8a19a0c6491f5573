//! Batches of changes.

use smallvec::SmallVec;

use super::{BackendError, Keyspace, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result};

/// A list of changes to one or more keyspaces, which [`Backend::write`] applies atomically.
///
/// All bytes are in one buffer, so a small batch allocates once. A batch that is reused after
/// [`clear`](Self::clear) allocates only if it outgrows the buffer.
///
/// [`Backend::write`]: super::Backend::write
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    changes: SmallVec<[Entry; 3]>,
    longest_key: usize,
    longest_value: usize,
}

/// One change of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The keyspace.
    pub space: Keyspace,
    /// The key.
    pub key: &'a [u8],
    /// The new value, or `None` to remove the key.
    pub value: Option<&'a [u8]>,
}

/// The position of a change in the buffer. The key begins where the previous entry ends, and the value
/// follows the key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    space: Keyspace,
    removes: bool,
    key_end: usize,
    end: usize,
}

impl Batch {
    /// Returns an empty batch.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), changes: SmallVec::new_const(), longest_key: 0, longest_value: 0 }
    }

    /// Returns an empty batch with room for `changes` changes. `bytes` is the expected total length
    /// of their keys and values.
    pub fn with_capacity(changes: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            changes: SmallVec::with_capacity(changes),
            ..Self::new()
        }
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, space: Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(space, [&[], key.as_ref()], Some(value.as_ref()));
    }

    /// Sets the value of a key that is given in two parts.
    pub(crate) fn insert_joined(&mut self, space: Keyspace, key: [&[u8]; 2], value: &[u8]) {
        self.push(space, key, Some(value));
    }

    /// Removes a key and its value.
    pub fn remove(&mut self, space: Keyspace, key: impl AsRef<[u8]>) {
        self.push(space, [&[], key.as_ref()], None);
    }

    fn push(&mut self, space: Keyspace, key: [&[u8]; 2], value: Option<&[u8]>) {
        for part in key {
            self.bytes.extend_from_slice(part);
        }
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let end = self.bytes.len();
        self.changes.push(Entry { space, removes: value.is_none(), key_end, end });
        self.longest_key = self.longest_key.max(key[0].len() + key[1].len());
        self.longest_value = self.longest_value.max(end - key_end);
    }

    /// Returns the changes in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        let mut start = 0;
        self.changes.iter().map(move |&Entry { space, removes, key_end, end }| {
            let key = &self.bytes[start..key_end];
            let value = (!removes).then_some(&self.bytes[key_end..end]);
            start = end;
            Change { space, key, value }
        })
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the total length of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all changes and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
        self.longest_key = 0;
        self.longest_value = 0;
    }

    /// Returns an error if a key exceeds `MAX_KEY_BYTES` or a value exceeds `MAX_VALUE_BYTES`.
    pub(super) fn check(&self) -> Result<()> {
        if self.longest_key > MAX_KEY_BYTES {
            return Err(BackendError::KeyTooLong { bytes: self.longest_key });
        }
        if self.longest_value > MAX_VALUE_BYTES {
            return Err(BackendError::ValueTooLong { bytes: self.longest_value });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iter_returns_changes_in_the_order_they_were_added() {
        let mut batch = Batch::new();
        batch.insert(Keyspace::Members, "key", "value");
        batch.insert(Keyspace::Keys, "", "");
        batch.remove(Keyspace::Meta, "gone");
        let change = |space, key, value| Change { space, key, value };
        assert!(batch.iter().eq([
            change(Keyspace::Members, &b"key"[..], Some(&b"value"[..])),
            change(Keyspace::Keys, b"", Some(b"")),
            change(Keyspace::Meta, b"gone", None),
        ]));
        assert_eq!((batch.len(), batch.bytes()), (3, 12));
        batch.clear();
        assert!(batch.is_empty() && batch.iter().next().is_none());
    }

    #[test]
    fn value_over_the_limit_is_refused() {
        // A value over the limit would take too much memory, so the test sets only the batch's
        // record of its longest value.
        let batch = Batch { longest_value: MAX_VALUE_BYTES + 1, ..Batch::new() };
        assert!(matches!(batch.check(), Err(BackendError::ValueTooLong { .. })));
        assert!(Batch { longest_value: MAX_VALUE_BYTES, ..Batch::new() }.check().is_ok());
    }
}
