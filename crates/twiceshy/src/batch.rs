//! The pipeline of batch lookups: prefetch, defer, resolve.
//!
//! A single lookup waits for its cache line; the lookups of a batch overlap their waits. They go
//! through the pipeline in groups:
//!
//! 1. The lines of one group are prefetched. Meanwhile the lines of the previous group arrive.
//! 2. A quick check rules out some lookups of the previous group. The lines of the remaining
//!    candidates are scanned.
//! 3. If a line is inconclusive, its lookup is deferred. Once enough lookups are
//!    deferred, their next lines are prefetched together, and then the lookups are resolved.
//!
//! The processor can't predict which lookups go on to the next step, so the code doesn't branch on
//! that. It writes each lookup to the end of a list, and then advances the end only if the lookup
//! belongs there.

/// Number of lookups per group.
const GROUP: usize = 16;

/// The steps of a lookup. All methods must be `#[inline(always)]`, so that they are compiled for
/// the caller's instruction set.
pub(crate) trait Lookup<K> {
    /// The state of a lookup whose line was prefetched.
    type Begun: Copy + Default;

    /// Finds the line of a key, and prefetches it.
    fn begin(&self, key: &K) -> Self::Begun;

    /// Returns false if the key is certainly absent.
    #[inline(always)]
    fn is_candidate(&self, _begun: &Self::Begun) -> bool {
        true
    }

    /// Scans the line. Returns two flags: whether the key is present, and whether the line can't
    /// decide that.
    fn scan(&self, begun: &Self::Begun) -> (bool, bool);

    /// Prefetches the memory that [`resolve`](Self::resolve) reads.
    #[inline(always)]
    fn defer(&self, _key: &K) {}

    /// Looks up a key whose line was inconclusive.
    #[inline(always)]
    fn resolve(&self, key: &K) -> bool {
        self.contains(key)
    }

    /// Looks up a single key, outside a group.
    fn contains(&self, key: &K) -> bool;
}

/// Looks up all keys, and writes their answers. All `answers` must be false before the call.
#[inline(always)]
pub(crate) fn answer<K, L: Lookup<K>>(lookup: &L, keys: &[K], answers: &mut [bool]) {
    let begin = |key: &K| lookup.begin(key);
    let (groups, rest) = keys.as_chunks::<GROUP>();
    let mut begun = [[L::Begun::default(); GROUP]; 2];
    if let Some(group) = groups.first() {
        begun[0] = group.each_ref().map(begin);
    }
    let mut deferred = List::<{ 2 * GROUP }>::new();
    for number in 0..groups.len() {
        let [even, odd] = &mut begun;
        let (arrived, coming) = if number % 2 == 0 { (even, odd) } else { (odd, even) };
        // There is no group after the last one. Beginning the last one again has no effect.
        let next = &groups[usize::min(number + 1, groups.len() - 1)];
        let mut candidates = List::<GROUP>::new();
        for lane in 0..GROUP {
            coming[lane] = begin(&next[lane]);
            candidates.push_if(lookup.is_candidate(&arrived[lane]), lane);
        }
        let first = number * GROUP;
        // Use a local array, so that the compiler knows that writing an answer doesn't change the
        // filter.
        let mut present = [false; GROUP];
        for &lane in candidates.drain() {
            let (is_present, undecided) = lookup.scan(&arrived[lane % GROUP]);
            present[lane % GROUP] = is_present;
            deferred.push_if(undecided, first + lane);
        }
        answers[first..first + GROUP].copy_from_slice(&present);
        if deferred.count >= GROUP {
            resolve(lookup, deferred.drain(), keys, answers);
        }
    }
    resolve(lookup, deferred.drain(), keys, answers);
    for (key, answer) in rest.iter().zip(&mut answers[groups.len() * GROUP..]) {
        *answer = lookup.contains(key);
    }
}

/// Resolves deferred lookups.
#[inline(always)]
fn resolve<K, L: Lookup<K>>(lookup: &L, deferred: &[usize], keys: &[K], answers: &mut [bool]) {
    for &index in deferred {
        lookup.defer(&keys[index]);
    }
    for &index in deferred {
        answers[index] = lookup.resolve(&keys[index]);
    }
}

/// Clears `answers`, pushes `false` once per key, and lets `fill` write the answers. If `fill`
/// panics, `answers` stays empty.
#[inline(always)]
pub(crate) fn fill_answers(answers: &mut Vec<bool>, keys: usize, fill: impl FnOnce(&mut [bool])) {
    let mut all = core::mem::take(answers);
    all.clear();
    all.resize(keys, false);
    fill(&mut all);
    *answers = all;
}

/// A list of at most `ROOM` numbers. Appending a number takes no branch.
struct List<const ROOM: usize> {
    numbers: [usize; ROOM],
    count: usize,
}

impl<const ROOM: usize> List<ROOM> {
    #[inline(always)]
    fn new() -> Self {
        Self { numbers: [0; ROOM], count: 0 }
    }

    /// Appends `number` if `belongs` is true. The list must have room for it.
    #[inline(always)]
    fn push_if(&mut self, belongs: bool, number: usize) {
        self.numbers[self.count % ROOM] = number;
        self.count += usize::from(belongs);
    }

    /// Empties the list. Returns the numbers that were in it.
    #[inline(always)]
    fn drain(&mut self) -> &[usize] {
        &self.numbers[..core::mem::take(&mut self.count)]
    }
}
