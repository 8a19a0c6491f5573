//! Each attacker beats the victims that it should beat, and no others.

mod victims;

use rand::{RngExt, SeedableRng};
use twiceshy_workloads::Random;
use twiceshy_workloads::adversary::{
    AdaptationLoop, AdaptationLoopConfig, Climber, ClimberConfig, Collector, CollectorConfig,
    Judge, Reply, Tally, Victim, Whittling,
};
use twiceshy_workloads::stream::uniform;
use victims::{Cyclic, Fixed, MEMBERS, Poor, RATE, Repaired};

const JUDGE: Judge = Judge::new(100);

fn random_keys(count: usize, seed: u64) -> Vec<u64> {
    Random::seed_from_u64(seed).random_iter().take(count).collect()
}

/// The other tests would prove nothing if the victims were poor filters from the start.
#[test]
fn random_queries_are_mistakes_at_the_filters_rate() {
    fn rate(victim: &mut impl Victim) -> f64 {
        let keys = random_keys(100_000, 1);
        let mistakes = keys.iter().filter(|key| JUDGE.is_mistake(victim.ask(**key)));
        mistakes.count() as f64 / 100_000.0
    }
    for rate in [
        rate(&mut Fixed::new()),
        rate(&mut Repaired::new(Fixed::new())),
        rate(&mut Poor::new(0xFFF)),
        rate(&mut Cyclic::new()),
    ] {
        assert!((rate / RATE - 1.0).abs() < 0.1, "{rate}");
    }
}

/// Returns the mistake rates of the replayed queries and of the others.
fn replay(victim: &mut impl Victim) -> (f64, f64) {
    let config = CollectorConfig { warm_up: 10_000, capacity: 200 };
    let collector = Collector::collect(victim, config, 2).unwrap();
    assert_eq!(collector.collected().len(), 200);
    assert_eq!(collector.spent().mistakes, 200);
    let mut turns = collector.collected().to_vec().into_iter().cycle();
    let others = uniform(u64::MAX, 3).unwrap();
    let (mut hostile, mut other) = (Tally::default(), Tally::default());
    for query in collector.traffic(others, 0.1, 4).unwrap().take(100_000) {
        assert!(!query.is_hostile || turns.next() == Some(query.key));
        let reply = victim.ask(query.key);
        let mistakes = u64::from(JUDGE.is_mistake(reply));
        let tally = Tally { queries: 1, mistakes, cost: reply.cost };
        *(if query.is_hostile { &mut hostile } else { &mut other }) += tally;
    }
    assert!((9_500..10_500).contains(&hostile.queries), "{hostile:?}");
    (hostile.rate(), other.rate())
}

#[test]
fn collector_beats_only_a_filter_that_never_learns() {
    let (hostile, other) = replay(&mut Fixed::new());
    assert!(hostile > 0.999 && other < 1.2 * RATE, "{hostile}, {other}");
    let (hostile, other) = replay(&mut Repaired::new(Fixed::new()));
    assert!(hostile == 0.0 && other < 1.2 * RATE, "{hostile}, {other}");
}

#[test]
fn collector_without_mistakes_passes_other_queries_through() {
    let mut perfect = |_| Reply::default();
    let config = CollectorConfig { warm_up: 1000, capacity: 10 };
    let collector = Collector::collect(&mut perfect, config, 5).unwrap();
    let traffic = collector.traffic(0..100, 0.9, 6).unwrap();
    assert!(traffic.map(|query| query.key).eq(0..100));
}

#[test]
fn whittling_fails_against_a_filter_that_repairs_mistakes() {
    let queries = || random_keys(20 * MEMBERS as usize, 7);
    let mut whittling = Whittling::new(queries(), 10, JUDGE);
    let rounds = whittling.run(&mut Repaired::new(Fixed::new()), 10);
    assert_eq!(rounds.len(), 2, "each mistake happens once");
    assert!(rounds[0].survival() < 1.2 * RATE && rounds[1].survivors == 0);

    let rounds = Whittling::new(queries(), 10, JUDGE).run(&mut Fixed::new(), 10);
    assert_eq!(rounds.len(), 10);
    assert!((rounds[0].tally.rate() / RATE - 1.0).abs() < 0.2);
    assert!(rounds[1..].iter().all(|round| round.tally.mistakes == round.tally.queries));
}

#[test]
fn whittling_with_enough_queries_beats_a_filter_with_few_states() {
    let last = |times: usize| {
        let queries = random_keys(times * MEMBERS as usize, 8);
        let mut victim = Cyclic::new();
        *Whittling::new(queries, 10, JUDGE).run(&mut victim, 10).last().unwrap()
    };
    let (few, many) = (last(2), last(200));
    assert_eq!(few.survivors, 0, "{few:?}");
    assert!(many.survivors > 100 && many.tally.rate() > 4.0 * RATE, "{many:?}");
}

const SEARCH: AdaptationLoopConfig =
    AdaptationLoopConfig { search: 300_000, pool: 4096, passes: 16, trims: 16 };

#[test]
fn adaptation_loop_is_found_if_the_filter_returns_to_earlier_states() {
    // A larger pool has a larger share of keys that take part in loops.
    for (pool, share) in [(1024, 0.2), (4096, 0.7)] {
        let mut victim = Cyclic::new();
        let config = AdaptationLoopConfig { pool, ..SEARCH };
        let found = AdaptationLoop::find(&mut victim, config, 9).unwrap();
        let length = found.sequence().len();
        assert!(length as f64 > share * pool as f64, "{length} of {pool}");
        for _ in 0..100 {
            let tally = found.replay(&mut victim);
            assert_eq!(tally.mistakes, tally.queries);
        }
    }
}

#[test]
fn other_queries_disturb_an_adaptation_loop_but_do_not_break_it() {
    let mut victim = Cyclic::new();
    let found = AdaptationLoop::find(&mut victim, SEARCH, 9).unwrap();
    let mut others = uniform(u64::MAX, 10).unwrap();
    let mut crowd = |key: u64| {
        if key.is_multiple_of(4) {
            victim.ask(others.next().unwrap());
        }
        victim.ask(key)
    };
    let rates: Vec<f64> = (0..100).map(|_| found.replay(&mut crowd).rate()).collect();
    assert!(rates.iter().all(|rate| *rate > 0.8), "{rates:?}");
}

#[test]
fn no_adaptation_loop_is_found_if_mistakes_are_repaired() {
    let mut victim = Repaired::new(Fixed::new());
    let found = AdaptationLoop::find(&mut victim, SEARCH, 10).unwrap();
    assert_eq!(found.sequence(), []);
    assert!(found.spent().rate() < 1.2 * RATE, "{:?}", found.spent());
}

#[test]
fn one_mistake_is_an_adaptation_loop_if_the_filter_never_learns() {
    let mut victim = Fixed::new();
    let found = AdaptationLoop::find(&mut victim, SEARCH, 11).unwrap();
    let tally = found.replay(&mut victim);
    assert_eq!(tally.mistakes, tally.queries);
}

/// Returns the mistake rate of the last of ten periods.
fn climb(victim: &mut impl Victim, seed: u64) -> f64 {
    let mut climber = Climber::new(victim, ClimberConfig::default(), seed).unwrap();
    let periods: Vec<Tally> = (0..10).map(|_| climber.climb(victim, 100_000)).collect();
    let total: u64 = periods.iter().map(|period| period.queries).sum();
    assert_eq!(climber.spent().queries, total);
    assert_eq!(climber.worth().count(), 5);
    periods[9].rate()
}

#[test]
fn climber_beats_every_filter_except_one_with_repairs_and_a_good_hash() {
    for seed in 12..15 {
        let fixed = climb(&mut Fixed::new(), seed);
        assert!(fixed > 0.9, "{fixed}");
        let cyclic = climb(&mut Cyclic::new(), seed);
        assert!(cyclic > 0.5, "{cyclic}");
        for (ignored, gain) in [(0xFFF, 3.0), (0xFF_FFFF << 30, 2.0)] {
            let poor = climb(&mut Repaired::new(Poor::new(ignored)), seed);
            assert!(poor > gain * RATE, "{poor}");
        }
        let repaired = climb(&mut Repaired::new(Fixed::new()), seed);
        assert!(repaired < 1.1 * RATE, "{repaired}");
    }
}

#[test]
fn climber_without_curiosity_ends_even_if_no_move_finds_mistakes() {
    let mut perfect = |_| Reply::default();
    let config = ClimberConfig { curiosity: 0.0, batch: 1, ..ClimberConfig::default() };
    let mut climber = Climber::new(&mut perfect, config, 13).unwrap();
    assert_eq!(climber.climb(&mut perfect, 1000), Tally { queries: 1000, mistakes: 0, cost: 0 });
    assert_eq!(climber.best(), None);
}

#[test]
fn invalid_config_is_an_error() {
    let victim = &mut Fixed::new();
    let nothing = CollectorConfig { capacity: 0, ..CollectorConfig::default() };
    assert!(Collector::collect(victim, nothing, 1).is_err());
    let nothing = AdaptationLoopConfig { passes: 0, ..SEARCH };
    assert!(AdaptationLoop::find(victim, nothing, 1).is_err());
    let invalid = ClimberConfig { curiosity: 2.0, ..ClimberConfig::default() };
    assert!(Climber::new(victim, invalid, 1).is_err());
}
