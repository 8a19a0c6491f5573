use libm::pow;
use rand::RngExt;
use rand::distr::Distribution;

use super::Zipf;
use crate::Invalid;
use crate::invalid::{share, some};
use crate::random::{Random, random};

/// Packets as a link of a network sees them, each the number of its flow.
///
/// What measurements of networks agree on, and what a filter notices of it:
///
/// - most flows are of a few packets, most packets of a few flows: sizes follow a Pareto law
///   with a tail so heavy that its variance has no bound;
/// - packets come in trains: who sent the last one often sends the next;
/// - a flow's packets are close together in time, among those of other flows that are open;
/// - some pairs of hosts meet again and again, others once: the numbers below
///   [`known`](FlowsConfig::known) come back, by a Zipfian law, the others are new.
#[derive(Clone, Debug)]
pub struct Flows {
    config: FlowsConfig,
    acquaintances: Zipf,
    open: Vec<Flow>,
    last: usize,
    newest: u64,
    random: Random,
}

/// The shape of a stream of [`Flows`].
#[derive(Clone, Copy, Debug)]
pub struct FlowsConfig {
    /// How many flows are open at a time.
    pub open: u32,
    /// The exponent of the law of sizes, `P(packets >= x) = x^-tail`; smaller is heavier.
    pub tail: f64,
    /// The most packets of a flow: without a limit, the mean of a sample would mean nothing.
    pub most: u64,
    /// The probability that the next packet is of the same flow, if that isn't over.
    pub train: f64,
    /// The probability that a flow is between hosts that are known.
    pub returning: f64,
    /// How many pairs of hosts are known.
    pub known: u64,
    /// How uneven the known ones are: the exponent of their Zipfian law.
    pub skew: f64,
}

impl Default for FlowsConfig {
    fn default() -> Self {
        Self {
            open: 4096,
            tail: 1.2,
            most: 1_000_000,
            train: 0.5,
            returning: 0.3,
            known: 100_000,
            skew: 1.0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    number: u64,
    packets: u64,
}

impl Flows {
    /// The stream of a shape and a seed.
    ///
    /// # Errors
    ///
    /// If a number of things is 0, a probability isn't one, or an exponent isn't above 0.
    pub fn new(config: FlowsConfig, seed: u64) -> Result<Self, Invalid> {
        some("the number of open flows", config.open.into())?;
        some("the most packets of a flow", config.most)?;
        share("the probability of a train", config.train)?;
        share("the probability to return", config.returning)?;
        if !(config.tail.is_finite() && config.tail > 0.0) {
            let wanted = "finite and above 0";
            return Err(Invalid { parameter: "the tail", given: config.tail, wanted });
        }
        let mut flows = Self {
            config,
            acquaintances: Zipf::new(config.known, config.skew)?,
            open: Vec::new(),
            last: 0,
            newest: config.known,
            random: random(seed, "flows"),
        };
        flows.open = (0..config.open).map(|_| flows.begin()).collect();
        Ok(flows)
    }

    fn begin(&mut self) -> Flow {
        let number = if self.random.random::<f64>() < self.config.returning {
            self.acquaintances.sample(&mut self.random)
        } else {
            self.newest += 1;
            self.newest - 1
        };
        // 1 - u is above 0, and its power is the size that a share of u stays below.
        let size = pow(1.0 - self.random.random::<f64>(), -1.0 / self.config.tail);
        Flow { number, packets: (size as u64).min(self.config.most) }
    }
}

impl Iterator for Flows {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let is_over = self.open[self.last].packets == 0;
        if is_over {
            self.open[self.last] = self.begin();
        }
        if is_over || self.random.random::<f64>() >= self.config.train {
            self.last = self.random.random_range(0..self.open.len());
        }
        let flow = &mut self.open[self.last];
        flow.packets -= 1;
        Some(flow.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::seq::SliceRandom;

    use super::{Flows, FlowsConfig};
    use crate::random::random;

    fn sizes(packets: &[u64]) -> Vec<u64> {
        let mut sizes: HashMap<u64, u64> = HashMap::new();
        for packet in packets {
            *sizes.entry(*packet).or_default() += 1;
        }
        let mut sizes: Vec<u64> = sizes.into_values().collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }

    fn packets(config: FlowsConfig, seed: u64) -> Vec<u64> {
        Flows::new(config, seed).unwrap().take(2_000_000).collect()
    }

    #[test]
    fn few_flows_have_most_packets_and_most_flows_few() {
        let sizes = sizes(&packets(FlowsConfig::default(), 1));
        let top: u64 = sizes[..sizes.len() / 100].iter().sum();
        assert!(top > 700_000, "1 % of the flows have {top} packets of 2,000,000");
        let small = sizes.iter().filter(|size| **size <= 2).count() as f64 / sizes.len() as f64;
        assert!(small > 0.5, "{small} of the flows are small");
    }

    /// Hill's estimator over flows that don't return and are over.
    #[test]
    fn the_tail_is_as_heavy_as_asked_for() {
        for tail in [0.9, 1.2, 1.6] {
            let config = FlowsConfig {
                tail,
                returning: 0.0,
                open: 16,
                most: 10_000,
                ..FlowsConfig::default()
            };
            let sizes = sizes(&packets(config, 2));
            let inside: Vec<f64> = sizes
                .iter()
                .filter(|size| **size < 10_000)
                .take(2000)
                .map(|size| *size as f64)
                .collect();
            let least = inside[inside.len() - 1];
            let logs: f64 = inside.iter().map(|size| (size / least).ln()).sum();
            let estimate = inside.len() as f64 / logs;
            assert!((estimate / tail - 1.0).abs() < 0.25, "{estimate} instead of {tail}");
        }
    }

    #[test]
    fn packets_come_in_trains() {
        for train in [0.0, 0.5, 0.8] {
            let config = FlowsConfig { train, tail: 0.5, ..FlowsConfig::default() };
            let packets = packets(config, 3);
            let same = packets.array_windows().filter(|[a, b]| a == b).count() as f64 / 2e6;
            // Flows that end cut trains short, flows that are drawn again prolong them.
            assert!((same - train).abs() < 0.05, "{same} instead of {train}");
        }
    }

    #[test]
    fn what_was_seen_lately_is_seen_again() {
        let recently = |packets: &[u64]| {
            let mut last: HashMap<u64, usize> = HashMap::new();
            let again = |(now, packet): (usize, &u64)| {
                last.insert(*packet, now).is_some_and(|before| now - before < 1000)
            };
            packets.iter().enumerate().map(again).filter(|again| *again).count()
        };
        let mut packets = packets(FlowsConfig { open: 256, ..FlowsConfig::default() }, 4);
        let ordered = recently(&packets);
        packets.shuffle(&mut random(4, "shuffle"));
        let shuffled = recently(&packets);
        assert!(ordered > 2 * shuffled, "{ordered} in order, {shuffled} out of it");
    }

    #[test]
    fn known_hosts_return_as_often_as_asked_for() {
        let config = FlowsConfig { most: 1, ..FlowsConfig::default() };
        let packets = packets(config, 5);
        let known = packets.iter().filter(|packet| **packet < config.known).count() as f64 / 2e6;
        assert!((known - 0.3).abs() < 0.005, "{known}");
    }

    #[test]
    fn nonsense_is_refused() {
        let fine = FlowsConfig::default();
        for config in [
            FlowsConfig { open: 0, ..fine },
            FlowsConfig { most: 0, ..fine },
            FlowsConfig { tail: 0.0, ..fine },
            FlowsConfig { train: 1.1, ..fine },
            FlowsConfig { returning: f64::NAN, ..fine },
            FlowsConfig { known: 0, ..fine },
        ] {
            assert!(Flows::new(config, 1).is_err(), "{config:?}");
        }
    }
}
