//! Runs cases until the time is over.

use crate::backend_faults;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use crate::call_faults;
use crate::coverage::{Coverage, Totals};
use crate::plan::{Counts, Ending, Engine, Fault, Plan, Shot, StoreKind};
use crate::random::Random;
use crate::script::{Op, REMOVE_IN_DOUBT, script};
use crate::session;
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The time after which a case counts as hanging.
const PATIENCE: Duration = Duration::from_mins(2);
/// Minimum length, in seconds, of a run that must hit everything that can be hit.
const THOROUGH: u64 = 120;
/// Minimum length, in seconds, of a run in which shards must grow, shrink and rotate. In a thorough run, those of
/// every store must.
const USUAL: u64 = 20;
/// A long run must hit a pair of operation and fault if at least `SCRIPTS` scripts can hit it.
const SCRIPTS: u64 = 3;
/// The number of cases per script in the first round. It doubles with each round.
const CASES: usize = 40;
/// The last 1/`RETRY_SHARE` of the time is spent on pairs that can be hit but never were.
const RETRY_SHARE: u32 = 8;

pub(crate) fn fresh_seed() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64 & 0xffff_ffff)
}

/// Runs cases for some seconds.
pub(crate) fn run(seconds: u64, seed: u64) -> Result<(), String> {
    eprintln!("torture: seed {seed}, for {seconds} s");
    // Don't print panics, because those of stores are reported as failures of their case.
    std::panic::set_hook(Box::new(|_| {}));
    let time = Duration::from_secs(seconds);
    let start = Instant::now();
    let (retry_from, end) = (start + time * (RETRY_SHARE - 1) / RETRY_SHARE, start + time);
    let shared = Shared { coverage: Mutex::default(), lanes: Mutex::default(), retry_from, end };
    thread::scope(|scope| {
        let lanes: [fn(&Shared, u64); 2] = [
            |shared, seed| lane(shared, &[Engine::Memory], seed),
            |shared, seed| lane(shared, &[Engine::Fjall, Engine::Redb], seed),
        ];
        let lanes = lanes.map(|lane| {
            let shared = &shared;
            scope.spawn(move || lane(shared, seed))
        });
        shared.watch(|| lanes.iter().all(thread::ScopedJoinHandle::is_finished));
    });
    let coverage = shared.coverage();
    println!("{}", coverage.report());
    let never_hit = coverage.never_hit(1);
    if !never_hit.is_empty() {
        println!("possible but never hit: {}\n", never_hit.join(", "));
    }
    println!("seed {seed}: {}", told(&coverage.totals));
    if !coverage.failures.is_empty() {
        return Err(format!(
            "{} of {} cases failed:\n{}",
            coverage.failures.len(),
            coverage.totals.cases,
            coverage.failures.join("\n")
        ));
    }
    println!("no case failed");
    let never_tended: Vec<String> = if seconds >= THOROUGH {
        coverage.never_tended()
    } else {
        let never = coverage.upkeep().into_iter().filter(|&(_, count)| count == 0);
        never.map(|(upkeep, _)| upkeep.name().into()).collect()
    };
    if seconds >= USUAL && !never_tended.is_empty() {
        return Err(format!("no shard was rebuilt by: {}", never_tended.join(", ")));
    }
    let never_hit = coverage.never_hit(SCRIPTS);
    if seconds >= THOROUGH && !never_hit.is_empty() {
        return Err(format!("possible but never hit: {}", never_hit.join(", ")));
    }
    Ok(())
}

/// Runs one case, and prints each step.
///
/// If `lie` is given, the write with this number is acknowledged but not done, and then the case must fail.
pub(crate) fn alone(plan: &Plan, lie: Option<u64>) -> Result<(), String> {
    session::TELLS.store(true, Ordering::Relaxed);
    let name = plan.to_string();
    thread::spawn(move || {
        thread::sleep(PATIENCE);
        give_up(&name);
    });
    let mut coverage = Coverage::default();
    attempt(plan, lie, &mut coverage).map_err(|problem| format!("{plan}: {problem}"))?;
    println!("{}; the case passed", told(&coverage.totals));
    Ok(())
}

fn told(totals: &Totals) -> String {
    let Totals { cases, misses, operations, faults, reopenings, kills } = totals;
    format!(
        "{cases} cases ({misses} of them without a fault), {operations} operations, {faults} \
         faults, {kills} kills, {reopenings} reopenings"
    )
}

/// Reports a case that hangs, and ends the program.
fn give_up(case: &str) -> ! {
    eprintln!("torture: this case hangs: {case}");
    std::process::exit(3);
}

/// The state that all threads share.
struct Shared {
    coverage: Mutex<Coverage>,
    /// The current case of each thread, and when it began.
    lanes: Mutex<Vec<(Engine, Plan, Instant)>>,
    retry_from: Instant,
    end: Instant,
}

impl Shared {
    fn coverage(&self) -> MutexGuard<'_, Coverage> {
        self.coverage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<(Engine, Plan, Instant)>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints progress, and ends the program if a case hangs.
    fn watch(&self, is_over: impl Fn() -> bool) {
        let mut told_at = Instant::now();
        while !is_over() {
            thread::sleep(Duration::from_millis(50));
            for (_, plan, since) in self.lanes().iter() {
                if since.elapsed() > PATIENCE {
                    give_up(&command(plan));
                }
            }
            if told_at.elapsed() > Duration::from_secs(10) {
                told_at = Instant::now();
                let coverage = self.coverage();
                let failures = coverage.failures.len();
                eprintln!("torture: {}, {failures} failures", told(&coverage.totals));
            }
        }
    }

    /// Runs a case and records its results. Returns the counts of its steps, or `None` if it failed.
    fn run(&self, plan: &Plan) -> Option<Vec<Counts>> {
        let lane = plan.engine.min(Engine::Fjall);
        {
            let mut lanes = self.lanes();
            lanes.retain(|other| other.0 != lane);
            lanes.push((lane, *plan, Instant::now()));
        }
        let mut coverage = Coverage::default();
        let result = attempt(plan, None, &mut coverage);
        self.lanes().retain(|other| other.0 != lane);
        let mut shared = self.coverage();
        shared.merge(coverage);
        result
            .map_err(|problem| {
                let failure = format!("{}\n    {problem}", command(plan));
                eprintln!("torture: {failure}");
                shared.failures.push(failure);
            })
            .ok()
    }
}

fn command(plan: &Plan) -> String {
    format!("cargo xtask torture case {plan}")
}

/// Runs cases of scripts for all stores in turn. At the end, runs cases for pairs of operation and fault that
/// were never hit.
fn lane(shared: &Shared, engines: &[Engine], seed: u64) {
    if cfg!(not(all(target_os = "linux", target_env = "gnu"))) && engines != [Engine::Memory] {
        eprintln!("torture: no system-call faults on this system");
        return;
    }
    run_scripts(shared, engines, seed);
    retry_missed(shared, engines);
}

/// Repeats the cases that can hit a pair that was never hit. The calls of a background thread come at a
/// different moment each time, so a case may miss its pair.
fn retry_missed(shared: &Shared, engines: &[Engine]) {
    loop {
        let cases = shared.coverage().missed_cases(engines);
        if cases.is_empty() {
            return;
        }
        for case in cases {
            if Instant::now() > shared.end {
                return;
            }
            shared.run(&case);
        }
    }
}

fn run_scripts(shared: &Shared, engines: &[Engine], seed: u64) {
    let mut random = Random::new(seed ^ engines.len() as u64);
    let mut cases = CASES;
    loop {
        for &engine in engines {
            for &store in StoreKind::ALL {
                for saves in [true, false] {
                    let is_possible = match engine {
                        Engine::Memory => saves || store != StoreKind::Guard,
                        _ => saves && !matches!(store, StoreKind::Guard | StoreKind::Coded),
                    };
                    if !is_possible {
                        continue;
                    }
                    if Instant::now() > shared.retry_from {
                        return;
                    }
                    let seed = random.next() & 0xffff_ffff;
                    let plan = Plan { engine, store, saves, seed, shot: None };
                    for shot in shots(shared, &plan, &mut random).into_iter().take(cases) {
                        if Instant::now() > shared.retry_from {
                            return;
                        }
                        shared.run(&Plan { shot: Some(shot), ..plan });
                    }
                }
            }
        }
        cases *= 2;
    }
}

/// Runs the script without faults. Returns a shot for each fault at each operation of each step. The order is
/// random, except that one shot for each pair that was never hit comes first.
fn shots(shared: &Shared, plan: &Plan, random: &mut Random) -> Vec<Shot> {
    let counts = shared.run(plan).unwrap_or_default();
    let Plan { engine, store, seed, .. } = *plan;
    let script = script(store, seed);
    let names: Vec<_> = script.iter().map(|op| op.name(store)).collect();
    let faults = Fault::ALL.iter().copied().filter(|fault| {
        // Only a guard has to cope with late writes.
        fault.is_of(engine) && (*fault != Fault::Late || store == StoreKind::Guard)
    });
    let faults: Vec<Fault> = faults.collect();
    let coverage = &mut *shared.coverage();
    let mut shots = Vec::new();
    for (step, counts) in counts.iter().enumerate() {
        // Skip crashes: they aren't operations of the store, even if the engine's threads make
        // system calls.
        if script[step] == Op::Crash {
            continue;
        }
        for &fault in &faults {
            if counts.of(fault) > 0 {
                let shot = Shot { step, n: 0, fault, lasts: false, ending: Ending::Close };
                let case = Plan { shot: Some(shot), ..*plan };
                coverage.can_hit(store, names[step], fault, Some(case));
            }
            shots.extend((0..counts.of(fault)).map(|n| Shot {
                step,
                n,
                fault,
                lasts: fault.can_last() && random.one_in(3),
                ending: *random.choose(Ending::ALL),
            }));
        }
    }
    if store == StoreKind::Guard {
        // These operations are called only after a write in doubt.
        for &fault in &faults {
            let settling = ["settle", "settle_all"].into_iter().filter(|_| !fault.is_of_writes());
            for op in settling.chain([REMOVE_IN_DOUBT]) {
                coverage.can_hit(store, op, fault, None);
            }
        }
    }
    random.shuffle(&mut shots);
    let mut chosen = BTreeSet::new();
    shots.sort_by_cached_key(|shot| {
        let is_hit = coverage.hits(store, names[shot.step], shot.fault) > 0;
        is_hit || !chosen.insert((names[shot.step], shot.fault))
    });
    shots
}

/// Runs a case in a directory of its own.
fn attempt(plan: &Plan, lie: Option<u64>, coverage: &mut Coverage) -> Result<Vec<Counts>, String> {
    coverage.totals.cases += 1;
    let scratch = scratch().map_err(|error| format!("cannot create a directory: {error}"))?;
    let run = AssertUnwindSafe(|| match plan.engine {
        Engine::Memory => backend_faults::run(plan, lie, scratch.path(), coverage),
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        _ => call_faults::run(plan, lie, scratch.path(), coverage),
        #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
        _ => Err("system-call faults are not supported on this system".into()),
    });
    catch_unwind(run).unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("without a message")
}

/// Returns a directory in memory, if the system has one. The system calls are the same there.
fn scratch() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}
