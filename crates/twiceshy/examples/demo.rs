//! What adapting is worth: the same filter, told of its mistakes and not, under uniform,
//! skewed and hostile lookups of absent keys.
//!
//! `cargo run --release --example demo` takes about ten seconds; `-- --quick` one.

use std::time::Instant;
use twiceshy::{AdaptiveQuotientFilter, Answer, Keyed, MemoryMap, ReverseMap, Secret};

type Error = Box<dyn std::error::Error>;

/// Members are the even numbers, strangers the odd ones.
struct World {
    filter: Keyed<u64, AdaptiveQuotientFilter>,
    store: MemoryMap<u64>,
    adapting: bool,
}

#[derive(Default)]
struct Tally {
    lookups: u64,
    visits: u64,
    repeated: u64,
    nanoseconds: f64,
}

impl World {
    fn new(members: u64, adapting: bool) -> Result<Self, Error> {
        let mut filter = AdaptiveQuotientFilter::builder()
            .remainder_bits(9)
            .capacity(members as usize)
            .secret(Secret::from_bytes([1; 16])) // so that the figures can be repeated
            .build_keyed()?;
        let mut store = MemoryMap::new();
        for number in 0..members {
            filter.insert(&(2 * number))?;
            store.insert(filter.hash(&(2 * number)), 2 * number);
        }
        Ok(Self { filter, store, adapting })
    }

    /// Looks strangers up; each "maybe" is a visit to the store, for nothing.
    fn look_up(&mut self, strangers: impl Iterator<Item = u64>) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let mut known = std::collections::HashSet::new();
        let start = Instant::now();
        for stranger in strangers.map(|number| 2 * number + 1) {
            tally.lookups += 1;
            let Answer::Maybe(claim) = self.filter.check(&stranger) else { continue };
            assert!(!self.store.contains(claim.query(), &stranger));
            tally.visits += 1;
            tally.repeated += u64::from(!known.insert(stranger));
            if self.adapting {
                self.filter.adapt(&claim, &self.store.members(claim.suspects())?)?;
            }
        }
        tally.nanoseconds = start.elapsed().as_secs_f64() * 1e9;
        Ok(tally)
    }

    /// What an adversary has found out: strangers that are false positives.
    fn mistakes(&self, enough: usize) -> Vec<u64> {
        let strangers = (1_u64 << 40..).filter(|number| self.filter.contains(&(2 * number + 1)));
        strangers.take(enough).collect()
    }
}

/// Uniform numbers in [0, 1), by a simple generator.
fn uniform() -> impl Iterator<Item = f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    })
}

/// Ranks of a power law of exponent 1.5 over ten million strangers, by inverting its
/// continuous form.
fn skewed() -> impl Iterator<Item = u64> {
    const MOST: f64 = 1e7;
    uniform().map(|u| (1.0 - u * (1.0 - MOST.powf(-0.5))).powi(-2) as u64)
}

fn main() -> Result<(), Error> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (members, lookups) = if quick { (20_000, 200_000) } else { (1_000_000, 5_000_000) };
    println!("{members} members, 9-bit remainders, lookups of absent keys only\n");
    println!(
        "{:<9} {:<9} {:>9} {:>9} {:>9} {:>11}",
        "lookups", "adapting", "asked", "visits", "repeated", "ns/lookup"
    );
    for adapting in [false, true] {
        let mut world = World::new(members, adapting)?;
        let hostile = world.mistakes(1000);
        let rounds = (0..lookups).map(|index| hostile[index % hostile.len()]);
        let fresh = uniform().map(|u| (u * 1e15) as u64);
        for (name, tally) in [
            ("uniform", world.look_up(fresh.take(lookups))?),
            ("skewed", world.look_up(skewed().take(lookups))?),
            ("hostile", world.look_up(rounds)?),
        ] {
            let Tally { lookups, visits, repeated, nanoseconds } = tally;
            let (adapting, each) =
                (if adapting { "yes" } else { "no" }, nanoseconds / lookups as f64);
            println!("{name:<9} {adapting:<9} {lookups:>9} {visits:>9} {repeated:>9} {each:>11.0}");
        }
        let statistics = world.filter.filter().statistics();
        let bits = statistics.bytes as f64 * 8.0 / members as f64;
        println!(
            "{:>9} {} repairs, {} extension slots, {bits:.2} bits a member\n",
            "", statistics.adaptations, statistics.extension_slots
        );
    }
    Ok(())
}
