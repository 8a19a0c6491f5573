//! Construction of a filter from sorted members and mistakes, in one pass.

use super::edit::append;
use super::entry::{Entry, MOST_IN_ALL, MOST_MEMBERS, MOST_VALUE_BITS, Spelling};
use super::{Parameters, QuotientFilter};
use crate::bits::machine::{Machine, Operation, Target};
use crate::bits::word::low_bits;
use crate::error::{BuildError, PlanError};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{QuotientTable, Reader, SLOTS, TableFull, TableWriter, WIDTHS, Widths};
use crate::{Hash, Member};
use core::iter::Peekable;

impl QuotientFilter {
    /// Builds a filter with exactly these parameters, in one pass. It answers "maybe" to every one
    /// of `members` and "absent" to every one of `mistakes`. Both lists must be in hash order.
    /// [`Builder::build_sorted`](crate::builder::Builder::build_sorted) chooses the parameters.
    ///
    /// # Errors
    /// If a list is out of order, if a hash is on both lists, if the members don't fit, if more
    /// than 2^40 members share a fingerprint, or if there are more than 2^62 members.
    pub fn from_sorted(
        parameters: Parameters,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        Self::rebuilt(parameters, &[], members, mistakes)
    }

    /// Builds a filter of any size that replaces `sources`, other filters that hold these members.
    /// Lists work as in [`from_sorted`](Self::from_sorted).
    ///
    /// List all mistakes that must stay repaired. Unlisted ones stay repaired only if there is one
    /// source, the new filter has 2^k times its slots (k ≥ 0), and the new remainders have at least
    /// as many bits as the source's have left after k doublings.
    ///
    /// Members keep their values. If members share a fingerprint, it gets the largest of their
    /// values. Tombstones are dropped.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let members = [1u128, 2, 3].map(|member| Hash::from_u128(member << 120));
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// filter.insert_many(&members)?;
    /// let mut parameters = filter.parameters();
    /// parameters.slots = 1234;
    /// let grown = QuotientFilter::rebuilt(parameters, &[&filter], members, [])?;
    /// assert_eq!(grown.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`from_sorted`](Self::from_sorted), or if a value has more bits than the
    /// parameters allow.
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
        let mistakes = in_order(mistakes.into_iter(), |mistake| mistake, "mistakes");
        let mut mistakes = Neighbours { before: None, rest: mistakes.peekable() };
        let mut writer = filter.writer();
        let mut minirun: Vec<Placed> = Vec::new();
        let members = members.into_iter().map(Into::into).filter(|member| member.count > 0);
        for member in in_order(members, |member: Member| member.hash, "members") {
            let Member { hash, count } = member?;
            let scaled = digits.scale(hash);
            if let Some(last) = minirun.last_mut().filter(|last| last.scaled == scaled) {
                last.count = last.count.saturating_add(count);
                continue;
            }
            let mut placed = Placed { scaled, count, length: 1, value: 0 };
            // The mistakes that share most with the member are next to it in hash order.
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
        mistakes.rest.try_for_each(|mistake| mistake.map(drop))?;
        let written = writer.finish()?;
        filter.count_written(written);
        Ok(filter)
    }

    pub(super) fn empty(parameters: Parameters) -> Result<Self, BuildError> {
        parameters.check()?;
        let Parameters { slots, slot_bits, .. } = parameters;
        let table = QuotientTable::new(slots, slot_bits).ok_or(BuildError::Memory {
            bytes: Self::memory_for(slots, slot_bits).unwrap_or(u64::MAX),
        })?;
        Ok(Self::from_table(table, parameters))
    }

    /// Returns a writer for this filter, which must have no members.
    pub(super) fn writer(&mut self) -> EntryWriter<'_> {
        let (slots, spelling, target) = (self.table.slots(), self.spelling(), self.table.target());
        let writer = TableWriter::new(&mut self.table);
        let waiting = Vec::with_capacity(BATCH);
        EntryWriter { writer, spelling, slots, written: Written::default(), target, waiting }
    }

    pub(super) fn count_written(&mut self, written: Written) {
        self.len = written.members;
        self.tombstones = written.tombstones;
        self.extra_slots = self.table.used() - written.entries;
    }
}

/// A member that is to be written.
#[derive(Clone, Copy)]
struct Placed {
    scaled: Scaled,
    count: u64,
    /// Number of digits in its fingerprint.
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

/// Lengthens each fingerprint that is a prefix of another one, until it equals the other or is no
/// longer its prefix.
///
/// If a fingerprint is a prefix of a longer one, it is also a prefix of everything between them in
/// order. So it is enough to compare neighbours.
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

/// A filter that is to be replaced. It is read in step with the list of members.
struct Source<'a> {
    filter: &'a QuotientFilter,
    rest: Peekable<Reader<'a>>,
}

impl<'a> Source<'a> {
    fn new(filter: &'a QuotientFilter) -> Self {
        Self { filter, rest: filter.table.stored().peekable() }
    }

    /// Returns the entry that covers a hash. Calls must come in hash order.
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

    /// Copies a member's value from this filter. If its fingerprint was lengthened here, lengthens
    /// the new one until it covers no more than the old one.
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

/// Counts of the members, tombstones and entries that were written.
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
    target: Target,
    /// Quotients and remainders of single-member entries that are not written yet. If the last
    /// entry was a single member's, it is always among them.
    waiting: Vec<(u64, u64)>,
}

/// Number of entries that are written at once: large enough to pay off, and small enough to stay in
/// the first-level cache.
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

    /// Writes the entry of a single member that has this quotient and remainder and no extension.
    #[inline(always)]
    pub(super) fn write_single(&mut self, single: (u64, u64)) -> Result<(), BuildError> {
        if self.waiting.len() == BATCH {
            self.write_waiting()?;
        }
        self.waiting.push(single);
        Ok(())
    }

    /// Writes an entry for each item of `all`, like [`write_single`](Self::write_single). `single`
    /// converts an item to a quotient and a remainder.
    #[inline(always)]
    pub(super) fn write_singles<const SHAPE: u32, T: Copy>(
        &mut self,
        all: &[T],
        single: impl Fn(T) -> (u64, u64),
    ) -> Result<(), BuildError> {
        self.write_waiting()?;
        let Some((&last, others)) = all.split_last() else { return Ok(()) };
        self.waiting.push(single(last));
        self.written.members += others.len() as u64;
        self.written.entries += others.len() as u64;
        let pushed =
            self.writer.push_remainders::<SHAPE>(others.iter().map(|&other| single(other)));
        pushed.map_err(|TableFull| BuildError::Full { slots: self.slots })
    }

    /// Takes back the last entry, which must be a single member's.
    pub(super) fn take_single(&mut self) -> (u64, u64) {
        self.waiting.pop().expect("the last is never written before the next comes")
    }

    #[inline(never)]
    fn write_waiting(&mut self) -> Result<(), BuildError> {
        self.written.members += self.waiting.len() as u64;
        self.written.entries += self.waiting.len() as u64;
        let pushed = self.target.run(WriteWaiting(self));
        pushed.map_err(|TableFull| BuildError::Full { slots: self.slots })
    }

    /// Checks that the number of members is not above the maximum.
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
    type Argument = ();
    type Output = Result<(), TableFull>;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, _: M, (): ()) -> Self::Output {
        self.0.writer.push_remainders::<SHAPE>(self.0.waiting.drain(..))
    }
}

impl Parameters {
    pub(super) fn digits(&self) -> Digits {
        Digits { slots: self.slots, remainder: self.remainder_bits, width: self.slot_bits }
    }

    /// Checks the parameters, and returns an error if no filter can have them.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if !SLOTS.contains(&self.slots) {
            return Err(PlanError::Slots(self.slots));
        }
        for (bits, most) in [(self.slot_bits, *WIDTHS.end()), (self.remainder_bits, self.slot_bits)]
        {
            if !(1..=most).contains(&bits) {
                return Err(PlanError::RemainderBits { bits, most });
            }
        }
        if self.value_bits > MOST_VALUE_BITS {
            return Err(PlanError::ValueBits(self.value_bits));
        }
        Ok(())
    }
}

/// Passes on the items, or an error if one's hash is less than the one before.
fn in_order<T: Copy>(
    items: impl Iterator<Item = T>,
    hash: impl Fn(T) -> Hash,
    list: &'static str,
) -> impl Iterator<Item = Result<T, BuildError>> {
    let mut last = Hash::MIN;
    items.map(move |item| {
        let before = core::mem::replace(&mut last, hash(item));
        if before <= last { Ok(item) } else { Err(BuildError::Unsorted(list)) }
    })
}

/// Finds the mistakes next to each member, in one pass over both lists.
struct Neighbours<I: Iterator> {
    before: Option<Hash>,
    rest: Peekable<I>,
}

impl<I: Iterator<Item = Result<Hash, BuildError>>> Neighbours<I> {
    /// Returns the last mistake that is at most `member`, and the first that is greater.
    fn around(&mut self, member: Hash) -> Result<[Option<Hash>; 2], BuildError> {
        let is_passed = |next: &I::Item| next.as_ref().map_or(true, |&mistake| mistake <= member);
        while let Some(mistake) = self.rest.next_if(is_passed) {
            self.before = Some(mistake?);
        }
        let next = self.rest.peek().and_then(|next| next.as_ref().ok());
        Ok([self.before, next.copied()])
    }
}
