//! What came of it.

use crate::output::grouped;
use serde::Serialize;
use std::iter::Sum;
use std::path::Path;

/// What queries have come to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Tally {
    pub(super) queries: u64,
    /// Keys that were there.
    pub(super) found: u64,
    /// Looks at the disk for keys that weren't.
    pub(super) visits: u64,
    /// Of these, those for a key that had cost one before.
    pub(super) repeated: u64,
    pub(super) seconds: f64,
}

impl Tally {
    /// Queries a second.
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

/// Kinds of queries, in their order.
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

/// What one store was measured to do, a slice of the queries at a time.
pub(super) struct Run {
    /// Queries of a slice, or more by less than a turn.
    slice: u64,
    slices: [Vec<Tally>; Traffic::ALL.len()],
}

impl Run {
    pub(super) fn new(slice: u64) -> Self {
        Self { slice, slices: Default::default() }
    }

    /// A turn, which is a slice or a part of one.
    pub(super) fn push(&mut self, traffic: Traffic, turn: Tally) {
        let slices = &mut self.slices[traffic as usize];
        match slices.last_mut() {
            Some(last) if last.queries < self.slice => *last = [*last, turn].into_iter().sum(),
            _ => slices.push(turn),
        }
    }

    /// All slices, in order.
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

/// What both stores were measured to do.
pub(super) struct Results {
    pub(super) keys: u64,
    pub(super) queries: u64,
    pub(super) seed: u64,
    /// Bytes of each.
    pub(super) data: u64,
    pub(super) cache: u64,
    pub(super) filter: u64,
    /// The store that doesn't adapt.
    pub(super) off: Run,
    /// The one that does.
    pub(super) on: Run,
}

impl Results {
    /// The runs by what they are called.
    pub(super) fn runs(&self) -> [(&'static str, &Run); 2] {
        [("off", &self.off), ("on", &self.on)]
    }

    /// What was seen, in a sentence or two.
    pub(super) fn sentence(&self) -> String {
        let (off, on) = (self.off.total(), self.on.total());
        if off.visits == 0 {
            return "No absent key was looked for on the disk, so there was nothing to learn; \
                    try more keys and queries."
                .into();
        }
        let again = match on.repeated {
            0 => "and no key did twice".into(),
            again => format!("{} of them for a key that had done so before", grouped(again)),
        };
        let [slow, fast] = [&self.off, &self.on].map(|run| run.of(Traffic::Hostile).throughput());
        format!(
            "Without adaptation, {} lookups of absent keys went to the disk, {} of them for a key \
             that had done so before. With adaptation, {} did, {again}; hostile traffic was \
             answered {:.1} times as fast.",
            grouped(off.visits),
            grouped(off.repeated),
            grouped(on.visits),
            fast / slow
        )
    }

    /// All of it, for programs.
    pub(super) fn told(&self, page: &Path) -> Told {
        let traffic = Traffic::ALL.into_iter().flat_map(|traffic| {
            let measured = |(name, run): (_, &Run)| Measured {
                traffic: traffic.name(),
                adaptation: name,
                tally: run.of(traffic),
                queries_per_second: run.of(traffic).throughput(),
            };
            self.runs().map(measured)
        });
        Told {
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

/// The results as JSON.
#[derive(Serialize)]
pub(super) struct Told {
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
