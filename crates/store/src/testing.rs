//! Backends for tests, and a look at the filter of a store.

use crate::Store;
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use twiceshy::concurrent::Shard;

use crate::backend::{
    Backend, BackendClaim, BackendError, Batch, Bounds, Bytes, Change, Durability, Keyspace,
    Result, Scan,
};

/// Saves the filter of a store to a file that a [`Concurrent`](twiceshy::Concurrent) filter can be opened
/// from. Tests compare it with a model.
///
/// # Errors
/// [`StoreError::Unready`](crate::StoreError::Unready) until the filter is
/// [ready](Store::wait_until_ready); or if the file can't be written.
pub fn save_filter<B: Backend, F: Shard>(
    store: &Store<B, F>,
    path: impl AsRef<Path>,
) -> crate::Result<()> {
    store.save_filter(path.as_ref())
}

/// The way an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails and isn't done.
    Before,
    /// The operation is done, but returns an error.
    After,
    /// A write returns an error, and takes effect only after [reopening](FaultyBackend::reopen), like a write
    /// that is only in an engine's journal. A later write of the same key wins. Any other operation fails as
    /// with [`After`](Self::After), and a step of a scan fails as with [`Before`](Self::Before).
    Late,
    /// The operation is done and then panics. Engines may panic at damaged files.
    Panic,
}

/// A backend that fails on request.
///
/// Each call and each step of a scan counts as one operation. Counting starts at 0.
///
/// ```
/// use twiceshy_store::testing::{Fault, FaultyBackend};
/// use twiceshy_store::{Backend, Batch, Durability, Keyspace, MemoryBackend};
///
/// let backend = FaultyBackend::new(MemoryBackend::new());
/// let mut batch = Batch::new();
/// batch.insert(Keyspace::Meta, "a", "1");
/// backend.fail_at(1, Fault::After);
/// assert!(backend.get(Keyspace::Meta, b"a").is_ok());
/// assert!(backend.write(&batch, Durability::Synced).is_err());
/// assert!(backend.get(Keyspace::Meta, b"a").unwrap().is_some(), "the write was done, but returned an
/// error");
/// assert_eq!(backend.operations(), 3);
/// ```
#[derive(Debug)]
pub struct FaultyBackend<B> {
    inner: B,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    operations: u64,
    plan: Option<Plan>,
    scans_fail: bool,
    /// Changes that become visible after reopening.
    late: BTreeMap<(Keyspace, Vec<u8>), Option<Vec<u8>>>,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    first: u64,
    last: u64,
    fault: Fault,
}

impl<B> FaultyBackend<B> {
    /// Wraps a backend. No operation fails yet.
    pub fn new(inner: B) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// Makes one operation fail: the one after the next `n` operations.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        self.plan(n, n, fault);
    }

    /// Makes all operations fail after the next `n`.
    pub fn fail_from(&self, n: u64, fault: Fault) {
        self.plan(n, u64::MAX, fault);
    }

    fn plan(&self, first: u64, last: u64, fault: Fault) {
        let mut state = self.state();
        let now = state.operations;
        let plan = Plan { first: now + first, last: last.saturating_add(now), fault };
        state.plan = Some(plan);
    }

    /// Sets whether all scans fail.
    pub fn fail_scans(&self, fail: bool) {
        self.state().scans_fail = fail;
    }

    /// Stops making operations fail.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.plan, state.scans_fail) = (None, false);
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Returns the wrapped backend.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Unwraps the backend, for example to open it again.
    pub fn into_inner(self) -> B {
        self.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation. Returns its fault, or `None` if it doesn't fail.
    fn next_fault(&self) -> Option<Fault> {
        let mut state = self.state();
        let now = state.operations;
        state.operations += 1;
        state.plan.filter(|plan| (plan.first..=plan.last).contains(&now)).map(|plan| plan.fault)
    }

    fn operate<T>(&self, operation: &'static str, act: impl FnOnce(&B) -> Result<T>) -> Result<T> {
        match self.next_fault() {
            None => act(&self.inner),
            Some(Fault::Before) => Err(injected(operation)),
            Some(Fault::After | Fault::Late) => {
                act(&self.inner).and_then(|_| Err(injected(operation)))
            }
            Some(Fault::Panic) => act(&self.inner).and_then(|_| panics()),
        }
    }

    /// Records changes that take effect only after reopening. If `is_late` is false, the changes were made
    /// already, so this drops earlier late changes of the same keys.
    fn note(&self, batch: &Batch, is_late: bool) {
        let mut state = self.state();
        for Change { space, key, value } in batch.iter() {
            let key = (space, key.to_vec());
            if is_late {
                state.late.insert(key, value.map(<[u8]>::to_vec));
            } else {
                state.late.remove(&key);
            }
        }
    }
}

fn panics() -> ! {
    panic!("injected panic")
}

fn injected(operation: &'static str) -> BackendError {
    let source = io::Error::other("injected failure");
    BackendError::Io { operation, path: PathBuf::from("a faulty backend"), source }
}

impl<B: Backend> FaultyBackend<B> {
    /// Makes visible the writes that failed with [`Fault::Late`], as reopening an engine does.
    ///
    /// # Errors
    ///
    /// If the wrapped backend fails.
    pub fn reopen(&self) -> Result<()> {
        let late = std::mem::take(&mut self.state().late);
        let mut batch = Batch::new();
        for ((space, key), value) in late {
            match value {
                Some(value) => batch.insert(space, key, value),
                None => batch.remove(space, key),
            }
        }
        self.inner.write(&batch, Durability::Synced)
    }
}

impl<B: Backend> Backend for FaultyBackend<B> {
    fn claim(&self) -> Result<BackendClaim> {
        self.inner.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        self.operate("read from", |inner| inner.get(space, key))
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        Box::new(FaultyScan { backend: self, scan: self.inner.range(space, bounds) })
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        let write = || self.inner.write(batch, durability).map(|()| self.note(batch, false));
        match self.next_fault() {
            None => write(),
            Some(Fault::Before) => Err(injected("write to")),
            Some(Fault::After) => write().and_then(|()| Err(injected("write to"))),
            Some(Fault::Late) => {
                self.note(batch, true);
                Err(injected("write to"))
            }
            Some(Fault::Panic) => write().and_then(|()| panics()),
        }
    }

    fn sync(&self) -> Result<()> {
        self.operate("sync", B::sync)
    }

    fn flush(&self) -> Result<()> {
        self.operate("flush", B::flush)
    }

    fn compact(&self) -> Result<()> {
        self.operate("compact", B::compact)
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.operate("measure", B::bytes_on_disk)
    }

    fn backup(&self, to: &Path) -> Result<()> {
        self.operate("back up", |inner| inner.backup(to))
    }
}

struct FaultyScan<'a, B> {
    backend: &'a FaultyBackend<B>,
    scan: Scan<'a>,
}

impl<'a, B> FaultyScan<'a, B> {
    fn step(
        &mut self,
        step: impl FnOnce(&mut Scan<'a>) -> Option<Result<(Bytes, Bytes)>>,
    ) -> Option<Result<(Bytes, Bytes)>> {
        let fault = self.backend.next_fault();
        if self.backend.state().scans_fail {
            return Some(Err(injected("scan")));
        }
        // With `Fault::After`, the scan reads a pair, but returns an error instead. It doesn't
        // return the pair later.
        match fault {
            None => step(&mut self.scan),
            Some(Fault::Before | Fault::Late) => Some(Err(injected("scan"))),
            Some(Fault::After) => step(&mut self.scan).map(|_| Err(injected("scan"))),
            Some(Fault::Panic) => panics(),
        }
    }
}

impl<B> Iterator for FaultyScan<'_, B> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Iterator::next)
    }
}

impl<B> DoubleEndedIterator for FaultyScan<'_, B> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(DoubleEndedIterator::next_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryBackend;
    use crate::backend::Unbounded;

    fn one_pair() -> Batch {
        let mut batch = Batch::new();
        batch.insert(Keyspace::Members, "a", "1");
        batch
    }

    fn is_there(backend: &FaultyBackend<MemoryBackend>) -> bool {
        backend.inner().get(Keyspace::Members, b"a").unwrap().is_some()
    }

    #[test]
    fn fail_at_makes_only_one_operation_fail() {
        for n in 0..5 {
            let backend = FaultyBackend::new(MemoryBackend::new());
            backend.fail_at(n, Fault::Before);
            let failures = (0..5).map(|_| backend.sync().is_err());
            assert!(failures.eq((0..5).map(|i| i == n)));
        }
    }

    #[test]
    fn injected_fault_occurs_before_or_after_the_write() {
        let backend = FaultyBackend::new(MemoryBackend::new());
        backend.fail_from(0, Fault::Before);
        assert!(backend.write(&one_pair(), Durability::Buffered).is_err());
        assert!(!is_there(&backend));
        backend.fail_from(0, Fault::After);
        assert!(backend.write(&one_pair(), Durability::Buffered).is_err());
        assert!(is_there(&backend));
        assert!(backend.get(Keyspace::Members, b"a").is_err());
        backend.heal();
        assert!(backend.get(Keyspace::Members, b"a").unwrap().is_some());
    }

    #[test]
    fn late_write_takes_effect_after_reopening_unless_overwritten() {
        let backend = FaultyBackend::new(MemoryBackend::new());
        backend.fail_at(0, Fault::Late);
        assert!(backend.write(&one_pair(), Durability::Buffered).is_err());
        assert!(!is_there(&backend));
        backend.reopen().unwrap();
        assert!(is_there(&backend));

        let mut removal = Batch::new();
        removal.remove(Keyspace::Members, "a");
        backend.fail_at(0, Fault::Late);
        assert!(backend.write(&removal, Durability::Buffered).is_err());
        backend.write(&one_pair(), Durability::Buffered).unwrap();
        backend.reopen().unwrap();
        assert!(is_there(&backend), "the write came after the removal");
    }

    #[test]
    fn scan_fails_at_the_chosen_step() {
        let backend = FaultyBackend::new(MemoryBackend::new());
        backend.write(&one_pair(), Durability::Buffered).unwrap();
        for (n, fault, expected) in [
            (0, Fault::Before, vec![false, true]),
            (0, Fault::After, vec![false]),
            (1, Fault::Before, vec![true, false]),
            (2, Fault::Before, vec![true]),
        ] {
            backend.fail_at(n, fault);
            let scan = backend.range(Keyspace::Members, (Unbounded, Unbounded));
            assert_eq!(scan.map(|pair| pair.is_ok()).collect::<Vec<_>>(), expected);
            backend.heal();
        }
    }
}
