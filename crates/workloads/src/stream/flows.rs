use libm::pow;
use rand::RngExt;
use rand::distr::Distribution;

use super::Zipf;
use crate::Invalid;
use crate::invalid::{at_least_one, share};
use crate::random::{Random, random};

/// A stream of packets on a network link. Each packet is represented by the number of its flow.
///
/// The stream has the properties that network measurements agree on and that matter to a filter:
///
/// - most flows have few packets, and few flows have most packets: sizes follow a Pareto law whose
///   variance is infinite;
/// - packets come in trains: the next packet often belongs to the same flow;
/// - a flow's packets are close together in time, mixed with those of other open flows;
/// - some pairs of hosts return, others appear once: numbers below [`known`](FlowsConfig::known)
///   return by a Zipfian law, the others are new.
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
    /// Number of flows open at a time.
    pub open: u32,
    /// The exponent of the law of sizes, `P(packets >= x) = x^-tail`; smaller means a heavier tail.
    pub tail: f64,
    /// Maximum number of packets per flow; without a limit, a sample's mean would be meaningless.
    pub most: u64,
    /// The probability that the next packet is of the same flow, unless the flow has ended.
    pub train: f64,
    /// The probability that a flow is between known hosts.
    pub returning: f64,
    /// Number of known pairs of hosts.
    pub known: u64,
    /// The exponent of the Zipfian law of known pairs.
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
    /// Creates the stream.
    ///
    /// # Errors
    ///
    /// If a number is 0, a probability isn't from 0 to 1, or an exponent isn't above 0.
    pub fn new(config: FlowsConfig, seed: u64) -> Result<Self, Invalid> {
        at_least_one("the number of open flows", config.open.into())?;
        at_least_one("the maximum number of packets per flow", config.most)?;
        share("the probability of a train", config.train)?;
        share("the probability of returning", config.returning)?;
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
        // Inverse transform sampling; 1 - u is above 0.
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
    fn few_flows_have_most_packets() {
        let sizes = sizes(&packets(FlowsConfig::default(), 1));
        let top: u64 = sizes[..sizes.len() / 100].iter().sum();
        assert!(top > 700_000, "1 % of the flows have {top} packets of 2,000,000");
        let small = sizes.iter().filter(|size| **size <= 2).count() as f64 / sizes.len() as f64;
        assert!(small > 0.5, "{small} of the flows are small");
    }

    /// Uses Hill's estimator over complete flows of new hosts.
    #[test]
    fn tail_exponent_is_as_configured() {
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
            // Ending flows shorten trains; drawing the same flow again lengthens them.
            assert!((same - train).abs() < 0.05, "{same} instead of {train}");
        }
    }

    #[test]
    fn flows_have_temporal_locality() {
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
        assert!(ordered > 2 * shuffled, "{ordered} in order, {shuffled} shuffled");
    }

    #[test]
    fn known_hosts_return_as_often_as_configured() {
        let config = FlowsConfig { most: 1, ..FlowsConfig::default() };
        let packets = packets(config, 5);
        let known = packets.iter().filter(|packet| **packet < config.known).count() as f64 / 2e6;
        assert!((known - 0.3).abs() < 0.005, "{known}");
    }

    #[test]
    fn invalid_config_is_an_error() {
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
