//! Counts which faults hit which operations.

use crate::plan::{Engine, Fault, Plan, StoreKind};
use crate::script::{Upkeep, names};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

/// A public operation of a kind of store, and a fault that can hit it.
type Pair = (StoreKind, &'static str, Fault);

#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// The number of times that each pair was hit.
    hits: BTreeMap<Pair, u64>,
    /// The scripts and cases that can hit each pair.
    possible: BTreeMap<Pair, Chances>,
    /// The number of times that each fault hit each system call.
    calls: BTreeMap<(String, Fault), u64>,
    /// How often shards of each store have grown, shrunk and rotated.
    upkeep: BTreeMap<(StoreKind, Upkeep), u64>,
    pub(crate) totals: Totals,
    /// The cases that failed, and their errors.
    pub(crate) failures: Vec<String>,
}

/// The scripts and cases that can hit a pair.
#[derive(Debug, Default)]
struct Chances {
    /// The number of scripts that can hit the pair.
    scripts: u64,
    /// The first cases that can hit the pair.
    cases: Vec<Plan>,
}

/// The maximum number of cases to keep per pair.
const CASES_KEPT: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) cases: u64,
    /// The number of cases whose fault hit nothing.
    pub(crate) misses: u64,
    pub(crate) operations: u64,
    pub(crate) faults: u64,
    pub(crate) reopenings: u64,
    pub(crate) kills: u64,
}

impl Coverage {
    /// Adds the results of one case.
    pub(crate) fn merge(&mut self, other: Self) {
        for (pair, hits) in other.hits {
            *self.hits.entry(pair).or_default() += hits;
        }
        for (call, hits) in other.calls {
            *self.calls.entry(call).or_default() += hits;
        }
        for (upkeep, count) in other.upkeep {
            *self.upkeep.entry(upkeep).or_default() += count;
        }
        let Totals { cases, misses, operations, faults, reopenings, kills } = other.totals;
        self.totals.cases += cases;
        self.totals.misses += misses;
        self.totals.operations += operations;
        self.totals.faults += faults;
        self.totals.reopenings += reopenings;
        self.totals.kills += kills;
        self.failures.extend(other.failures);
    }

    /// Counts how often shards have grown, shrunk and rotated.
    pub(crate) fn tended(&mut self, store: StoreKind, upkeep: &BTreeMap<Upkeep, u64>) {
        for (&upkeep, count) in upkeep {
            *self.upkeep.entry((store, upkeep)).or_default() += count;
        }
    }

    /// Returns how often shards have grown, shrunk and rotated in all stores together.
    pub(crate) fn upkeep(&self) -> [(Upkeep, u64); 3] {
        Upkeep::ALL.map(|upkeep| {
            let stores = StoreKind::ALL.iter();
            (upkeep, stores.map(|&store| self.upkeep_of(store, upkeep)).sum())
        })
    }

    fn upkeep_of(&self, store: StoreKind, upkeep: Upkeep) -> u64 {
        self.upkeep.get(&(store, upkeep)).copied().unwrap_or_default()
    }

    /// Returns the stores whose shards have never grown, shrunk or rotated, although they can.
    pub(crate) fn never_tended(&self) -> Vec<String> {
        let all = StoreKind::ALL.iter();
        let all = all.flat_map(|&store| Upkeep::ALL.map(|upkeep| (store, upkeep)));
        let never = all
            .filter(|&(store, upkeep)| upkeep.is_of(store) && self.upkeep_of(store, upkeep) == 0);
        never.map(|(store, upkeep)| format!("{} of {store}", upkeep.name())).collect()
    }

    /// Counts a script that can hit a pair, and keeps a case that can hit it.
    pub(crate) fn can_hit(
        &mut self,
        store: StoreKind,
        op: &'static str,
        fault: Fault,
        case: Option<Plan>,
    ) {
        let chances = self.possible.entry((store, op, fault)).or_default();
        chances.scripts += 1;
        chances.cases.extend(case.filter(|_| chances.cases.len() < CASES_KEPT));
    }

    pub(crate) fn hit(&mut self, store: StoreKind, op: &'static str, fault: Fault, times: u64) {
        if times > 0 {
            *self.hits.entry((store, op, fault)).or_default() += times;
            self.totals.faults += times;
        }
    }

    pub(crate) fn call(&mut self, call: &str, fault: Fault) {
        *self.calls.entry((call.to_owned(), fault)).or_default() += 1;
    }

    pub(crate) fn hits(&self, store: StoreKind, op: &'static str, fault: Fault) -> u64 {
        self.hits.get(&(store, op, fault)).copied().unwrap_or_default()
    }

    /// Returns the pairs that at least `scripts` scripts can hit, but that no case has hit. Few scripts can
    /// hit the operations of background threads.
    pub(crate) fn never_hit(&self, scripts: u64) -> Vec<String> {
        let missed = self.missed().filter(|(_, chances)| chances.scripts >= scripts);
        missed.map(|((store, op, fault), _)| format!("{fault} at {op} of {store}")).collect()
    }

    /// Returns the cases on these engines that can hit a pair that was never hit.
    pub(crate) fn missed_cases(&self, engines: &[Engine]) -> Vec<Plan> {
        let cases = self.missed().flat_map(|(_, chances)| &chances.cases);
        cases.filter(|case| engines.contains(&case.engine)).copied().collect()
    }

    fn missed(&self) -> impl Iterator<Item = (&Pair, &Chances)> {
        self.possible.iter().filter(|(pair, _)| !self.hits.contains_key(pair))
    }

    /// Returns tables of all operations. A `-` means that the fault cannot hit the operation.
    pub(crate) fn report(&self) -> String {
        let mut text = String::new();
        for store in StoreKind::ALL {
            let _ = write!(text, "\n{:<18}", store.to_string());
            heading(&mut text, Fault::ALL);
            for op in names(*store) {
                let _ = write!(text, "  {op:<16}");
                for fault in Fault::ALL {
                    let pair = (*store, op, *fault);
                    let found = self.possible.keys().find(|possible| **possible == pair);
                    let cell = found.map_or_else(
                        || "-".into(),
                        |pair| self.hits.get(pair).copied().unwrap_or_default().to_string(),
                    );
                    let _ = write!(text, "{cell:>11}");
                }
                text.push('\n');
            }
        }
        let calls: BTreeSet<&String> = self.calls.keys().map(|(call, _)| call).collect();
        if !calls.is_empty() {
            let _ = write!(text, "\n{:<18}", "system call");
            heading(&mut text, &Fault::CALLS);
            for call in calls {
                let _ = write!(text, "  {call:<16}");
                for fault in Fault::CALLS {
                    let hits = self.calls.get(&(call.clone(), fault)).copied().unwrap_or_default();
                    let _ = write!(text, "{hits:>11}");
                }
                text.push('\n');
            }
        }
        let _ = write!(text, "\n{:<18}", "shards rebuilt");
        heading(&mut text, StoreKind::ALL);
        for upkeep in Upkeep::ALL {
            let _ = write!(text, "  {:<16}", upkeep.name());
            for &store in StoreKind::ALL {
                let count = self.upkeep_of(store, upkeep);
                let cell = if upkeep.is_of(store) { count.to_string() } else { "-".into() };
                let _ = write!(text, "{cell:>11}");
            }
            text.push('\n');
        }
        text
    }
}

fn heading(text: &mut String, names: &[impl Display]) {
    for name in names {
        let _ = write!(text, "{name:>11}");
    }
    text.push('\n');
}
