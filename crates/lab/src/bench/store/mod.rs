//! `twiceshy-lab bench store`: what an adaptive filter is worth before a store on a disk.
//!
//! The adversary is the paper's: it first asks for keys that aren't there and notes which
//! made the store go to its disk, then mixes them into everybody's queries. Of the engine's own
//! filter it can't see that, so it takes the slowest answers.
//!
//! What is compared is done in turns, a slice at a time, so that whatever else the machine does
//! hits all alike: the setups when they insert, and the shares of hostile queries. Between two
//! setups' turns the engine's threads may finish, so that nobody pays for another's compaction.
//!
//! All setups have the same memory: the engine without our filter has the filter's bytes as
//! block cache, on top of what all have. (The mistakes that an adaptive store remembers aren't
//! counted, about 60 bytes each.) The engine's own filter is read through that cache, so it must
//! stay there: with the smaller cache alone it wouldn't. Nor does it while tables are on their
//! way down, when the filter of a table is one block, which can be longer than the cache takes;
//! at the bottom it is in parts of 4 KiB. So all setups are compacted before they are asked.
//!
//! Building the filter again is compared with reading what it is built from, each time by an
//! engine that was just opened on the same compacted tables.

mod report;
mod run;
mod setup;

pub(crate) use report::median;
pub(crate) use run::{
    DATA, Run, Spent, Tally, in_turns, insert_in_turns, mixed, slices, thousands,
};
pub(crate) use setup::{Key, Kind, Setup, Size, key, scan};

use super::measure::{self, positive};
use super::random::Random;
use report::Row;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pairs of 32 bytes, half of them key.
    #[arg(long, default_value_t = 1 << 20, value_parser = positive)]
    pairs: usize,
    /// Queries of each operation.
    #[arg(long, default_value_t = 1 << 19, value_parser = positive)]
    queries: usize,
    /// Bytes of the engine's block cache, beside our filter.
    #[arg(long, default_value_t = 1 << 20)]
    cache_bytes: u64,
    /// Rounds, each with new stores; best and median of them are shown.
    #[arg(long, default_value_t = 3, value_parser = positive)]
    rounds: usize,
    /// Where to put the stores; they are removed afterwards.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

impl Options {
    fn size(&self) -> Size {
        Size { pairs: self.pairs, cache_bytes: self.cache_bytes, seed: None }
    }
}

/// How many of 100 queries are the adversary's.
const HOSTILE: [u32; 5] = [0, 1, 3, 5, 10];

/// Turns that each contestant has.
const TURNS: usize = 64;

impl Run {
    fn row(&self) -> Row {
        Row {
            setup: self.kind.name(),
            op: "",
            hostile_percent: 0,
            kops: 0.0,
            median_kops: 0.0,
            cpu_us: None,
            memory_bytes: self.setup.memory_bytes(),
            backend_gets: 0,
            backend_scans: 0,
            distinct_mistakes: None,
            repeated_mistakes: None,
        }
    }

    /// The median turn counts: whatever interrupts one of them doesn't matter.
    fn asked(&self, op: &'static str, hostile_percent: u32, tally: Tally) -> Row {
        Row {
            op,
            hostile_percent,
            kops: median(tally.kops),
            backend_gets: tally.gets,
            backend_scans: tally.scans,
            distinct_mistakes: tally.distinct,
            repeated_mistakes: tally.distinct.map(|distinct| tally.gets - distinct),
            ..self.row()
        }
    }

    /// All that is asked for.
    fn ask_all(&mut self, options: &Options) -> Vec<Row> {
        let mut random = Random(7);
        let mut fresh = (0u64..).map(|number| key(number, false));
        let mut strangers = || fresh.by_ref().take(options.queries).collect::<Vec<Key>>();
        let mut rows = Vec::new();
        let ranks = (0..options.queries).map(|_| key(1 << 60 | random.zipf().min(1 << 40), false));
        for (op, keys) in [("negative", strangers()), ("zipf", ranks.collect())] {
            let mut tally = Tally::default();
            self.ask(&keys, &mut tally);
            rows.push(self.asked(op, 0, tally));
        }

        let learnt = self.learn(&strangers());
        let mixtures = HOSTILE.map(|percent| {
            let mut keys = strangers();
            for key in &mut keys {
                if !learnt.is_empty() && random.below(100) < percent as usize {
                    *key = learnt[random.below(learnt.len())];
                }
            }
            keys
        });
        let mut tallies = HOSTILE.map(|_| Tally::default());
        let turns = mixtures.each_ref().map(|keys| slices(keys, TURNS));
        for (index, turn) in in_turns(HOSTILE.len(), turns[0].len()) {
            self.ask(turns[index][turn], &mut tallies[index]);
        }
        let hostile = HOSTILE.into_iter().zip(tallies);
        rows.extend(hostile.map(|(percent, tally)| self.asked("hostile", percent, tally)));
        rows
    }

    /// Reads all pairs, as building the filter again has to, and builds it, if there is one.
    fn read_all(self, round: usize, options: &Options) -> Vec<Row> {
        let Self { kind, ref directory, .. } = self;
        let (row, has_filter) = (self.row(), self.setup.members().is_some());
        self.setup.compact();
        drop(self.setup);
        let data = directory.path().join(DATA);
        let open = || {
            let backend = kind.engine(&data, &options.size());
            measure::settle();
            backend
        };
        let scan = || {
            let backend = open();
            let start = Instant::now();
            let found = scan(&backend, kind.scanned());
            let kops = thousands(found, start.elapsed());
            assert_eq!(found, options.pairs, "all that was put");
            Row { op: "scan", kops, ..row.clone() }
        };
        let rebuild = || {
            let backend = open();
            let start = Instant::now();
            // Nothing was saved: there is no directory for it.
            let setup = Setup::over(backend, kind, &options.size());
            let kops = thousands(options.pairs, start.elapsed());
            assert_eq!(setup.members(), Some(options.pairs as u64), "all that was put");
            Row { op: "rebuild", kops, ..row.clone() }
        };
        match (has_filter, round % 2) {
            (false, _) => vec![scan()],
            (true, 0) => vec![scan(), rebuild()],
            (true, _) => {
                let rebuild = rebuild();
                vec![scan(), rebuild]
            }
        }
    }
}

/// All setups insert all members, in turns.
fn insert_all(runs: &[Run], members: &[Key]) -> Vec<Row> {
    let spent = insert_in_turns(runs, members, TURNS);
    let row = |(run, turns): (&Run, Vec<Spent>)| {
        run.setup.compact();
        let cpu: f64 = turns.iter().map(|turn| turn.cpu).sum();
        Row {
            op: "insert",
            kops: thousands(members.len(), turns.iter().map(|turn| turn.time).sum()),
            cpu_us: Some(cpu / 1e3 / members.len() as f64),
            backend_gets: run.setup.asked().map_or(0, |asked| asked.len() as u64),
            ..run.row()
        }
    };
    let rows = runs.iter().zip(spent).map(row).collect();
    measure::settle();
    rows
}

/// All rows of a round, by setups.
fn one_round(round: usize, options: &Options) -> Vec<Row> {
    let members: Vec<Key> = (0..options.pairs as u64).map(|number| key(number, true)).collect();
    let runs = Kind::ALL.map(|kind| Run::new(kind, &options.size(), options.directory.as_deref()));
    let inserted = insert_all(&runs, &members);
    let mut rows = Vec::new();
    for (mut run, inserted) in runs.into_iter().zip(inserted) {
        rows.push(inserted);
        rows.extend(run.ask_all(options));
        rows.extend(run.read_all(round, options));
    }
    rows
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        measure::show_round(round, options.rounds);
        rounds.push(one_round(round, options));
    }
    measure::hide_round();
    report::show(&rounds, options.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Options = Options {
        pairs: 4000,
        queries: 20_000,
        cache_bytes: 1 << 20,
        rounds: 1,
        directory: None,
        json: true,
    };

    #[test]
    fn all_begin_with_the_same_memory() {
        let memory = Kind::ALL.map(|kind| Run::new(kind, &SMALL.size(), None).setup.memory_bytes());
        assert!(memory[0] > SMALL.cache_bytes && memory.iter().all(|&bytes| bytes == memory[0]));
    }

    #[test]
    fn each_setup_does_everything_and_who_adapts_repeats_no_mistake() {
        let rows = one_round(1, &SMALL);
        let of = |kind: Kind| rows.iter().filter(move |row| row.setup == kind.name());
        for kind in Kind::ALL {
            let ops = ["insert", "negative", "zipf", "hostile", "scan"];
            assert!(ops.iter().all(|op| of(kind).any(|row| row.op == *op)), "{}", kind.name());
            assert!(of(kind).all(|row| row.kops > 0.0));
        }
        for kind in [Kind::Adaptive, Kind::Split] {
            assert!(of(kind).all(|row| row.repeated_mistakes.unwrap_or_default() == 0));
            assert!(of(kind).any(|row| row.distinct_mistakes > Some(0)));
        }
        assert!(of(Kind::Plain).any(|row| row.repeated_mistakes > Some(0)));
        let rebuilt: Vec<_> = rows.iter().filter(|row| row.op == "rebuild").collect();
        assert_eq!(rebuilt.len(), 3);
    }
}
