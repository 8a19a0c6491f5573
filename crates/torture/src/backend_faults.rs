//! Injects faults into backend operations, in this process.

use crate::coverage::Coverage;
use crate::faulty::Faulty;
use crate::model::{Checked, Model};
use crate::plan::{Counts, Ending, Fault, Plan, Shot, StoreKind};
use crate::random::Random;
use crate::script::{KEYS, Key, Op, REMOVE_IN_DOUBT, aftermath, before_arrival, script};
use crate::session::{Outcome, Place, Session, questions};
use crate::stores::{Opened, Style, Target};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store in memory, with or without a directory for saved filters.
struct Memory {
    backend: Arc<Faulty>,
    files: Option<PathBuf>,
}

impl Place for Memory {
    fn open(&self, style: &Style) -> Opened {
        self.backend.reopen();
        style.open_with(Arc::clone(&self.backend), self.files.as_deref())
    }

    fn open_copy(&self, path: &Path, style: &Style) -> Opened {
        let copy = self.backend.copy(path).expect("a copy that was made");
        style.open_with(copy, None)
    }

    fn crash(&self, target: Option<Box<dyn Target>>) {
        self.backend.arm(Fault::NotDone, 0, true);
        drop(target);
        self.backend.heal();
        self.backend.take_counts();
        self.backend.take_hits();
    }

    /// Does nothing, because faults hit neither copies nor files.
    fn pause(&self, _: bool) {}
}

impl Memory {
    /// Returns a store with a copy of the data that a crash would leave.
    fn after_crash(&self, scratch: &Path) -> Self {
        let files = self.files.as_ref().map(|files| {
            let copy = scratch.join("after-crash");
            fs::create_dir_all(&copy).expect("disk space");
            for file in fs::read_dir(files).into_iter().flatten().flatten() {
                fs::copy(file.path(), copy.join(file.file_name())).expect("disk space");
            }
            copy
        });
        Self { backend: self.backend.after_crash(), files }
    }
}

/// Runs a case. Returns the number of backend operations in each step.
///
/// If `lie` is given, the backend acknowledges the write with this number without doing it, and then the case
/// must fail.
///
/// # Errors
/// Returns a description of the broken promise.
pub(crate) fn run(
    plan: &Plan,
    lie: Option<u64>,
    scratch: &Path,
    coverage: &mut Coverage,
) -> Result<Vec<Counts>, String> {
    let Plan { store, seed, .. } = *plan;
    let place =
        Memory { backend: Faulty::new(lie), files: plan.saves.then(|| scratch.join("store")) };
    let backend = &place.backend;
    let mut style = Style::new(store, seed, scratch);
    let mut random = Random::new(seed ^ plan.shot.map_or(0, |shot| !shot.step as u64));
    style.max_doubts = *random.choose(&[0, 1, 1000]);
    let mut session = Session::new(&place, &style, Model::new(store));
    let mut counts = Vec::new();
    for (at, op) in script(store, seed).iter().enumerate() {
        let Some(shot) = plan.shot.filter(|shot| shot.step == at) else {
            if let Outcome::Failed(failure) = session.step(op)?
                && !reports_readiness(op)
            {
                return Err(format!("{op:?} failed without a fault: {}", failure.text));
            }
            counts.push(backend.take_counts());
            continue;
        };
        let after = aftermath(store, seed, at, op);
        let mut attack = Attack { shot, store, backend, coverage, hits: 0, random: random.clone() };
        let attacked = attack.run(&mut session, op, &after);
        if attacked.is_err() {
            // Returning the error drops the store, which must not panic.
            backend.heal();
        }
        attacked?;
        coverage.totals.misses += u64::from(attack.hits == 0);
        break;
    }
    coverage.totals.operations += session.operations;
    coverage.tended(store, &session.upkeep);
    let ending = plan.shot.map_or(Ending::Close, |shot| shot.ending);
    let end = match ending {
        Ending::Crash => {
            let after = place.after_crash(scratch);
            backend.arm(Fault::NotDone, 0, true);
            after
        }
        Ending::Drop | Ending::Close => {
            let op = if ending == Ending::Drop { Op::Drop } else { Op::Close };
            session.step(&op)?;
            if let Some(Shot { fault, .. }) = plan.shot {
                coverage.hit(store, op.name(store), fault, backend.take_hits());
            }
            backend.heal();
            Memory { backend: Arc::clone(backend), files: place.files.clone() }
        }
    };
    let model = session.model.clone();
    drop(session);
    let mut session = Session::new(&end, &style, model);
    coverage.totals.reopenings += 2;
    let inspected = inspect_twice(&mut session);
    coverage.totals.operations += session.operations;
    coverage.tended(store, &session.upkeep);
    inspected.map(|()| counts)
}

/// Checks everything, closes the store, and checks everything again.
pub(crate) fn inspect_twice(session: &mut Session<'_>) -> Checked {
    let when = |when: &'static str| move |problem: String| format!("{when}: {problem}");
    session.inspect().map_err(when("after reopening"))?;
    session.must(&Op::Close).map_err(when("after reopening"))?;
    session.inspect().map_err(when("after reopening twice"))
}

/// Returns whether an operation may fail because the filter is not built yet, or could not be built
/// in the background.
fn reports_readiness(op: &Op) -> bool {
    matches!(op, Op::Ready | Op::SaveFilter)
}

/// A session with one fault, and with the operations that follow the fault.
struct Attack<'a> {
    shot: Shot,
    store: StoreKind,
    backend: &'a Faulty,
    coverage: &'a mut Coverage,
    hits: u64,
    random: Random,
}

impl Attack<'_> {
    fn run(&mut self, session: &mut Session<'_>, op: &Op, after: &[Op]) -> Checked {
        let Shot { fault, n, lasts, .. } = self.shot;
        self.backend.take_hits();
        self.backend.arm(fault, n, lasts);
        self.step(session, op)?;
        for op in after {
            // If the store cannot be opened, the next attempt may succeed.
            self.step(session, &Op::Open)?;
            if session.is_open() {
                self.step(session, op)?;
            }
        }
        if !lasts && session.is_open() {
            for op in questions(self.store) {
                self.step(session, &op)?;
            }
        }
        if session.model.doubts.is_empty() {
            return Ok(());
        }
        self.backend.heal();
        self.doubt(session).map_err(|problem| format!("with writes in doubt: {problem}"))
    }

    fn step(&mut self, session: &mut Session<'_>, op: &Op) -> Checked {
        let was_hit = self.hits > 0;
        let name = match op {
            Op::Delete(key, _) if session.model.doubts.contains(key) => REMOVE_IN_DOUBT,
            op => op.name(self.store),
        };
        let outcome = session.step(op)?;
        let hits = self.backend.take_hits();
        self.coverage.hit(self.store, name, self.shot.fault, hits);
        self.hits += hits;
        match outcome {
            Outcome::Failed(failure) if was_hit && !self.shot.lasts && !reports_readiness(op) => {
                Err(format!("{op:?} failed after the only fault: {}", failure.text))
            }
            _ => Ok(()),
        }
    }

    /// Uses a guard before and after its writes in doubt arrive, and while they are being settled.
    fn doubt(&mut self, session: &mut Session<'_>) -> Checked {
        let doubts: Vec<Key> = session.model.doubts.iter().copied().collect();
        for op in before_arrival(&mut self.random, &doubts) {
            self.attack(session, &op)?;
            ask_all(session)?;
        }
        let is_late = self.backend.arrive();
        let pairs = session.contents()?;
        if is_late {
            session.model.assume(&pairs);
        } else {
            session.model.settle(&pairs)?;
        }
        ask_all(session).map_err(|problem| format!("after a late write: {problem}"))?;
        let doubts: Vec<Key> = session.model.doubts.iter().copied().collect();
        let leaves_some = self.random.one_in(2);
        let mut settling: Vec<Op> = doubts.iter().map(|&key| Op::Settle(key)).collect();
        settling.retain(|_| !leaves_some || self.random.one_in(2));
        for op in settling.iter().chain([&Op::SettleAll]) {
            self.attack(session, op)?;
            // The attacked operation may have failed, or may have been done in part, so repeat it.
            session.must(op)?;
            ask_all(session).map_err(|problem| format!("after {op:?}: {problem}"))?;
        }
        for key in doubts {
            session.must(&Op::Delete(key, 0))?;
            session.must(&Op::Put(key, 0))?;
        }
        session.must(&Op::Rebuild)?;
        ask_all(session)
    }

    /// Runs an operation. If faults are permanent, injects another one.
    fn attack(&mut self, session: &mut Session<'_>, op: &Op) -> Checked {
        if self.shot.lasts {
            let writes = !op.changes().0.is_empty();
            let mut faults = Fault::BACKEND.to_vec();
            faults.retain(|fault| writes || !fault.is_of_writes());
            self.shot.fault = *self.random.choose(&faults);
            let n = if self.shot.fault.is_of_writes() { 0 } else { self.random.below(2) };
            self.backend.arm(self.shot.fault, n, false);
        }
        let done = self.step(session, op);
        self.backend.heal();
        done
    }
}

/// Checks that a guard misses no key, and knows the keys in doubt.
fn ask_all(session: &mut Session<'_>) -> Checked {
    (0..KEYS).try_for_each(|key| session.must(&Op::Get(key)))?;
    session.must(&Op::Stats)
}
