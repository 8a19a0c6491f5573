//! Iterating over a list in hash order.

use super::ListStore;
use crate::backend::{Backend, Bytes};
use crate::error::Result;
use crate::kind::List;
use crate::layout;
use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::RangeInclusive;
use twiceshy::{Hash, Secret, hash::KeyedHasher, members::OrderedHashes};

const ALL: RangeInclusive<Hash> = Hash::MIN..=Hash::MAX;

/// Keys in the order of the first bytes of their hashes.
type Unsorted<'a> = Box<dyn Iterator<Item = Result<(Hash, Bytes)>> + Send + 'a>;

/// An iterator over the keys of a list with their hashes, in hash order.
pub struct Entries<'a> {
    rest: Peekable<Unsorted<'a>>,
    /// The next keys, in hash order. Their hashes all begin with the same bytes.
    near: VecDeque<(Hash, Bytes)>,
}

impl<'a> Entries<'a> {
    pub(super) fn of(backend: &'a impl Backend, hasher: &'a KeyedHasher, list: List) -> Self {
        let read = |key: &[u8]| Some((hasher.hash_bytes(key), Bytes::from(key)));
        let rest = layout::listed(backend, list.space(), &ALL, read);
        let rest: Unsorted<'a> = Box::new(rest);
        Self { rest: rest.peekable(), near: VecDeque::new() }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<(Hash, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.near.is_empty() {
            let first = match self.rest.next()? {
                Ok(first) => first,
                Err(error) => return Some(Err(error)),
            };
            let prefix = layout::prefix(first.0);
            let is_near = |next: &Result<(Hash, Bytes)>| {
                next.as_ref().is_ok_and(|(hash, _)| layout::prefix(*hash) == prefix)
            };
            self.near.push_back(first);
            while let Some(Ok(next)) = self.rest.next_if(is_near) {
                self.near.push_back(next);
            }
            self.near.make_contiguous().sort_unstable_by_key(|&(hash, _)| hash);
        }
        self.near.pop_front().map(Ok)
    }
}

/// The hashes of both lists at one moment, and their secret. A filter can be built from them.
#[derive(Clone, Debug)]
pub struct ListExport {
    /// The secret that keys are hashed with.
    pub secret: Secret,
    /// The hashes of the yes list.
    pub yes: OrderedHashes,
    /// The hashes of the no list.
    pub no: OrderedHashes,
}

impl<B: Backend> ListStore<B> {
    /// Returns the keys of a list with their hashes, in hash order. Keys that are added or removed during the
    /// iteration may or may not be returned.
    ///
    /// ```
    /// use twiceshy_store::{List, MemoryBackend, OpenOptions};
    /// let lists = OpenOptions::new().open_lists_with(MemoryBackend::new(), None)?;
    /// lists.add_many(List::No, ["one", "two", "three"])?;
    /// let entries = lists.entries(List::No).collect::<Result<Vec<_>, _>>()?;
    /// assert!(entries.len() == 3 && entries.is_sorted_by_key(|&(hash, _)| hash));
    /// # Ok::<(), twiceshy_store::StoreError>(())
    /// ```
    pub fn entries(&self, list: List) -> Entries<'_> {
        Entries::of(&self.storage.backend, &self.hasher, list)
    }

    /// Returns the hashes of both lists, as they are at one moment, and the secret. A filter that is built
    /// from these hashes needs neither the lists nor a disk. Writers wait in the meantime.
    ///
    /// ```
    /// use twiceshy::{QuotientFilter, Keyed};
    /// use twiceshy_store::{MemoryBackend, OpenOptions};
    /// let lists = OpenOptions::new().open_lists_with(MemoryBackend::new(), None)?;
    /// lists.add_yes(b"evil.example")?;
    /// lists.add_no(b"fine.example")?;
    ///
    /// let export = lists.export()?;
    /// let builder = QuotientFilter::builder().false_positive_rate(0.001);
    /// let filter = builder.build_sorted(|| export.yes.iter(), || export.no.iter())?;
    /// let filter: Keyed<[u8], _> = Keyed::new(filter, export.secret);
    /// assert!(filter.contains(b"evil.example") && !filter.contains(b"fine.example"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the backend fails.
    pub fn export(&self) -> Result<ListExport> {
        let locked = self.maintained.lock_all();
        let yes = self.entries(List::Yes).map(|entry| Ok(entry?.0)).collect::<Result<_>>()?;
        let no = locked.mistakes(&ALL).into_iter().collect();
        Ok(ListExport { secret: self.secret.clone(), yes, no })
    }
}
