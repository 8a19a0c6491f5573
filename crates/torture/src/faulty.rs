//! A backend in memory with injected faults.
//!
//! It separates the data on disk from the visible data. A *hidden* write is on disk, and becomes
//! visible after reopening. A *late* write arrives when the test tells it to.

use crate::plan::{Counts, Fault};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::panic::panic_any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::panicking;
use twiceshy_store::backend::{BackendClaim, Bounds, Claims, Result, Scan};
use twiceshy_store::{Backend, BackendError, Batch, Bytes, Durability, Keyspace};

type Maps = [BTreeMap<Vec<u8>, Vec<u8>>; Keyspace::ALL.len()];

#[derive(Debug, Default)]
pub(crate) struct Faulty {
    state: Mutex<State>,
    claims: Claims,
}

#[derive(Debug, Default)]
struct State {
    disk: Maps,
    visible: Maps,
    late: Vec<Batch>,
    copies: HashMap<PathBuf, Maps>,
    operations: u64,
    /// The number of operations that were writes.
    writes: u64,
    armed: Option<Armed>,
    hits: u64,
    /// Which write of pairs is acknowledged but not done, counted from 1.
    lie: Option<u64>,
    /// The number of writes of pairs so far.
    pair_writes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    fault: Fault,
    /// The number of operations until the fault hits.
    left: u64,
    lasts: bool,
}

impl Faulty {
    pub(crate) fn new(lie: Option<u64>) -> Arc<Self> {
        let state = State { lie, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), claims: Claims::new() })
    }

    fn of(maps: Maps) -> Arc<Self> {
        let state = State { disk: maps.clone(), visible: maps, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), claims: Claims::new() })
    }

    /// Injects a fault into the n-th operation from now on that the fault can hit. If `lasts`, all
    /// later operations fail, too.
    pub(crate) fn arm(&self, fault: Fault, n: u64, lasts: bool) {
        self.state().armed = Some(Armed { fault, left: n, lasts });
    }

    pub(crate) fn heal(&self) {
        self.state().armed = None;
    }

    /// Returns, for each fault, the number of operations since the last call that the fault can
    /// hit.
    pub(crate) fn take_counts(&self) -> Counts {
        let state = &mut *self.state();
        let (operations, writes) =
            (std::mem::take(&mut state.operations), std::mem::take(&mut state.writes));
        Counts::new(|fault| match fault {
            Fault::NotDone | Fault::Done | Fault::Panic | Fault::PanicDone => operations,
            Fault::Hidden | Fault::Late => writes,
            _ => 0,
        })
    }

    /// Returns the number of faults since the last call.
    pub(crate) fn take_hits(&self) -> u64 {
        std::mem::take(&mut self.state().hits)
    }

    /// Makes everything on disk visible.
    pub(crate) fn reopen(&self) {
        let state = &mut *self.state();
        state.visible = state.disk.clone();
    }

    /// Applies late writes, and makes hidden ones visible. Returns whether there was a late write.
    pub(crate) fn arrive(&self) -> bool {
        let state = &mut *self.state();
        let late = std::mem::take(&mut state.late);
        for batch in &late {
            apply(&mut state.disk, batch);
        }
        state.visible = state.disk.clone();
        !late.is_empty()
    }

    /// Returns another backend with the same disk contents.
    pub(crate) fn after_crash(&self) -> Arc<Self> {
        Self::of(self.state().disk.clone())
    }

    /// Returns the copy that was made at a path.
    pub(crate) fn copy(&self, path: &Path) -> Option<Arc<Self>> {
        self.state().copies.get(path).cloned().map(Self::of)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation that does not write, and runs it unless a fault hits it.
    fn operate<T>(&self, operation: &'static str, act: impl FnOnce(&mut State) -> T) -> Result<T> {
        let state = &mut *self.state();
        match state.next_fault(false) {
            None => Ok(act(state)),
            Some(fault) => {
                if matches!(fault, Fault::Done | Fault::PanicDone) {
                    act(state);
                }
                Err(fail(fault, operation))
            }
        }
    }
}

impl State {
    /// Counts an operation. Returns the fault that hits it, if any.
    fn next_fault(&mut self, writes: bool) -> Option<Fault> {
        self.operations += 1;
        self.writes += u64::from(writes);
        let armed = self.armed.as_mut()?;
        if !writes && armed.fault.is_of_writes() {
            return None;
        }
        if armed.left > 0 {
            armed.left -= 1;
            return None;
        }
        self.hits += 1;
        let Armed { fault, lasts, .. } = *armed;
        if !lasts {
            self.armed = None;
        }
        Some(fault)
    }
}

fn apply(maps: &mut Maps, batch: &Batch) {
    for change in batch.iter() {
        let map = &mut maps[change.space as usize];
        match change.value {
            Some(value) => _ = map.insert(change.key.to_vec(), value.to_vec()),
            None => _ = map.remove(change.key),
        }
    }
}

/// The error of a write that was certainly not done.
const NOT_DONE: &str = "injected, not done";

/// Returns whether a failed write was certainly not done.
pub(crate) fn is_not_done(error: &BackendError) -> bool {
    matches!(error, BackendError::Io { source, .. } if source.to_string() == NOT_DONE)
}

/// The payload of the backend's panics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Injected {
    pub(crate) operation: &'static str,
}

impl Injected {
    pub(crate) fn is_write(self) -> bool {
        self.operation == WRITE
    }
}

const WRITE: &str = "write to";

/// Returns the error of a fault, or panics. During another panic, returns an error, because two panics
/// would abort the process.
fn fail(fault: Fault, operation: &'static str) -> BackendError {
    let why = match fault {
        Fault::Panic | Fault::PanicDone if !panicking() => panic_any(Injected { operation }),
        Fault::NotDone if operation == WRITE => NOT_DONE,
        _ => "injected",
    };
    let source = io::Error::other(why);
    BackendError::Io { operation, path: PathBuf::from("memory"), source }
}

impl Backend for Faulty {
    fn claim(&self) -> Result<BackendClaim> {
        self.claims.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        self.operate("read from", |state| {
            state.visible[space as usize].get(key).map(|value| Bytes::from(&value[..]))
        })
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        let is_empty = match bounds {
            (std::ops::Bound::Included(first), std::ops::Bound::Included(last)) => first > last,
            _ => false,
        };
        let pairs: Vec<(Bytes, Bytes)> = if is_empty {
            Vec::new()
        } else {
            let state = self.state();
            let pairs = state.visible[space as usize].range::<[u8], _>(bounds);
            pairs.map(|(key, value)| (Bytes::from(&key[..]), Bytes::from(&value[..]))).collect()
        };
        Box::new(Steps { backend: self, pairs: pairs.into_iter() })
    }

    fn write(&self, batch: &Batch, _: Durability) -> Result<()> {
        let state = &mut *self.state();
        let fault = state.next_fault(true);
        // Lie only about writes of pairs. Without their own metadata, stores could not be opened.
        let has_pairs = batch.iter().any(|change| change.space != Keyspace::Meta);
        state.pair_writes += u64::from(has_pairs);
        let is_lie = has_pairs && state.lie == Some(state.pair_writes);
        let is_done = matches!(fault, None | Some(Fault::Done | Fault::PanicDone));
        if !is_lie && (is_done || fault == Some(Fault::Hidden)) {
            apply(&mut state.disk, batch);
        }
        if !is_lie && is_done {
            apply(&mut state.visible, batch);
        }
        if fault == Some(Fault::Late) {
            state.late.push(batch.clone());
        }
        fault.map_or(Ok(()), |fault| Err(fail(fault, WRITE)))
    }

    fn sync(&self) -> Result<()> {
        self.operate("sync", |_| ())
    }

    fn flush(&self) -> Result<()> {
        self.operate("flush", |_| ())
    }

    fn compact(&self) -> Result<()> {
        self.operate("compact", |_| ())
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.operate("measure", |_| 0)
    }

    fn backup(&self, to: &Path) -> Result<()> {
        self.operate("back up", |state| {
            state.copies.insert(to.to_owned(), state.visible.clone());
        })
    }
}

/// An iterator over the pairs at one moment. Each step may fail.
struct Steps<'a> {
    backend: &'a Faulty,
    pairs: std::vec::IntoIter<(Bytes, Bytes)>,
}

impl Steps<'_> {
    fn step(
        &mut self,
        step: impl FnOnce(&mut std::vec::IntoIter<(Bytes, Bytes)>) -> Option<(Bytes, Bytes)>,
    ) -> Option<Result<(Bytes, Bytes)>> {
        let fault = self.backend.state().next_fault(false);
        match fault {
            None => step(&mut self.pairs).map(Ok),
            Some(fault @ (Fault::Done | Fault::PanicDone)) => {
                step(&mut self.pairs).map(|_| Err(fail(fault, "scan")))
            }
            Some(fault) => Some(Err(fail(fault, "scan"))),
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Iterator::next)
    }
}

impl DoubleEndedIterator for Steps<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(DoubleEndedIterator::next_back)
    }
}
