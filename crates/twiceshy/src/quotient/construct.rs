//! The one constructor: members and mistakes in, a filter without either error out.

use super::builder::check_shape;
use super::entry::{Entry, MOST_IN_ALL, MOST_MEMBERS, MOST_VALUE_BITS, Spelling};
use super::listing::append;
use super::{AdaptiveQuotientFilter, Parameters};
use crate::bits::machine::{Level, Machine, Operation};
use crate::bits::word::low_bits;
use crate::error::BuildError;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{QuotientTable, Reader, TableFull, TableWriter};
use crate::{Hash, Member};
use core::iter::Peekable;

impl AdaptiveQuotientFilter {
    /// A filter of exactly these parameters in which every one of `members` is "maybe"
    /// and every one of `mistakes` is "absent", written in one pass. Both come in hash
    /// order.
    ///
    /// A member's fingerprint must be long enough to be no prefix of any mistake; in
    /// hash order, the mistakes that share most with it are the one before and the one
    /// after it, so one look at each is enough.
    ///
    /// [`Builder::build_sorted`](super::Builder::build_sorted) finds the parameters, too.
    ///
    /// # Errors
    /// If a list is out of order, if a hash is on both, if they don't fit, or if there are more
    /// than 2^40 members of one fingerprint or more than 2^62 in all.
    pub fn from_sorted(
        parameters: Parameters,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        Self::rebuilt(parameters, &[], members, mistakes)
    }

    /// As [`from_sorted`](Self::from_sorted), in place of other filters that hold these
    /// members: to grow, shrink or merge them, into any size.
    ///
    /// Where a fingerprint was lengthened, its members get one that covers no more than it
    /// did. So what was repaired in a filter stays repaired, whether the mistake is listed or
    /// not, if this is the only one, and the new one has 2^k times its slots, k ≥ 0, and
    /// remainders of no fewer bits than are left of its own. In other sizes, or among other
    /// filters' members, the fingerprint of a neighbour may cover a mistake that it didn't
    /// cover before: to be certain, list them all. Values stay with their members; of members that share a fingerprint, the
    /// largest one's. Tombstones go.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let members = [1u128, 2, 3].map(|member| Hash::from_u128(member << 120));
    /// let mut filter = AdaptiveQuotientFilter::builder().slots(100).build()?;
    /// filter.insert_many(&members)?;
    /// let mut parameters = filter.parameters();
    /// parameters.slots = 1234;
    /// let grown = AdaptiveQuotientFilter::rebuilt(parameters, &[&filter], members, [])?;
    /// assert_eq!(grown.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_sorted`](Self::from_sorted), or if a value has more bits than the parameters
    /// allow.
    pub fn rebuilt(
        parameters: Parameters,
        sources: &[&Self],
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let mut filter = Self::empty(parameters)?;
        let (digits, value_bits) = (filter.digits, filter.value_bits);
        let mut sources: Vec<Source<'_>> =
            sources.iter().map(|source| Source::new(source)).collect();
        let mut mistakes = Neighbours::new(mistakes.into_iter());
        let mut writer = filter.writer();
        let mut minirun: Vec<Placed> = Vec::new();
        for member in in_order(members.into_iter().map(Into::into)) {
            let Member { hash, count } = member?;
            let scaled = digits.scale(hash);
            if let Some(last) = minirun.last_mut().filter(|last| last.scaled == scaled) {
                last.count = last.count.saturating_add(count);
                continue;
            }
            let mut placed = Placed { scaled, count, length: 1, value: 0 };
            for mistake in mistakes.around(hash)?.into_iter().flatten() {
                let needed = digits.to_tell_apart(scaled, digits.scale(mistake));
                let needed = needed.ok_or(BuildError::MistakeIsMember { hash, position: None })?;
                placed.length = placed.length.max(needed);
            }
            for source in &mut sources {
                source.keep(hash, &mut placed, digits);
            }
            if placed.value > low_bits(value_bits) {
                return Err(BuildError::ValueTooLarge { value: placed.value, bits: value_bits });
            }
            let apart = |first: &Placed| {
                digits.to_tell_apart(first.scaled, scaled).is_some_and(|needed| needed <= 1)
            };
            if minirun.first().is_some_and(apart) {
                write_minirun(digits, &mut minirun, &mut writer)?;
            }
            minirun.push(placed);
        }
        write_minirun(digits, &mut minirun, &mut writer)?;
        mistakes.finish()?;
        let written = writer.finish()?;
        filter.count_written(written);
        Ok(filter)
    }

    pub(super) fn empty(parameters: Parameters) -> Result<Self, BuildError> {
        parameters.check()?;
        let Parameters { slots, remainder_bits, slot_bits, value_bits, hash } = parameters;
        let table = QuotientTable::new(slots, slot_bits)
            .ok_or(BuildError::Memory { slots, remainder_bits: slot_bits })?;
        let digits = Digits { slots, remainder: remainder_bits, width: slot_bits };
        Ok(Self::from_table(table, digits, value_bits, hash))
    }

    /// Writes into a filter that has no members.
    pub(super) fn writer(&mut self) -> EntryWriter<'_> {
        let (slots, spelling, level) = (self.table.slots(), self.spelling(), self.table.level());
        let writer = TableWriter::new(&mut self.table);
        let waiting = Vec::with_capacity(BATCH);
        EntryWriter { writer, spelling, slots, written: Written::default(), level, waiting }
    }

    pub(super) fn count_written(&mut self, written: Written) {
        self.len = written.members;
        self.tombstones = written.tombstones;
        self.extra_slots = self.table.used() - written.entries;
    }
}

/// A member of a filter to be written.
#[derive(Clone, Copy)]
struct Placed {
    scaled: Scaled,
    count: u64,
    /// Digits of its fingerprint.
    length: u32,
    value: u64,
}

/// Writes the members of a minirun, in order.
#[inline(always)]
fn write_minirun(
    digits: Digits,
    minirun: &mut Vec<Placed>,
    writer: &mut EntryWriter<'_>,
) -> Result<(), BuildError> {
    if let &[Placed { scaled, count: 1, length: 1, value: 0 }] = &minirun[..] {
        minirun.clear();
        return writer.write_single((scaled.quotient, scaled.leading(digits.remainder)));
    }
    make_prefix_free(digits, minirun);
    let mut entries: Vec<Entry> = Vec::with_capacity(minirun.len());
    for Placed { scaled, count, length, value } in minirun.drain(..) {
        let fingerprint = digits.fingerprint(scaled, length);
        append(&mut entries, Entry { fingerprint, count, value });
    }
    entries.into_iter().try_for_each(|entry| writer.write(entry))
}

/// Lengthens fingerprints that are prefixes of others, until they are equal or no prefix.
///
/// In order, what lies between a fingerprint and a longer one that it is a prefix of has
/// it as a prefix, too: so it is enough to look at neighbours.
#[cold]
fn make_prefix_free(digits: Digits, minirun: &mut [Placed]) {
    let mut changed = true;
    while changed {
        changed = false;
        for index in 1..minirun.len() {
            let [a, b] = [minirun[index - 1], minirun[index]];
            let apart = digits.to_tell_apart(a.scaled, b.scaled).unwrap_or(u32::MAX);
            let (shorter, longer) = (a.length.min(b.length), a.length.max(b.length));
            if shorter < longer && shorter < apart {
                let shorter = if a.length < b.length { index - 1 } else { index };
                minirun[shorter].length = longer.min(apart);
                changed = true;
            }
        }
    }
}

/// A filter that is to be replaced, read in step with its members.
struct Source<'a> {
    filter: &'a AdaptiveQuotientFilter,
    rest: Peekable<Reader<'a>>,
}

impl<'a> Source<'a> {
    fn new(filter: &'a AdaptiveQuotientFilter) -> Self {
        Self { filter, rest: filter.table.stored().peekable() }
    }

    /// The entry that covers a hash, which is not less than the one before.
    fn covering(&mut self, hash: Hash) -> Option<Entry> {
        let scaled = self.filter.digits.scale(hash);
        let place = (scaled.quotient, scaled.leading(self.filter.digits.remainder));
        while let Some(stored) = self.rest.peek() {
            if (stored.quotient, stored.remainder) > place {
                return None;
            }
            if (stored.quotient, stored.remainder) == place {
                let entry = self.filter.decode(stored.clone());
                if entry.fingerprint.covers_scaled(scaled) {
                    return Some(entry);
                }
                if entry.fingerprint.prefix() > scaled.fraction {
                    return None;
                }
            }
            self.rest.next();
        }
        None
    }

    /// Makes a member's fingerprint so long that it covers no more than a lengthened one
    /// that it had here, and gives it the value that it had.
    fn keep(&mut self, hash: Hash, placed: &mut Placed, digits: Digits) {
        let Some(entry) = self.covering(hash).filter(|entry| entry.count > 0) else { return };
        placed.value = placed.value.max(entry.value);
        if self.filter.digits.count(&entry.fingerprint) == 1 {
            return;
        }
        let (before, most) = (entry.fingerprint.hashes(), digits.most());
        let within = |length: u32| {
            let hashes = digits.fingerprint(placed.scaled, length).hashes();
            before.contains(hashes.start()) && before.contains(hashes.end())
        };
        placed.length = (placed.length..most).find(|&length| within(length)).unwrap_or(most);
    }
}

/// What was written.
#[derive(Clone, Copy, Default)]
pub(super) struct Written {
    members: u64,
    tombstones: u64,
    entries: u64,
}

/// Writes entries, in order.
pub(super) struct EntryWriter<'a> {
    writer: TableWriter<'a>,
    spelling: Spelling,
    slots: u64,
    written: Written,
    level: Level,
    /// Quotients and remainders that are still to be written, the last one's always among
    /// them.
    waiting: Vec<(u64, u64)>,
}

/// Entries that are written at once: so many that it pays, so few that they stay in the
/// first-level cache.
const BATCH: usize = 256;

impl EntryWriter<'_> {
    pub(super) fn write(&mut self, entry: Entry) -> Result<(), BuildError> {
        self.write_waiting()?;
        if entry.count > MOST_MEMBERS {
            return Err(BuildError::Uncountable);
        }
        self.written.members += entry.count;
        self.check_members()?;
        self.written.tombstones += u64::from(entry.count == 0);
        self.written.entries += 1;
        let slots = self.spelling.slots(entry);
        let pushed = self.writer.push(entry.fingerprint.quotient(), slots);
        pushed.map_err(|TableFull| BuildError::Full { slots: self.slots })
    }

    /// Writes the entry of a single member, that has this quotient and remainder, and no
    /// more.
    #[inline(always)]
    pub(super) fn write_single(&mut self, single: (u64, u64)) -> Result<(), BuildError> {
        if self.waiting.len() == BATCH {
            self.write_waiting()?;
        }
        self.waiting.push(single);
        Ok(())
    }

    /// As [`write_single`](Self::write_single), of all that make one.
    #[inline(always)]
    pub(super) fn write_singles<T: Copy>(
        &mut self,
        all: &[T],
        single: impl Fn(T) -> (u64, u64),
    ) -> Result<(), BuildError> {
        self.write_waiting()?;
        let Some((&last, others)) = all.split_last() else { return Ok(()) };
        self.waiting.push(single(last));
        self.written.members += others.len() as u64;
        self.written.entries += others.len() as u64;
        let pushed = self.writer.push_remainders(others.iter().map(|&other| single(other)));
        pushed.map_err(|TableFull| BuildError::Full { slots: self.slots })
    }

    /// Takes the last one back; it must have been a single one's.
    pub(super) fn take_single(&mut self) -> (u64, u64) {
        self.waiting.pop().expect("the last is never written before the next comes")
    }

    #[inline(never)]
    fn write_waiting(&mut self) -> Result<(), BuildError> {
        self.written.members += self.waiting.len() as u64;
        self.written.entries += self.waiting.len() as u64;
        let pushed = self.level.run(WriteWaiting(self));
        pushed.map_err(|TableFull| BuildError::Full { slots: self.slots })
    }

    /// Checks that there are no more members than can be counted.
    fn check_members(&self) -> Result<(), BuildError> {
        if self.written.members > MOST_IN_ALL { Err(BuildError::Uncountable) } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> Result<Written, BuildError> {
        self.write_waiting()?;
        self.check_members()?;
        let finished = self.writer.finish();
        finished.map_err(|TableFull| BuildError::Full { slots: self.slots })?;
        Ok(self.written)
    }
}

struct WriteWaiting<'w, 'a>(&'w mut EntryWriter<'a>);

impl Operation for WriteWaiting<'_, '_> {
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine>(self, _: M) -> Self::Output {
        self.0.writer.push_remainders(self.0.waiting.drain(..))
    }
}

impl Parameters {
    /// Says what is wrong with parameters that no filter can have.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        check_shape(self.slots, self.slot_bits)?;
        if !(1..=self.slot_bits).contains(&self.remainder_bits) {
            return Err(BuildError::RemainderBits(self.remainder_bits));
        }
        if self.value_bits > MOST_VALUE_BITS {
            return Err(BuildError::ValueBits(self.value_bits));
        }
        Ok(())
    }
}

/// Passes members on as long as none is less than the one before; those that were inserted
/// no times are none.
fn in_order(
    members: impl Iterator<Item = Member>,
) -> impl Iterator<Item = Result<Member, BuildError>> {
    let mut last = Hash::MIN;
    members.filter(|member| member.count > 0).map(move |member| {
        let ordered = member.hash >= last;
        last = member.hash;
        if ordered { Ok(member) } else { Err(BuildError::Unsorted("members")) }
    })
}

/// The mistakes next to each member, in one pass over both.
struct Neighbours<I: Iterator<Item = Hash>> {
    before: Option<Hash>,
    rest: Peekable<I>,
}

impl<I: Iterator<Item = Hash>> Neighbours<I> {
    fn new(mistakes: I) -> Self {
        Self { before: None, rest: mistakes.peekable() }
    }

    /// The last mistake that is not behind `member`, and the first that is.
    fn around(&mut self, member: Hash) -> Result<[Option<Hash>; 2], BuildError> {
        while let Some(mistake) = self.rest.next_if(|&mistake| mistake <= member) {
            self.step(mistake)?;
        }
        Ok([self.before, self.rest.peek().copied()])
    }

    fn step(&mut self, mistake: Hash) -> Result<(), BuildError> {
        if self.before.replace(mistake).is_some_and(|before| before > mistake) {
            return Err(BuildError::Unsorted("mistakes"));
        }
        Ok(())
    }

    /// Looks at the mistakes behind the last member, too.
    fn finish(mut self) -> Result<(), BuildError> {
        while let Some(mistake) = self.rest.next() {
            self.step(mistake)?;
        }
        Ok(())
    }
}
