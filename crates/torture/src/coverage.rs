//! Counts which faults hit which operations.

use crate::plan::{Engine, Fault, Plan, StoreKind};
use crate::script::names;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A kind of fault at a public operation.
type Pair = (StoreKind, &'static str, Fault);

#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// The number of hits per pair.
    hits: BTreeMap<Pair, u64>,
    /// Where each pair is possible.
    possible: BTreeMap<Pair, Chances>,
    /// The number of hits per system call.
    calls: BTreeMap<(String, Fault), u64>,
    pub(crate) totals: Totals,
    /// Cases that failed, and their errors.
    pub(crate) failures: Vec<String>,
}

/// Where a pair can be hit.
#[derive(Debug, Default)]
struct Chances {
    /// The number of scripts in which it is possible.
    scripts: u64,
    /// The first cases that can hit it.
    cases: Vec<Plan>,
}

/// Cases to keep per pair.
const CASES_KEPT: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) cases: u64,
    /// Cases whose fault hit nothing.
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
        let Totals { cases, misses, operations, faults, reopenings, kills } = other.totals;
        self.totals.cases += cases;
        self.totals.misses += misses;
        self.totals.operations += operations;
        self.totals.faults += faults;
        self.totals.reopenings += reopenings;
        self.totals.kills += kills;
        self.failures.extend(other.failures);
    }

    /// Records that a script can hit a pair, and a case that does.
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

    /// Returns the pairs that were possible in at least this many scripts but never hit. Operations of
    /// background threads are seen in few scripts.
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
        text
    }
}

fn heading(text: &mut String, faults: &[Fault]) {
    for fault in faults {
        let _ = write!(text, "{fault:>11}");
    }
    text.push('\n');
}
