//! Sends the same queries to two stores by turns. Only one of the stores adapts.
//!
//! The turns are short, so that other work on the machine slows both stores alike.

use super::Demo;
use super::results::{Results, Run, Tally, Traffic};
use super::subject::{Setting, Subject};
use super::traffic::{HOSTILE, skewed};
use crate::commands::members::NO_THREAD;
use crate::interrupt;
use crate::progress::{Total, turn_to};
use crate::session::Session;
use anyhow::{Context as _, Error, Result};
use indicatif::ProgressBar;
use std::path::Path;
use std::thread::{self, Builder};
use std::time::Instant;
use twiceshy_workloads::adversary::{Collector, CollectorConfig, Query, Reply, Victim};

/// The number of slices for each store and kind of traffic.
const SLICES: u64 = 50;

/// The maximum number of queries per turn. All queries of a turn are in memory.
const LONGEST_TURN: u64 = 1 << 16;

/// The number of queries after which an attacker knows which answers are slow.
const CALIBRATION: u64 = 255;

pub(super) fn run(demo: &Demo, directory: &Path, session: &Session) -> Result<Results> {
    let setting = Setting { keys: demo.keys, seed: demo.seed };
    let progress = session.progress("filling two stores", Total::Items(2 * demo.keys));
    let bar = progress.bar();
    // Without the lock, opening a store could create files in a directory that the signal handler
    // has just removed.
    let held = interrupt::hold();
    let off = Subject::new(&directory.join("off"), setting, false)?;
    let on = Subject::new(&directory.join("on"), setting, true)?;
    drop(held);
    fill([&off, &on], &bar)?;
    let slice = demo.queries.div_ceil(SLICES);
    let mut contest = Contest {
        filter: off.filter_bytes(),
        turn: slice.min(LONGEST_TURN) as usize,
        off: (off, Run::new(slice)),
        on: (on, Run::new(slice)),
        bar,
    };
    contest.run(demo)?;
    Ok(Results {
        keys: demo.keys,
        queries: demo.queries,
        seed: demo.seed,
        data: setting.data_bytes(),
        cache: setting.cache_bytes(),
        filter: contest.filter,
        off: contest.off.1,
        on: contest.on.1,
    })
}

/// Fills both stores at the same time, because filling is the slowest part of the demo.
fn fill(subjects: [&Subject; 2], bar: &ProgressBar) -> Result<()> {
    let [one, other] = subjects;
    let fill = |subject: &Subject| subject.fill(|| bar.inc(1));
    thread::scope(|scope| {
        let thread = Builder::new().spawn_scoped(scope, || fill(other)).context(NO_THREAD)?;
        let filled = fill(one);
        filled.and(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

struct Contest {
    off: (Subject, Run),
    on: (Subject, Run),
    /// The number of queries per turn.
    turn: usize,
    bar: ProgressBar,
    filter: u64,
}

impl Contest {
    fn run(&mut self, demo: &Demo) -> Result<()> {
        let Demo { keys, queries, seed, .. } = *demo;
        let mut others = skewed(keys, seed)?;
        self.begin("skewed traffic", queries);
        self.ask(Traffic::Skewed, others.by_ref().take(queries as usize))?;

        self.begin("probing by an attacker", queries);
        let adversary = self.probe(queries, seed)?;

        self.begin("hostile traffic", queries);
        let mixed = adversary.traffic(others, HOSTILE, seed)?.take(queries as usize);
        self.ask(Traffic::Hostile, mixed.map(|Query { key, .. }| key))
    }

    fn begin(&self, task: &'static str, queries: u64) {
        turn_to(&self.bar, task, Total::Items(queries));
        self.bar.set_position(0);
    }

    /// Sends the same queries to both stores, and measures the stores.
    fn ask(&mut self, traffic: Traffic, mut numbers: impl Iterator<Item = u64>) -> Result<()> {
        let mut is_even = true;
        loop {
            let turn: Vec<u64> = numbers.by_ref().take(self.turn).collect();
            if turn.is_empty() {
                return Ok(());
            }
            // Change the order of the stores in every turn.
            let (first, second) =
                if is_even { (&mut self.off, &mut self.on) } else { (&mut self.on, &mut self.off) };
            for (subject, run) in [first, second] {
                run.push(traffic, subject.ask_all(&turn)?);
            }
            self.bar.inc(turn.len() as u64);
            is_even = !is_even;
        }
    }

    /// Lets an attacker learn which keys cost a disk read.
    ///
    /// The attacker learns from the store that does not adapt. The adapting store gets the same
    /// queries. It makes the same mistakes, except those that earlier repairs prevent. So the
    /// attacker learns at least as much as it could learn from the adapting store.
    fn probe(&mut self, queries: u64, seed: u64) -> Result<Collector> {
        let warm_up = queries - CALIBRATION;
        let config = CollectorConfig { warm_up, capacity: queries };
        let mut probe = Probe {
            contest: self,
            asked: Vec::new(),
            tally: Tally::default(),
            start: Instant::now(),
            done: Ok(()),
        };
        let collector = Collector::collect(&mut probe, config, seed)?;
        probe.end_turn()?;
        probe.done?;
        Ok(collector)
    }
}

/// Answers the attacker from the store that does not adapt. Each query depends on earlier answers,
/// so the adapting store gets the same queries only after each turn.
struct Probe<'a> {
    contest: &'a mut Contest,
    /// The keys that were queried in this turn.
    asked: Vec<u64>,
    tally: Tally,
    start: Instant,
    done: Result<(), Error>,
}

impl Probe<'_> {
    fn ask(&mut self, number: u64) -> Result<bool> {
        if self.asked.is_empty() {
            self.start = Instant::now();
        }
        self.asked.push(number);
        let is_mistake = self.contest.off.0.ask(number, &mut self.tally)?;
        if self.asked.len() == self.contest.turn {
            self.end_turn()?;
        }
        Ok(is_mistake)
    }

    fn end_turn(&mut self) -> Result<()> {
        if self.asked.is_empty() {
            return Ok(());
        }
        self.tally.seconds = self.start.elapsed().as_secs_f64();
        let Contest { off: (_, off), on: (subject, on), bar, .. } = &mut *self.contest;
        off.push(Traffic::Probing, std::mem::take(&mut self.tally));
        on.push(Traffic::Probing, subject.ask_all(&self.asked)?);
        bar.inc(self.asked.len() as u64);
        self.asked.clear();
        Ok(())
    }
}

impl Victim for Probe<'_> {
    /// Sends a query, unless an earlier one has failed.
    fn ask(&mut self, number: u64) -> Reply {
        let asked = if self.done.is_ok() { self.ask(number) } else { Ok(false) };
        let is_mistake = asked.unwrap_or_else(|error| {
            self.done = Err(error);
            false
        });
        Reply { is_found: false, cost: u64::from(is_mistake) }
    }
}
