//! Adapters that give all filters the same interface. An adapter runs a whole loop over keys, so
//! that there is no dynamic dispatch per key.

use scalable_cuckoo_filter::{ScalableCuckooFilter, ScalableCuckooFilterBuilder};
use std::hash::Hasher;
use twiceshy::{AdaptiveBloomFilter, Hash, Keyed, QuotientFilter, Secret, hash::KeyedHasher};
use xorf::Filter as _;

/// An operation to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Insert { many: bool, prehashed: bool },
    Bulk { prehashed: bool },
    Lookup { positive: bool, many: bool, prehashed: bool },
}

impl Op {
    pub(super) const ALL: [Op; 14] = [
        Op::Insert { many: false, prehashed: false },
        Op::Insert { many: true, prehashed: false },
        Op::Insert { many: false, prehashed: true },
        Op::Insert { many: true, prehashed: true },
        Op::Bulk { prehashed: false },
        Op::Bulk { prehashed: true },
        Op::Lookup { positive: false, many: false, prehashed: false },
        Op::Lookup { positive: true, many: false, prehashed: false },
        Op::Lookup { positive: false, many: true, prehashed: false },
        Op::Lookup { positive: true, many: true, prehashed: false },
        Op::Lookup { positive: false, many: false, prehashed: true },
        Op::Lookup { positive: true, many: false, prehashed: true },
        Op::Lookup { positive: false, many: true, prehashed: true },
        Op::Lookup { positive: true, many: true, prehashed: true },
    ];

    pub(super) fn name(self) -> String {
        let (what, many, prehashed) = match self {
            Op::Insert { many, prehashed } => ("insert", many, prehashed),
            Op::Bulk { prehashed } => ("bulk", false, prehashed),
            Op::Lookup { positive: true, many, prehashed } => ("positive", many, prehashed),
            Op::Lookup { positive: false, many, prehashed } => ("negative", many, prehashed),
        };
        let (many, prehashed) =
            (if many { "_many" } else { "" }, if prehashed { "_prehashed" } else { "" });
        [what, many, prehashed].concat()
    }
}

/// The keys and their hashes. They are the same for all filters.
pub(super) struct Work {
    pub(super) hasher: KeyedHasher,
    pub(super) secret: Secret,
    pub(super) slots: u64,
    pub(super) remainder_bits: u32,
    pub(super) members: Vec<u64>,
    pub(super) member_hashes: Vec<Hash>,
    /// The members to look up, in a different order than that of the inserts.
    pub(super) asked: Vec<u64>,
    pub(super) asked_hashes: Vec<Hash>,
    pub(super) strangers: Vec<u64>,
    pub(super) stranger_hashes: Vec<Hash>,
}

impl Work {
    pub(super) fn new(slots: u64, remainder_bits: u32, load: f64, queries: usize) -> Self {
        let secret = Secret::from_bytes([7; 16]);
        let hasher = KeyedHasher::new(&secret);
        let count = (slots as f64 * load) as u64;
        // Modulo 2^64, the multiples of an odd number are all different, and in no particular
        // order.
        let key = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let members: Vec<u64> = (0..count).map(key).collect();
        let step = 0x5851_f42d_4c95_7f2d_u64;
        let asked: Vec<u64> =
            (0..queries as u64).map(|index| key(index.wrapping_mul(step) % count)).collect();
        let strangers: Vec<u64> = (count..count + queries as u64).map(key).collect();
        let hashes = |keys: &[u64]| keys.iter().map(|key| hasher.hash(key)).collect();
        Self {
            member_hashes: hashes(&members),
            asked_hashes: hashes(&asked),
            stranger_hashes: hashes(&strangers),
            hasher,
            secret,
            slots,
            remainder_bits,
            members,
            asked,
            strangers,
        }
    }

    pub(super) fn rate(&self) -> f64 {
        f64::from(self.remainder_bits).exp2().recip()
    }

    pub(super) fn queries(&self, positive: bool) -> (&[u64], &[Hash]) {
        if positive {
            (&self.asked, &self.asked_hashes)
        } else {
            (&self.strangers, &self.stranger_hashes)
        }
    }
}

/// A filter in the benchmark.
pub(super) trait Adapter {
    fn name(&self) -> &'static str;
    fn bytes(&self) -> u64;
    fn can(&self, op: Op) -> bool;
    /// Replaces the filter with an empty one before inserts. This isn't measured.
    fn reset(&mut self, work: &Work);
    /// Runs an operation on all keys. The filter must [support](Self::can) it. Returns the number
    /// of "maybe" answers or of inserted members.
    fn run(&mut self, op: Op, work: &Work) -> usize;
    /// Looks up one key, to measure the latency.
    fn look_up(&self, key: u64, hash: Hash, prehashed: bool) -> bool;
}

pub(super) fn count(keys: &[u64], contains: impl Fn(u64) -> bool) -> usize {
    keys.iter().filter(|&&key| contains(key)).count()
}

pub(super) fn count_hashes(hashes: &[Hash], contains: impl Fn(Hash) -> bool) -> usize {
    hashes.iter().filter(|&&hash| contains(hash)).count()
}

/// The number of keys per call of `insert_many`. In contrast, `bulk` inserts all keys in one call.
const BATCH: usize = 1 << 15;

pub(super) struct Aqf {
    filter: Keyed<u64, QuotientFilter>,
    maybe: Vec<bool>,
}

impl Aqf {
    pub(super) fn new(work: &Work) -> Self {
        Self { filter: Self::empty(work), maybe: Vec::new() }
    }

    fn empty(work: &Work) -> Keyed<u64, QuotientFilter> {
        let filter = QuotientFilter::builder()
            .remainder_bits(work.remainder_bits)
            .slots(work.slots)
            .build()
            .expect("memory for a filter");
        Keyed::new(filter, work.secret.clone())
    }
}

impl Aqf {
    fn insert_batches(&mut self, work: &Work, batch: usize, prehashed: bool) -> usize {
        if prehashed {
            for hashes in work.member_hashes.chunks(batch) {
                self.filter.filter_mut().insert_many(hashes).expect("room");
            }
        } else {
            for keys in work.members.chunks(batch) {
                self.filter.insert_many(keys).expect("room");
            }
        }
        self.filter.len()
    }
}

impl Adapter for Aqf {
    fn name(&self) -> &'static str {
        "aqf"
    }

    fn bytes(&self) -> u64 {
        self.filter.stats().memory
    }

    fn reset(&mut self, work: &Work) {
        self.filter = Self::empty(work);
    }

    fn can(&self, _: Op) -> bool {
        true
    }

    fn run(&mut self, op: Op, work: &Work) -> usize {
        let (positive, many, prehashed) = match op {
            Op::Lookup { positive, many, prehashed } => (positive, many, prehashed),
            Op::Bulk { prehashed } => return self.insert_batches(work, usize::MAX, prehashed),
            Op::Insert { many: true, prehashed } => {
                return self.insert_batches(work, BATCH, prehashed);
            }
            Op::Insert { many: false, prehashed } => {
                if prehashed {
                    for &hash in &work.member_hashes {
                        self.filter.filter_mut().insert(hash).expect("room");
                    }
                } else {
                    for key in &work.members {
                        self.filter.insert(key).expect("room");
                    }
                }
                return self.filter.len();
            }
        };
        let (keys, hashes) = work.queries(positive);
        match (many, prehashed) {
            (false, true) => count_hashes(hashes, |hash| self.filter.filter().contains(hash)),
            (false, false) => count(keys, |key| self.filter.contains(&key)),
            (true, prehashed) => {
                if prehashed {
                    self.filter.filter().contains_many(hashes, &mut self.maybe);
                } else {
                    self.filter.contains_many(keys, &mut self.maybe);
                }
                self.maybe.iter().filter(|&&maybe| maybe).count()
            }
        }
    }

    fn look_up(&self, key: u64, hash: Hash, prehashed: bool) -> bool {
        if prehashed { self.filter.filter().contains(hash) } else { self.filter.contains(&key) }
    }
}

pub(super) struct Abf {
    filter: Keyed<u64, AdaptiveBloomFilter>,
    maybe: Vec<bool>,
}

impl Abf {
    pub(super) fn new(work: &Work) -> Self {
        Self { filter: Self::empty(work), maybe: Vec::new() }
    }

    fn empty(work: &Work) -> Keyed<u64, AdaptiveBloomFilter> {
        AdaptiveBloomFilter::builder()
            .false_positive_rate(work.rate())
            .capacity(work.members.len())
            .secret(work.secret.clone())
            .build_keyed()
            .expect("memory for a filter")
    }
}

impl Adapter for Abf {
    fn name(&self) -> &'static str {
        "abf"
    }

    fn bytes(&self) -> u64 {
        self.filter.stats().memory
    }

    fn reset(&mut self, work: &Work) {
        self.filter = Self::empty(work);
    }

    fn can(&self, op: Op) -> bool {
        matches!(op, Op::Insert { many: false, .. } | Op::Lookup { .. })
    }

    fn run(&mut self, op: Op, work: &Work) -> usize {
        match op {
            Op::Lookup { positive, many: false, prehashed } => {
                let (keys, hashes) = work.queries(positive);
                if prehashed {
                    count_hashes(hashes, |hash| self.filter.filter().contains(hash))
                } else {
                    count(keys, |key| self.filter.contains(&key))
                }
            }
            Op::Lookup { positive, many: true, prehashed } => {
                let (keys, hashes) = work.queries(positive);
                if prehashed {
                    self.filter.filter().contains_many(hashes, &mut self.maybe);
                } else {
                    self.filter.contains_many(keys, &mut self.maybe);
                }
                self.maybe.iter().filter(|&&maybe| maybe).count()
            }
            Op::Insert { prehashed: true, .. } => {
                for &hash in &work.member_hashes {
                    self.filter.filter_mut().insert(hash).expect("room");
                }
                self.filter.len()
            }
            Op::Insert { .. } | Op::Bulk { .. } => {
                for key in &work.members {
                    self.filter.insert(key).expect("room");
                }
                self.filter.len()
            }
        }
    }

    fn look_up(&self, key: u64, hash: Hash, prehashed: bool) -> bool {
        if prehashed { self.filter.filter().contains(hash) } else { self.filter.contains(&key) }
    }
}

/// A filter from another crate. It takes 64-bit hashes, one at a time.
pub(super) trait Peer: Sized {
    const NAME: &'static str;
    /// Whether members can be inserted one by one. If not, the filter is built from all members at
    /// once.
    const DYNAMIC: bool = true;
    fn new(work: &Work) -> Self;
    fn bytes(&self) -> u64;
    fn insert(&mut self, _hash: u64) {
        unreachable!("a static filter");
    }
    fn bulk(_hashes: &[u64]) -> Self {
        unreachable!("a dynamic filter");
    }
    fn contains(&self, hash: u64) -> bool;
}

pub(super) struct PeerAdapter<F> {
    filter: F,
    hasher: KeyedHasher,
}

fn short(hash: Hash) -> u64 {
    hash.as_u128() as u64
}

impl<F: Peer> PeerAdapter<F> {
    pub(super) fn new(work: &Work) -> Self {
        Self { filter: F::new(work), hasher: work.hasher.clone() }
    }
}

impl<F: Peer> Adapter for PeerAdapter<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn bytes(&self) -> u64 {
        self.filter.bytes()
    }

    fn reset(&mut self, work: &Work) {
        self.filter = F::new(work);
    }

    fn can(&self, op: Op) -> bool {
        match op {
            Op::Insert { many, .. } => F::DYNAMIC && !many,
            Op::Bulk { prehashed } => !F::DYNAMIC && !prehashed,
            Op::Lookup { many, .. } => !many,
        }
    }

    fn run(&mut self, op: Op, work: &Work) -> usize {
        match op {
            Op::Lookup { positive, many: _, prehashed } => {
                let (keys, hashes) = work.queries(positive);
                if prehashed {
                    count_hashes(hashes, |hash| self.filter.contains(short(hash)))
                } else {
                    count(keys, |key| self.filter.contains(short(self.hasher.hash(&key))))
                }
            }
            Op::Bulk { .. } => {
                let hashes: Vec<u64> =
                    work.members.iter().map(|key| short(self.hasher.hash(key))).collect();
                self.filter = F::bulk(&hashes);
                hashes.len()
            }
            Op::Insert { many: _, prehashed } => {
                if prehashed {
                    for &hash in &work.member_hashes {
                        self.filter.insert(short(hash));
                    }
                } else {
                    for key in &work.members {
                        self.filter.insert(short(self.hasher.hash(key)));
                    }
                }
                work.members.len()
            }
        }
    }

    fn look_up(&self, key: u64, hash: Hash, prehashed: bool) -> bool {
        let hash = if prehashed { hash } else { self.hasher.hash(&key) };
        self.filter.contains(short(hash))
    }
}

impl Peer for qfilter::Filter {
    const NAME: &'static str = "qfilter";
    fn new(work: &Work) -> Self {
        let bits = work.slots.ilog2() + work.remainder_bits;
        Self::with_fingerprint_size(work.members.len() as u64, bits as u8).expect("a filter")
    }
    fn bytes(&self) -> u64 {
        self.memory_usage() as u64
    }
    fn insert(&mut self, hash: u64) {
        self.insert_fingerprint(true, hash).expect("room");
    }
    fn contains(&self, hash: u64) -> bool {
        self.contains_fingerprint(hash)
    }
}

impl Peer for fastbloom::BloomFilter {
    const NAME: &'static str = "fastbloom";
    fn new(work: &Work) -> Self {
        Self::with_false_pos(work.rate()).expected_items(work.members.len())
    }
    fn bytes(&self) -> u64 {
        self.num_bits() as u64 / 8
    }
    fn insert(&mut self, hash: u64) {
        self.insert_hash(hash);
    }
    fn contains(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }
}

impl Peer for sbbf_rs_safe::Filter {
    const NAME: &'static str = "split-block";
    fn new(work: &Work) -> Self {
        // Use as many bits per key as the quotient filter.
        let bits = (work.remainder_bits + 4) as usize;
        Self::new(bits, work.members.len())
    }
    fn bytes(&self) -> u64 {
        self.as_bytes().len() as u64
    }
    fn insert(&mut self, hash: u64) {
        self.insert_hash(hash);
    }
    fn contains(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }
}

type Cuckoo = ScalableCuckooFilter<u64, Mixed>;

impl Peer for Cuckoo {
    const NAME: &'static str = "cuckoo";
    fn new(work: &Work) -> Self {
        ScalableCuckooFilterBuilder::new()
            .initial_capacity(work.members.len())
            .false_positive_probability(work.rate())
            .hasher(Mixed::default())
            .finish()
    }
    fn bytes(&self) -> u64 {
        self.bits() / 8
    }
    fn insert(&mut self, hash: u64) {
        ScalableCuckooFilter::insert(self, &hash);
    }
    fn contains(&self, hash: u64) -> bool {
        ScalableCuckooFilter::contains(self, &hash)
    }
}

/// Hashes by one multiplication. The cuckoo filter hashes a fingerprint to get the second index,
/// and this hash spreads these indices.
#[derive(Clone, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }
    fn write_u64(&mut self, value: u64) {
        let odd = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        let product = u128::from(self.0 ^ value).wrapping_mul(odd);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

pub(super) struct Fuse(xorf::BinaryFuse8);

impl Peer for Fuse {
    const NAME: &'static str = "binary-fuse-8";
    const DYNAMIC: bool = false;
    fn new(_: &Work) -> Self {
        Self::bulk(&[])
    }
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
    fn bulk(hashes: &[u64]) -> Self {
        Self(xorf::BinaryFuse8::try_from(hashes).expect("different keys"))
    }
    fn contains(&self, hash: u64) -> bool {
        self.0.contains(&hash)
    }
}
