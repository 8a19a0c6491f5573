//! The measurements of the demo.

use crate::output::grouped;
use serde::Serialize;
use std::iter::Sum;
use std::path::Path;

/// The counts for a group of queries, and the time that these queries took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Tally {
    pub(super) queries: u64,
    /// The number of queries for present keys.
    pub(super) found: u64,
    /// The number of disk reads for absent keys.
    pub(super) visits: u64,
    /// The number of disk reads for absent keys that had caused a disk read before.
    pub(super) repeated: u64,
    pub(super) seconds: f64,
}

impl Tally {
    /// Returns the number of queries per second.
    pub(super) fn throughput(&self) -> f64 {
        self.queries as f64 / self.seconds
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, one| Self {
            queries: sum.queries + one.queries,
            found: sum.found + one.found,
            visits: sum.visits + one.visits,
            repeated: sum.repeated + one.repeated,
            seconds: sum.seconds + one.seconds,
        })
    }
}

/// The kinds of traffic, in the order in which they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Skewed,
    Probing,
    Hostile,
}

impl Traffic {
    pub(super) const ALL: [Self; 3] = [Self::Skewed, Self::Probing, Self::Hostile];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Skewed => "skewed",
            Self::Probing => "probing",
            Self::Hostile => "hostile",
        }
    }
}

/// The measurements of one store, per slice of the queries.
pub(super) struct Run {
    /// The minimum number of queries per slice. A slice exceeds it by less than one turn.
    slice: u64,
    slices: [Vec<Tally>; Traffic::ALL.len()],
}

impl Run {
    pub(super) fn new(slice: u64) -> Self {
        Self { slice, slices: Default::default() }
    }

    /// Adds the counts of a turn to the current slice. A slice has one or more turns.
    pub(super) fn push(&mut self, traffic: Traffic, turn: Tally) {
        let slices = &mut self.slices[traffic as usize];
        match slices.last_mut() {
            Some(last) if last.queries < self.slice => *last = [*last, turn].into_iter().sum(),
            _ => slices.push(turn),
        }
    }

    /// Iterates over all slices in order.
    pub(super) fn slices(&self) -> impl Iterator<Item = Tally> {
        self.slices.iter().flatten().copied()
    }

    pub(super) fn slices_of(&self, traffic: Traffic) -> &[Tally] {
        &self.slices[traffic as usize]
    }

    pub(super) fn of(&self, traffic: Traffic) -> Tally {
        self.slices_of(traffic).iter().copied().sum()
    }

    pub(super) fn total(&self) -> Tally {
        self.slices().sum()
    }
}

/// The measurements of both stores.
pub(super) struct Results {
    pub(super) keys: u64,
    pub(super) queries: u64,
    pub(super) seed: u64,
    /// The size of the data in each store, in bytes.
    pub(super) data: u64,
    pub(super) cache: u64,
    pub(super) filter: u64,
    /// The store that does not adapt.
    pub(super) off: Run,
    /// The store that adapts.
    pub(super) on: Run,
}

impl Results {
    /// Returns the names and the measurements of both stores.
    pub(super) fn runs(&self) -> [(&'static str, &Run); 2] {
        [("off", &self.off), ("on", &self.on)]
    }

    /// Summarises the results in a sentence or two.
    pub(super) fn sentence(&self) -> String {
        let (off, on) = (self.off.total(), self.on.total());
        if off.visits == 0 {
            return "No absent key cost a disk read, so there was nothing to repair; try more keys and \
                    queries."
                .into();
        }
        let again = match on.repeated {
            0 => "and no key cost more than one".into(),
            again => format!("{} of them for keys that had cost one before", grouped(again)),
        };
        let [slow, fast] = [&self.off, &self.on].map(|run| run.of(Traffic::Hostile).throughput());
        format!(
            "Without adapting, absent keys cost {} disk reads, {} of them for keys that had cost one \
             before. With adapting, they cost {}, {again}; hostile traffic was answered {:.1} times as \
             fast.",
            grouped(off.visits),
            grouped(off.repeated),
            grouped(on.visits),
            fast / slow
        )
    }

    /// Returns the results as JSON.
    pub(super) fn json(&self, page: &Path) -> Json {
        let traffic = Traffic::ALL.into_iter().flat_map(|traffic| {
            let measured = |(name, run): (_, &Run)| Measured {
                traffic: traffic.name(),
                adaptation: name,
                tally: run.of(traffic),
                queries_per_second: run.of(traffic).throughput(),
            };
            self.runs().map(measured)
        });
        Json {
            keys: self.keys,
            seed: self.seed,
            bytes_of_data: self.data,
            bytes_of_cache: self.cache,
            bytes_of_filter: self.filter,
            traffic: traffic.collect(),
            page: page.to_string_lossy().into_owned(),
        }
    }
}

/// The JSON form of the results.
#[derive(Serialize)]
pub(super) struct Json {
    keys: u64,
    seed: u64,
    bytes_of_data: u64,
    bytes_of_cache: u64,
    bytes_of_filter: u64,
    traffic: Vec<Measured>,
    page: String,
}

#[derive(Serialize)]
struct Measured {
    traffic: &'static str,
    adaptation: &'static str,
    #[serde(flatten)]
    tally: Tally,
    queries_per_second: f64,
}
