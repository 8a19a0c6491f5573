//! Builds a filter from sorted members and mistakes, in one pass.

use super::edit::append;
use super::entry::{Entry, MOST_IN_ALL, MOST_MEMBERS, MOST_VALUE_BITS, Spelling};
use super::{Parameters, QuotientFilter, Remainders, Shared, Tally};
use crate::bits::machine::{Target, dispatched};
use crate::bits::word::low_bits;
use crate::error::{BuildError, PlanError};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{QuotientTable, SLOTS, TableFull, TableWriter, WIDTHS, Widths};
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

    /// Builds a filter of any size to replace `sources`, the filters that hold these members now.
    /// Both lists must be in hash order, as in [`from_sorted`](Self::from_sorted).
    ///
    /// List all mistakes that must stay repaired. Unlisted mistakes stay repaired only if there is
    /// one source, the new filter has 2^k times its slots (k ≥ 0), and the new remainders have at
    /// least as many bits as the source's have left after k doublings. If [`Remainders`] aren't
    /// plain, they must also be the same in both filters, and k must be 0.
    ///
    /// Members keep their values. If members share a fingerprint, it gets the largest of their
    /// values. Tombstones are dropped. The new filter grows automatically if a source does, at the
    /// lowest of their loads.
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
        let (digits, value_bits) = (filter.shared.digits, filter.shared.value_bits);
        let members = members.into_iter().map(Into::into).filter(|member| member.count > 0);
        let members = in_order(members, |member: Member| member.hash, "members");
        if !parameters.remainders.is_plain() {
            filter.write_mixed(members, mistakes.into_iter(), sources)?;
            filter.succeed_all(sources);
            return Ok(filter);
        }
        let mut mistakes = Neighbours { before: None, rest: mistakes.into_iter().peekable() };
        let mut writer = filter.writer();
        let mut minirun: Vec<Placed> = Vec::new();
        for member in members {
            let Member { hash, count } = member?;
            let scaled = digits.scale(hash);
            if let Some(last) = minirun.last_mut().filter(|last| last.scaled == scaled) {
                last.count = last.count.saturating_add(count);
                continue;
            }
            let mut placed = Placed { scaled, count, length: 1, value: 0 };
            // The mistakes that share the longest prefix with the member are next to it in hash
            // order.
            for mistake in mistakes.around(hash)?.into_iter().flatten() {
                let needed = digits.to_tell_apart(scaled, digits.scale(mistake));
                let needed = needed.ok_or(BuildError::MistakeIsMember { hash, position: None })?;
                placed.length = placed.length.max(needed);
            }
            placed.keep_from(sources, hash, digits, value_bits)?;
            write_if_done(digits, &mut minirun, scaled, &mut writer)?;
            minirun.push(placed);
        }
        write_minirun(digits, &mut minirun, &mut writer)?;
        mistakes.around(Hash::MAX)?;
        writer.finish()?;
        filter.succeed_all(sources);
        Ok(filter)
    }

    /// Builds a replacement for this filter, with the same size and parameters but fresh
    /// [remainders](Remainders). `members` are the members of this filter, and `mistakes` are those
    /// that must stay repaired. Both lists must be in hash order, as in
    /// [`from_sorted`](Self::from_sorted).
    ///
    /// Use this when repairs have filled the filter: the new one has room again. Nobody can predict
    /// its mistakes from those of this filter, except that they share a member's quotient. A
    /// mistake that isn't listed comes back with a probability of about (1 + α)·2^-r at load α,
    /// where r is the number of bits in a remainder; a random query is a mistake with probability
    /// α·2^-r, so memory stays bounded, whatever the queries are.
    ///
    /// Members keep their values. The new filter can't be [doubled](Self::doubled), so it returns
    /// [`Full`](crate::error::InsertError::Full) when all its slots are used, even if this filter
    /// grows automatically.
    ///
    /// ```
    /// # use twiceshy::{Answer, Hash, QuotientFilter};
    /// let [member, query] = [7, 8].map(|number| Hash::from_u128(number << 80));
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// filter.insert(member)?;
    /// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 44 bits") };
    /// filter.adapt(&claim, &[member])?;
    ///
    /// let rotated = filter.rotated([member], [query])?;
    /// assert!(rotated.contains(member) && !rotated.contains(query));
    /// assert_eq!(rotated.parameters().slots, filter.parameters().slots);
    /// assert_ne!(rotated.parameters().remainders, filter.parameters().remainders);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`from_sorted`](Self::from_sorted), or if the operating system provides no
    /// entropy.
    pub fn rotated(
        &self,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let parameters = Parameters { remainders: Remainders::fresh()?, ..self.parameters() };
        Self::rebuilt(parameters, &[self], members, mistakes)
    }

    /// Writes members and mistakes into this filter, which must be empty and have remainders that
    /// aren't plain.
    ///
    /// Hashes come in order of their quotients, but within a quotient, their fractions are in a
    /// different order, so this collects the members and mistakes of one quotient at a time.
    fn write_mixed(
        &mut self,
        members: impl Iterator<Item = Result<Member, BuildError>>,
        mistakes: impl Iterator<Item = Hash>,
        sources: &[&Self],
    ) -> Result<(), BuildError> {
        let (digits, value_bits) = (self.shared.digits, self.shared.value_bits);
        let mistakes = in_order(mistakes, |mistake| mistake, "mistakes");
        let mut quotient = OneQuotient {
            mistakes: mistakes.peekable(),
            near: Vec::new(),
            members: Vec::new(),
            minirun: Vec::new(),
            writer: self.writer(),
        };
        for member in members {
            let Member { hash, count } = member?;
            let scaled = digits.scale(hash);
            match quotient.members.last_mut() {
                Some((_, last)) if last.scaled == scaled => {
                    last.count = last.count.saturating_add(count);
                    continue;
                }
                Some((_, last)) if last.scaled.quotient != scaled.quotient => quotient.write()?,
                _ => {}
            }
            let mut placed = Placed { scaled, count, length: 1, value: 0 };
            placed.keep_from(sources, hash, digits, value_bits)?;
            quotient.members.push((hash, placed));
        }
        quotient.write()?;
        quotient.mistakes.try_for_each(|mistake| mistake.map(drop))?;
        quotient.writer.finish()
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
        EntryWriter {
            spelling: self.shared.spelling(),
            target: self.shared.table.target(),
            writer: TableWriter::new(self.shared.table.editor(&mut self.usage)),
            tally: &mut self.tally,
            waiting: Vec::with_capacity(BATCH),
        }
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

impl Placed {
    /// Copies the member's value and repairs from the filters that are to be replaced.
    #[inline(always)]
    fn keep_from(
        &mut self,
        sources: &[&QuotientFilter],
        hash: Hash,
        digits: Digits,
        value_bits: u32,
    ) -> Result<(), BuildError> {
        for source in sources {
            self.keep(&source.shared, hash, digits);
        }
        if self.value > low_bits(value_bits) {
            return Err(BuildError::ValueTooLarge { value: self.value, bits: value_bits });
        }
        Ok(())
    }

    /// Copies the member's value from a filter. If that filter lengthened the member's fingerprint,
    /// lengthens the new one until it covers no more than the old one. If remainders aren't plain,
    /// this is possible only if both filters have the same remainders and number of slots.
    fn keep(&mut self, source: &Shared, hash: Hash, digits: Digits) {
        let Some(entry) = source.entry_of(hash).filter(|entry| entry.count > 0) else { return };
        self.value = self.value.max(entry.value);
        let before = entry.fingerprint;
        let Digits { slots, remainders, .. } = source.digits;
        let is_comparable =
            remainders == digits.remainders && (remainders.is_plain() || slots == digits.slots);
        if source.digits.count(&before) > 1 && is_comparable {
            let within = |&length: &u32| before.includes(&digits.fingerprint(self.scaled, length));
            let most = digits.most();
            self.length = (self.length..most).find(within).unwrap_or(most);
        }
    }
}

/// The members and mistakes of one quotient, in a filter whose remainders aren't plain.
struct OneQuotient<'a, I: Iterator> {
    /// The mistakes of this quotient and of all later ones, in hash order.
    mistakes: Peekable<I>,
    /// The mistakes of this quotient.
    near: Vec<Scaled>,
    /// The members of this quotient, with their hashes.
    members: Vec<(Hash, Placed)>,
    minirun: Vec<Placed>,
    writer: EntryWriter<'a>,
}

impl<I: Iterator<Item = Result<Hash, BuildError>>> OneQuotient<'_, I> {
    /// Writes the members, and empties the list.
    fn write(&mut self) -> Result<(), BuildError> {
        let Some((_, first)) = self.members.first() else { return Ok(()) };
        let (digits, quotient) = (self.writer.spelling.digits, first.scaled.quotient);
        let scale = |hash: Hash| digits.scale(hash);
        let is_passed =
            |next: &I::Item| next.as_ref().map_or(true, |&hash| scale(hash).quotient <= quotient);
        self.near.clear();
        while let Some(hash) = self.mistakes.next_if(is_passed).transpose()? {
            let scaled = scale(hash);
            self.near.extend((scaled.quotient == quotient).then_some(scaled));
        }
        self.near.sort_unstable();
        self.members.sort_unstable_by_key(|(_, placed)| placed.scaled);
        for (hash, mut placed) in self.members.drain(..) {
            // The mistakes that share the longest prefix with the member are next to it.
            let after = self.near.partition_point(|&mistake| mistake <= placed.scaled);
            for &mistake in &self.near[after.saturating_sub(1)..self.near.len().min(after + 1)] {
                let needed = digits.to_tell_apart(placed.scaled, mistake);
                let needed = needed.ok_or(BuildError::MistakeIsMember { hash, position: None })?;
                placed.length = placed.length.max(needed);
            }
            write_if_done(digits, &mut self.minirun, placed.scaled, &mut self.writer)?;
            self.minirun.push(placed);
        }
        write_minirun(digits, &mut self.minirun, &mut self.writer)
    }
}

/// Writes the members of a minirun if the next member belongs to a different one.
#[inline(always)]
fn write_if_done(
    digits: Digits,
    minirun: &mut Vec<Placed>,
    next: Scaled,
    writer: &mut EntryWriter<'_>,
) -> Result<(), BuildError> {
    let apart =
        |first: &Placed| digits.to_tell_apart(first.scaled, next).is_some_and(|needed| needed <= 1);
    if minirun.first().is_some_and(apart) {
        write_minirun(digits, minirun, writer)?;
    }
    Ok(())
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
    digits.make_prefix_free(minirun, |placed| (placed.scaled, &mut placed.length));
    let mut entries: Vec<Entry> = Vec::with_capacity(minirun.len());
    for Placed { scaled, count, length, value } in minirun.drain(..) {
        let fingerprint = digits.fingerprint(scaled, length);
        append(&mut entries, Entry { fingerprint, count, value });
    }
    entries.into_iter().try_for_each(|entry| writer.write(entry))
}

/// Writes entries, in order, and counts them in the filter.
pub(super) struct EntryWriter<'a> {
    writer: TableWriter<'a>,
    pub(super) spelling: Spelling,
    pub(super) target: Target,
    tally: &'a mut Tally,
    /// Quotients and remainders of single-member entries that are not written yet. If the last
    /// entry was written by `write_single` or `write_singles`, it is always among them.
    pub(super) waiting: Vec<(u64, u64)>,
}

/// Number of entries that are written together: large enough to pay off, and small enough to stay in
/// the first-level cache.
const BATCH: usize = 256;

impl EntryWriter<'_> {
    pub(super) fn write(&mut self, entry: Entry) -> Result<(), BuildError> {
        self.write_waiting()?;
        if entry.count > MOST_MEMBERS {
            return Err(BuildError::Uncountable);
        }
        self.tally.len = self.tally.len.saturating_add(entry.count);
        self.tally.tombstones += u64::from(entry.count == 0);
        // Every slot of an entry except the first counts as extra.
        let slots = self.spelling.slots(entry).enumerate().map(|(index, slot)| {
            self.tally.extra_slots += u64::from(index > 0);
            slot
        });
        let pushed = self.writer.push(entry.fingerprint.quotient(), slots);
        pushed.map_err(|TableFull| self.full())
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
        self.tally.len += others.len() as u64;
        let pushed =
            self.writer.push_remainders::<SHAPE>(others.iter().map(|&other| single(other)));
        pushed.map_err(|TableFull| self.full())
    }

    #[inline(never)]
    fn write_waiting(&mut self) -> Result<(), BuildError> {
        self.tally.len += self.waiting.len() as u64;
        push_waiting(self).map_err(|TableFull| self.full())
    }

    fn full(&self) -> BuildError {
        BuildError::Full { slots: self.spelling.digits.slots }
    }

    pub(super) fn finish(mut self) -> Result<(), BuildError> {
        self.write_waiting()?;
        if self.tally.len > MOST_IN_ALL {
            return Err(BuildError::Uncountable);
        }
        let full = self.full();
        self.writer.finish().map_err(|TableFull| full)
    }
}

dispatched! {
    fn push_waiting<'w, 'a>(writer: &'w mut EntryWriter<'a>) -> Result<(), TableFull>
    => writer.target, Widths, |_| {
        writer.writer.push_remainders::<SHAPE>(writer.waiting.drain(..))
    }
}

impl Parameters {
    pub(super) fn digits(&self) -> Digits {
        Digits {
            slots: self.slots,
            remainder: self.remainder_bits,
            width: self.slot_bits,
            remainders: self.remainders,
        }
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

/// Iterates over `items`, but returns an error for each item whose hash is smaller than the
/// previous one.
pub(crate) fn in_order<T: Copy>(
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

impl<I: Iterator<Item = Hash>> Neighbours<I> {
    /// Returns the last mistake that is at most `member`, and the first that is greater. Fails if a
    /// mistake up to `member` is out of order.
    fn around(&mut self, member: Hash) -> Result<[Option<Hash>; 2], BuildError> {
        while let Some(mistake) = self.rest.next_if(|&mistake| mistake <= member) {
            if self.before.replace(mistake) > Some(mistake) {
                return Err(BuildError::Unsorted("mistakes"));
            }
        }
        Ok([self.before, self.rest.peek().copied()])
    }
}
