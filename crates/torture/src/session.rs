//! Runs a store step by step beside its model.

use crate::faulty::Injected;
use crate::model::{Answer, Checked, Model};
use crate::plan::StoreKind;
use crate::script::{KEYS, Key, NO, Op, Upkeep, Value, YES};
use crate::stores::{Answered, Cause, Failure, Opened, Style, Target, ask_filter};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use twiceshy_store::Stats;

/// The location of a store.
pub(crate) trait Place {
    fn open(&self, style: &Style) -> Opened;

    /// Opens the copy at a path.
    fn open_copy(&self, path: &Path, style: &Style) -> Opened;

    /// Ends a store without writing anything else.
    fn crash(&self, target: Option<Box<dyn Target>>);

    /// Turns faults off, or on again.
    fn pause(&self, is_paused: bool);
}

/// Whether to print each step. This is set when a case runs alone.
pub(crate) static TELLS: AtomicBool = AtomicBool::new(false);

pub(crate) struct Session<'a> {
    place: &'a dyn Place,
    style: Style,
    target: Option<Box<dyn Target>>,
    pub(crate) model: Model,
    /// The number of operations so far.
    pub(crate) operations: u64,
    /// How often shards have grown, shrunk and rotated because they were due.
    pub(crate) upkeep: BTreeMap<Upkeep, u64>,
    /// The statistics after the last step, if the store is open.
    before: Option<Stats>,
    /// The number of successful openings so far.
    openings: usize,
}

/// The outcome of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// The store refused, and nothing has changed.
    Refused,
    Failed(Failure),
}

impl<'a> Session<'a> {
    pub(crate) fn new(place: &'a dyn Place, style: &Style, mut model: Model) -> Self {
        model.max_doubts = style.max_doubts;
        Self {
            place,
            style: style.clone(),
            target: None,
            model,
            operations: 0,
            upkeep: BTreeMap::new(),
            before: None,
            openings: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.target.is_some()
    }

    /// Runs an operation, checks its answer, and updates the model. Closing a store that is not open,
    /// and opening one that is open, do nothing. All other operations need an open store.
    ///
    /// # Errors
    /// Returns a description of the broken promise.
    pub(crate) fn step(&mut self, op: &Op) -> Result<Outcome, String> {
        let outcome = self.do_step(op);
        if TELLS.load(Ordering::Relaxed) {
            eprintln!("{op:?}: {outcome:?}");
        }
        outcome
    }

    fn do_step(&mut self, op: &Op) -> Result<Outcome, String> {
        self.operations += 1;
        let answer = catch(|| match op {
            Op::Open => self.open().map(|()| Answer::Nothing),
            Op::Close => self.target.take().map_or(Ok(()), Target::close).map(|()| Answer::Nothing),
            Op::Drop => {
                self.target = None;
                Ok(Answer::Nothing)
            }
            Op::Crash => {
                self.place.crash(self.target.take());
                Ok(Answer::Nothing)
            }
            op => self.target.as_mut().expect("an open store").run(op),
        });
        let named = |problem: String| format!("{op:?}: {problem}");
        match answer {
            Ok(answer) => {
                self.model.check(op, &answer).map_err(named)?;
                match answer {
                    Answer::Refused => return Ok(Outcome::Refused),
                    Answer::Copy(path) => self.check_copy(&path).map_err(named)?,
                    Answer::Filter(file) => self.check_filter(&file).map_err(named)?,
                    _ => {}
                }
                self.model.acknowledged(op);
                self.count_upkeep(op);
                Ok(Outcome::Done)
            }
            Err(failure) => {
                match failure.cause {
                    Cause::Backend => {
                        self.model.in_doubt(op);
                        self.model.doubt(op);
                    }
                    Cause::Unwound => self.model.in_doubt(op),
                    Cause::Refusal => {}
                    Cause::Broken => return Err(named(failure.text)),
                }
                Ok(Outcome::Failed(failure))
            }
        }
    }

    fn open(&mut self) -> Result<(), Failure> {
        if self.target.is_none() {
            self.target = Some(self.place.open(&self.style.opening(self.openings))?);
            self.openings += 1;
            self.model.reopened();
        }
        Ok(())
    }

    /// Counts why shards were rebuilt in this step, by its caller or in the background. The
    /// filter's size changes only when a shard is rebuilt.
    fn count_upkeep(&mut self, op: &Op) {
        let now = self.target.as_ref().map(|target| target.stats());
        let before = std::mem::replace(&mut self.before, now);
        let (Some(before), Some(now)) = (before, now) else { return };
        // Skip steps in which the size may change for other reasons: different remainders, the
        // first build, and operations that rebuild shards although they aren't due.
        let is_built = before.shards_ready == before.shards;
        let is_named = matches!(op, Op::Open | Op::Rebuild | Op::SettleAll);
        if !self.style.keeps_rate() || !is_built || is_named {
            return;
        }
        for (upkeep, count) in [
            (Upkeep::Growth, u64::from(now.filter_bytes > before.filter_bytes)),
            (Upkeep::Shrinking, u64::from(now.filter_bytes < before.filter_bytes)),
            (Upkeep::Rotation, now.rotations - before.rotations),
        ] {
            if count > 0 && upkeep.is_of(self.style.store) {
                *self.upkeep.entry(upkeep).or_default() += count;
            }
        }
    }

    /// Checks that a copy has the same contents as the store.
    fn check_copy(&mut self, path: &Path) -> Checked {
        self.place.pause(true);
        let checked = match self.place.open_copy(path, &self.style) {
            Ok(mut copy) => contents(self.style.store, &mut *copy)
                .map_err(|failure| failure.text)
                .and_then(|pairs| {
                    let mut model = self.model.clone();
                    model.settle(&pairs)
                }),
            Err(failure) => Err(failure.text),
        };
        self.place.pause(false);
        checked.map_err(|problem| format!("the copy is wrong: {problem}"))
    }

    /// Checks that the filter in a file misses no key.
    fn check_filter(&mut self, file: &Path) -> Checked {
        self.place.pause(true);
        let maybe = ask_filter(file, &self.style).map_err(|failure| failure.text);
        self.place.pause(false);
        self.model.check_filter(&maybe?)
    }

    /// Returns the contents of the store, in any order.
    pub(crate) fn contents(&mut self) -> Result<Vec<(Key, Value)>, String> {
        let target = self.target.as_mut().expect("an open store");
        contents(self.style.store, &mut **target).map_err(|failure| failure.text)
    }

    /// Runs an operation that must not fail.
    pub(crate) fn must(&mut self, op: &Op) -> Checked {
        match self.step(op)? {
            Outcome::Done => Ok(()),
            Outcome::Refused => Err(format!("{op:?} was refused")),
            Outcome::Failed(Failure { text, .. }) => {
                Err(format!("{op:?} failed without a fault: {text}"))
            }
        }
    }

    /// Opens the store without faults, checks all lookups, and then changes something.
    pub(crate) fn inspect(&mut self) -> Checked {
        let store = self.style.store;
        self.must(&Op::Open)?;
        if store.is_points() {
            self.must(&Op::Ready)?;
        }
        let pairs = self.contents()?;
        self.model.settle(&pairs)?;
        for op in questions(store) {
            self.must(&op)?;
        }
        let present = pairs.first().copied();
        let absent = (0..KEYS).find(|key| pairs.iter().all(|pair| pair.0 != *key));
        if let Some((key, value)) = present {
            self.must(&Op::Delete(key, value))?;
            self.must(&Op::Put(key, value))?;
        }
        if let Some(key) = absent {
            self.must(&Op::Delete(key, YES))?;
            self.must(&Op::Put(key, YES))?;
        }
        Ok(())
    }
}

/// Turns a panic of the backend into a failure. Other panics continue.
fn catch(act: impl FnOnce() -> Answered) -> Answered {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let Some(injected) = panic.downcast_ref::<Injected>() else { resume_unwind(panic) };
        let cause = if injected.is_write() { Cause::Backend } else { Cause::Unwound };
        Err(Failure { cause, text: format!("{injected:?}") })
    })
}

/// Returns every kind of lookup for every key.
pub(crate) fn questions(store: StoreKind) -> Vec<Op> {
    let all: Vec<Key> = (0..KEYS).collect();
    let get: fn(Key) -> Op = if store == StoreKind::Lists { Op::ListOf } else { Op::Get };
    let mut questions: Vec<Op> = all.iter().map(|&key| get(key)).collect();
    if store == StoreKind::Guard {
        return questions;
    }
    questions.extend(all.iter().map(|&key| Op::Contains(key)));
    questions.push(Op::Stats);
    if store.is_points() {
        questions.extend([Op::GetMany(all), Op::Iter, Op::SaveFilter]);
    }
    let ranges = [(0, KEYS - 1), (5, 9), (16, 16), (30, 43)];
    let ranges = ranges.into_iter().chain((0..KEYS - 2).step_by(3).map(|key| (key, key + 2)));
    match store {
        StoreKind::Split => {
            questions.extend(ranges.map(|(first, last)| Op::Range(first, last)));
            questions.extend((0..3).map(Op::Prefix));
        }
        StoreKind::Ranges => {
            let both = |(first, last)| [Op::IsEmpty(first, last), Op::Range(first, last)];
            questions.extend(ranges.flat_map(both));
            questions.extend([Op::Iter, Op::Validate]);
        }
        StoreKind::Lists => {
            questions.extend([Op::GetMany((0..KEYS).collect()), Op::Entries(YES), Op::Entries(NO)]);
            questions.extend([Op::Export, Op::Validate]);
        }
        _ => {}
    }
    questions
}

fn contents(store: StoreKind, target: &mut dyn Target) -> Result<Vec<(Key, Value)>, Failure> {
    let parts: &[Op] = match store {
        StoreKind::Lists => &[Op::Entries(YES), Op::Entries(NO)],
        _ => &[Op::Iter],
    };
    let mut contents = Vec::new();
    for part in parts {
        if let Answer::Pairs(pairs) = target.run(part)? {
            contents.extend(pairs);
        }
    }
    Ok(contents)
}
