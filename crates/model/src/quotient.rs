//! A model of the adaptive quotient filter: a list of members and bit strings.

use core::ops::RangeInclusive;
use std::collections::{BTreeMap, BTreeSet};
use twiceshy::{
    Hash, Member, QuotientFilter,
    quotient::{Fingerprint, Parameters, Remainders},
};

/// A fingerprint: a quotient and a string of bits, stored in the upper bits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Print {
    pub(crate) quotient: u64,
    pub(crate) bits: u128,
    length: usize,
}

impl Print {
    /// Returns the first `length` bits, or all bits if there are fewer.
    pub(crate) fn prefix(self, length: usize) -> Self {
        let length = length.min(self.length);
        let bits = self.bits & !u128::MAX.checked_shr(length as u32).unwrap_or(0);
        Self { bits, length, ..self }
    }

    fn is_prefix_of(self, other: Print) -> bool {
        self.length <= other.length && other.prefix(self.length) == self
    }
}

/// An inserted hash and its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inserted hash.
    pub hash: Hash,
    /// How many times it was inserted.
    pub count: u64,
    /// Whether the hash is missing from the source of members.
    pub ghost: bool,
    /// All bits of its scaled hash.
    whole: Print,
    /// The stored fingerprint.
    print: Print,
}

/// The shape of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Number of home slots.
    pub slots: u64,
    /// Number of bits per remainder.
    pub remainder: usize,
    /// Number of bits per slot.
    pub width: usize,
    /// Number of bits per value.
    pub value_bits: u32,
    /// The two numbers (a, b) that replace the first 64 bits f of a fraction by a·f + b.
    pub remainders: (u64, u64),
}

impl Form {
    /// Returns all bits of a hash, as a filter of this form sees them.
    pub(crate) fn whole(&self, hash: Hash) -> Print {
        let Print { quotient, bits, length } = scaled(hash, self.slots);
        Print { quotient, bits: mixed(bits, self.remainders), length }
    }

    /// Returns whether remainders are the first bits of the fraction.
    pub fn is_plain(&self) -> bool {
        self.remainders == (1, 0)
    }
}

/// Multiplies the first 64 bits of a fraction by `a` and adds `b`, one bit of `a` at a time.
pub(crate) fn mixed(bits: u128, (a, b): (u64, u64)) -> u128 {
    let modulus = 1u128 << 64;
    let (first, rest) = (bits / modulus, bits % modulus);
    let mut sum = u128::from(b);
    for place in (0..64).filter(|place| a & (1 << place) != 0) {
        sum = (sum + (first << place) % modulus) % modulus;
    }
    sum * modulus + rest
}

/// Returns the two numbers that remainders are made with.
pub(crate) fn numbers_of(remainders: Remainders) -> (u64, u64) {
    let bytes = remainders.expose();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    (number(&bytes[..8]), number(&bytes[8..]))
}

impl From<Parameters> for Form {
    fn from(parameters: Parameters) -> Self {
        Self {
            slots: parameters.slots,
            remainder: parameters.remainder_bits as usize,
            width: parameters.slot_bits as usize,
            value_bits: parameters.value_bits,
            remainders: numbers_of(parameters.remainders),
        }
    }
}

/// What a repair does with the ghosts near it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ghosts {
    /// The repair keeps the ghosts, so it is refused.
    Keep,
    /// The repair drops the ghosts.
    Drop,
    /// The repair replaces the ghosts by tombstones.
    Bury,
}

/// The expected content of a filter of this form.
#[derive(Clone, Debug)]
pub struct Model {
    form: Form,
    entries: Vec<Entry>,
    /// Tombstones.
    graves: BTreeSet<Print>,
    /// Values other than 0.
    values: BTreeMap<Print, u64>,
}

/// Computes `hash × slots` by long multiplication of bytes: the integer part, and the 128 bits of
/// the fraction.
pub(crate) fn scaled(hash: Hash, slots: u64) -> Print {
    let mut product = [0u32; 24];
    for (i, &a) in hash.as_u128().to_le_bytes().iter().enumerate() {
        for (j, &b) in slots.to_le_bytes().iter().enumerate() {
            product[i + j] += u32::from(a) * u32::from(b);
        }
        for place in 0..23 {
            product[place + 1] += product[place] >> 8;
            product[place] &= 0xff;
        }
    }
    let number =
        |places: &[u32]| places.iter().rev().fold(0, |sum, &place| sum << 8 | u128::from(place));
    Print { quotient: number(&product[16..]) as u64, bits: number(&product[..16]), length: 128 }
}

impl Model {
    /// Creates a model without members.
    pub fn new(form: Form) -> Self {
        Self { form, entries: Vec::new(), graves: BTreeSet::new(), values: BTreeMap::new() }
    }

    /// Builds a model of these members that answers "absent" for all mistakes: each member's print
    /// is lengthened until it is a prefix of no mistake.
    pub fn built(form: Form, members: &[Member], mistakes: &[Hash]) -> Self {
        let mut model = Self::new(form);
        for &Member { hash, count } in members {
            let whole = form.whole(hash);
            let print = model.shortest(whole, mistakes);
            model.entries.push(Entry { hash, count, ghost: false, whole, print });
        }
        model
    }

    /// Returns the shortest prefix of the fingerprint `whole` that is not a prefix of any mistake.
    fn shortest(&self, whole: Print, mistakes: &[Hash]) -> Print {
        let mut print = whole.prefix(self.form.remainder);
        for &mistake in mistakes {
            let mistake = self.form.whole(mistake);
            while print.is_prefix_of(mistake) {
                print = self.longer(print, whole);
            }
        }
        print
    }

    fn longer(&self, print: Print, whole: Print) -> Print {
        whole.prefix(print.length + self.form.width)
    }

    /// Returns the form of the filter.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns all entries, in no particular order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns all members that the source of members lists, in hash order.
    pub fn members(&self) -> Vec<Member> {
        let mut members: BTreeMap<Hash, u64> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| !entry.ghost) {
            *members.entry(entry.hash).or_default() += entry.count;
        }
        members.into_iter().map(|(hash, count)| Member { hash, count }).collect()
    }

    /// Returns whether any member's print is longer than a remainder.
    pub fn has_lengthened(&self) -> bool {
        self.entries.iter().any(|entry| entry.print.length > self.form.remainder)
    }

    /// Returns the stored prints with their counts and values.
    fn stored(&self) -> BTreeMap<Print, (u64, u64)> {
        let mut stored: BTreeMap<Print, (u64, u64)> = BTreeMap::new();
        for entry in &self.entries {
            stored.entry(entry.print).or_default().0 += entry.count;
        }
        for &grave in &self.graves {
            assert_eq!(stored.insert(grave, (0, 0)), None, "a member with a tombstone");
        }
        for (print, value) in &self.values {
            stored.get_mut(print).expect("values belong to prints").1 = *value;
        }
        stored
    }

    /// Drops the values of prints that no longer exist.
    fn drop_unused_values(&mut self) {
        let prints: BTreeSet<Print> = self.entries.iter().map(|entry| entry.print).collect();
        self.values.retain(|print, _| prints.contains(print) || self.graves.contains(print));
    }

    /// Returns whether a query must be answered "maybe".
    pub fn contains(&self, query: Hash) -> bool {
        self.count(query) > 0
    }

    /// Returns the number of members that have the fingerprint of a query.
    pub fn count(&self, query: Hash) -> u64 {
        let query = self.form.whole(query);
        let covering = self.entries.iter().filter(|entry| entry.print.is_prefix_of(query));
        covering.map(|entry| entry.count).sum()
    }

    fn slots_of(&self, print: Print, count: u64, value: u64) -> u64 {
        let digits = 1 + (print.length - self.form.remainder).div_ceil(self.form.width);
        let usual = 1u64 << self.form.value_bits;
        let counter = match count * usual + value {
            number if number == usual => 0,
            number => {
                let number = if number > usual { number - 1 } else { number };
                let bits = u64::BITS - number.leading_zeros();
                (bits as usize).div_ceil(self.form.width).max(1)
            }
        };
        (digits + counter) as u64
    }

    /// Returns whether a print has more members than a filter can count.
    pub fn is_uncountable(&self) -> bool {
        self.stored().values().any(|&(count, _)| count > 1 << 40)
    }

    /// Returns the number of slots that all prints use.
    pub fn used(&self) -> u64 {
        let stored = self.stored();
        stored.iter().map(|(&print, &(count, value))| self.slots_of(print, count, value)).sum()
    }

    /// Returns whether the table, including its tail, can hold all prints.
    pub fn fits(&self) -> bool {
        let stored = self.stored();
        let end = stored.iter().fold(0, |end, (&print, &(count, value))| {
            u64::max(end, print.quotient) + self.slots_of(print, count, value)
        });
        let Form { slots, width, .. } = self.form;
        let (tail, lanes) = (4 * slots.isqrt() + 64, (504 / (width as u64 + 3)).min(56));
        self.used() <= slots && end < (slots + tail).next_multiple_of(lanes)
    }

    /// Returns whether two hashes have the same quotient and remainder.
    pub fn same_minirun(&self, a: Hash, b: Hash) -> bool {
        let [a, b] = [a, b].map(|hash| self.id(hash));
        a == b
    }

    /// Returns whether two hashes have the same quotient.
    pub fn same_quotient(&self, a: Hash, b: Hash) -> bool {
        let [a, b] = [a, b].map(|hash| scaled(hash, self.form.slots).quotient);
        a == b
    }

    /// Returns the quotient and remainder.
    fn id(&self, hash: Hash) -> Print {
        self.form.whole(hash).prefix(self.form.remainder)
    }

    fn minirun(&self, query: Hash) -> impl Iterator<Item = &Entry> {
        let id = self.id(query);
        self.entries.iter().filter(move |entry| id.is_prefix_of(entry.whole))
    }

    /// Returns the members that share the quotient of a query, as the source of members lists them.
    pub fn suspects(&self, query: Hash) -> Vec<Member> {
        let same = self.entries.iter().filter(|entry| self.same_quotient(entry.hash, query));
        let real = same.filter(|entry| !entry.ghost);
        real.map(|entry| Member { hash: entry.hash, count: entry.count }).collect()
    }

    /// Returns the number of ghosts in the minirun of a query.
    pub fn ghosts(&self, query: Hash) -> u64 {
        self.minirun(query).filter(|entry| entry.ghost).map(|entry| entry.count).sum()
    }

    /// Inserts `count` copies of a hash. If a stored print covers the hash, the hash takes that
    /// print. Otherwise its print grows until it differs from every print in the minirun.
    pub fn insert(&mut self, hash: Hash, ghost: bool, count: u64) {
        let whole = self.form.whole(hash);
        let id = self.id(hash);
        let stored = self.stored();
        let covering = stored.keys().find(|print| print.is_prefix_of(whole));
        let print = covering.copied().unwrap_or_else(|| {
            let mut print = id;
            for neighbour in stored.keys().filter(|neighbour| id.is_prefix_of(**neighbour)) {
                while print.is_prefix_of(*neighbour) {
                    print = self.longer(print, whole);
                }
            }
            print
        });
        self.graves.remove(&print);
        self.entries.push(Entry { hash, count, ghost, whole, print });
    }

    /// Inserts a hash like [`insert`](Self::insert). Unless a print with members covers it, its
    /// print grows until it covers none of these mistakes.
    pub fn insert_apart(&mut self, hash: Hash, mistakes: &[Hash]) {
        let whole = self.form.whole(hash);
        let others: Vec<Hash> = mistakes.iter().copied().filter(|&other| other != hash).collect();
        let apart = self.shortest(whole, &others);
        let shared = self.contains(hash);
        let grave = self.graves.iter().copied().find(|grave| grave.is_prefix_of(whole));
        self.insert(hash, false, 1);
        let Some(entry) = self.entries.last_mut() else { return };
        if shared || entry.print.length >= apart.length {
            return;
        }
        entry.print = apart;
        if let Some(value) = grave.and_then(|grave| self.values.remove(&grave)) {
            self.values.insert(apart, value);
        }
    }

    /// Returns whether a print in the minirun of a query is longer than a remainder.
    pub fn is_lengthened(&self, query: Hash) -> bool {
        let id = self.id(query);
        let mut prints = self.stored().into_keys().filter(|print| id.is_prefix_of(*print));
        prints.any(|print| print.length > self.form.remainder)
    }

    /// Repairs a mistake: every print that covers the mistake grows until it no longer does. Drops
    /// or buries the ghosts in its minirun if `ghosts` says so. A buried ghost leaves a tombstone
    /// if no other member has its print. Returns the number of different prints that grew.
    pub fn adapt(&mut self, mistake: Hash, ghosts: Ghosts) -> usize {
        let id = self.id(mistake);
        let mistake = self.form.whole(mistake);
        if ghosts != Ghosts::Keep {
            let is_dropped = |entry: &Entry| entry.ghost && id.is_prefix_of(entry.whole);
            let dropped: Vec<Entry> =
                self.entries.extract_if(.., |entry| is_dropped(entry)).collect();
            for Entry { print, .. } in dropped {
                let is_left = self.entries.iter().any(|entry| entry.print == print);
                if ghosts == Ghosts::Bury && !is_left {
                    self.graves.insert(print);
                }
            }
        }
        let mut longer = BTreeSet::new();
        let width = self.form.width;
        for entry in &mut self.entries {
            let value = self.values.get(&entry.print).copied();
            if !entry.print.is_prefix_of(mistake) {
                continue;
            }
            while entry.print.is_prefix_of(mistake) {
                entry.print = entry.whole.prefix(entry.print.length + width);
            }
            value.map(|value| self.values.insert(entry.print, value));
            longer.insert(entry.print);
        }
        self.drop_unused_values();
        longer.len()
    }

    /// Returns whether there is a tombstone, or a print that is longer than a remainder, in the
    /// minirun of a hash.
    pub fn has_repairs_near(&self, hash: Hash) -> bool {
        let id = self.id(hash);
        let stored = self.stored();
        let mut near = stored.iter().filter(|(print, _)| id.is_prefix_of(**print));
        near.any(|(print, &(count, _))| count == 0 || print.length > self.form.remainder)
    }

    /// Removes one copy of a hash. If `bury` is set, the last member with a print that is longer
    /// than a remainder leaves a tombstone.
    ///
    /// # Panics
    /// If it isn't a member.
    pub fn remove(&mut self, hash: Hash, bury: bool) {
        let at = self.entries.iter().position(|entry| entry.hash == hash && !entry.ghost);
        let at = at.expect("a member");
        let print = self.entries[at].print;
        self.entries[at].count -= 1;
        if self.entries[at].count == 0 {
            self.entries.swap_remove(at);
        }
        let is_longer = print.length > self.form.remainder;
        if bury && is_longer && self.entries.iter().all(|entry| entry.print != print) {
            self.graves.insert(print);
        }
        self.drop_unused_values();
    }

    /// Shortens the prints in the minirun of a hash as far as the mistakes allow, and drops its
    /// tombstones.
    pub fn shorten(&mut self, hash: Hash, mistakes: &[Hash]) {
        let id = self.id(hash);
        self.graves.retain(|grave| !id.is_prefix_of(*grave));
        let mut values: BTreeMap<Print, u64> = BTreeMap::new();
        for index in 0..self.entries.len() {
            let Entry { whole, print, .. } = self.entries[index];
            if !id.is_prefix_of(whole) {
                continue;
            }
            let value = self.values.get(&print).copied().unwrap_or(0);
            let shorter = self.shortest(whole, mistakes);
            self.entries[index].print = shorter;
            let kept = values.entry(shorter).or_default();
            *kept = value.max(*kept);
        }
        self.values.retain(|print, _| !id.is_prefix_of(*print));
        self.values.extend(values.into_iter().filter(|&(_, value)| value > 0));
    }

    /// Sets the value of the print that covers a hash. Returns the previous value, or `None` if no
    /// print covers the hash.
    pub fn set_value(&mut self, hash: Hash, value: u64) -> Option<u64> {
        let query = self.form.whole(hash);
        let print = self.entries.iter().find(|entry| entry.print.is_prefix_of(query))?.print;
        let before = self.values.remove(&print).unwrap_or(0);
        if value > 0 {
            self.values.insert(print, value);
        }
        Some(before)
    }

    /// Converts the model to a form with 2^k times as many slots, and with remainders that are at
    /// least k bits shorter. Returns `None` if lengthened prints would have to be cut.
    pub fn converted(&self, form: Form) -> Option<Self> {
        let doublings = (form.slots / self.form.slots).ilog2() as usize;
        let aligned = self.form.remainder == form.remainder + doublings;
        let length = |print: Print| match (print.length - self.form.remainder).div_ceil(form.width)
        {
            0 => Some(form.remainder),
            digits => aligned.then_some(form.remainder + digits * form.width),
        };
        let shifted = |print: Print| -> Option<Print> {
            let mut whole = Print { length: 128, ..print };
            for _ in 0..doublings {
                whole.quotient = whole.quotient << 1 | (whole.bits >> 127) as u64;
                whole.bits <<= 1;
            }
            Some(whole.prefix(length(print)?))
        };
        let mut model = Self::new(form);
        for entry in &self.entries {
            let whole = form.whole(entry.hash);
            let print = whole.prefix(length(entry.print)?);
            model.entries.push(Entry { whole, print, ..entry.clone() });
        }
        for &grave in &self.graves {
            model.graves.insert(shifted(grave)?);
        }
        for (&print, &value) in &self.values {
            let kept = model.values.entry(shifted(print)?).or_default();
            *kept = value.max(*kept);
        }
        Some(model)
    }

    /// Merges models into one, or returns `None` unless each can be [converted](Self::converted) to
    /// `form`. The shorter of two prints stands for both, and members replace tombstones.
    pub fn merged(models: &[&Model], form: Form) -> Option<Self> {
        let models: Vec<Model> =
            models.iter().map(|model| model.converted(form)).collect::<Option<_>>()?;
        let mut merged = Self::new(form);
        merged.entries = models.iter().flat_map(|model| model.entries.clone()).collect();
        let live: BTreeSet<Print> = merged.entries.iter().map(|entry| entry.print).collect();
        let shortest = |prints: &BTreeSet<Print>, print: Print| {
            *prints.iter().find(|shorter| shorter.is_prefix_of(print)).unwrap_or(&print)
        };
        for entry in &mut merged.entries {
            entry.print = shortest(&live, entry.print);
        }
        let related = |a: Print, b: Print| a.is_prefix_of(b) || b.is_prefix_of(a);
        let graves: BTreeSet<Print> = models
            .iter()
            .flat_map(|model| model.graves.iter().copied())
            .filter(|&grave| !live.iter().any(|&print| related(print, grave)))
            .collect();
        merged.graves = graves.iter().map(|&grave| shortest(&graves, grave)).collect();
        for model in &models {
            for (&print, &value) in &model.values {
                let among = if model.graves.contains(&print) { &graves } else { &live };
                if among.contains(&print) {
                    let kept = merged.values.entry(shortest(among, print)).or_default();
                    *kept = value.max(*kept);
                }
            }
        }
        Some(merged)
    }

    /// Returns the model of a filter that was rebuilt from this model's members. Takes the prints
    /// from that filter and compares them with the members; repairs must not be lost, unless
    /// remainders are made in a different way.
    ///
    /// # Panics
    /// If a member is missing, or if a lengthened print covers one of `mistakes` again.
    #[must_use]
    pub fn rebuilt(&self, filter: &QuotientFilter, mistakes: &[Hash]) -> Self {
        let form = Form::from(filter.parameters());
        let keeps_repairs = form.remainders == self.form.remainders
            && (form.is_plain() || form.slots == self.form.slots);
        let mut model = Self::new(form);
        let prints: Vec<Print> = filter.iter().map(|entry| as_print(&entry.fingerprint)).collect();
        for entry in self.entries.iter().filter(|entry| !entry.ghost) {
            let whole = form.whole(entry.hash);
            let print = prints.iter().find(|print| print.is_prefix_of(whole));
            let print = *print.expect("a false negative");
            if keeps_repairs && entry.print.length > self.form.remainder {
                for &mistake in mistakes {
                    assert!(!print.is_prefix_of(form.whole(mistake)), "a lost repair");
                }
            }
            if let Some(&value) = self.values.get(&entry.print) {
                let kept = model.values.entry(print).or_default();
                *kept = value.max(*kept);
            }
            model.entries.push(Entry { whole, print, ..entry.clone() });
        }
        model
    }

    /// Compares the filter's observable state with the model.
    ///
    /// # Panics
    /// If they differ, or if the filter is not valid.
    pub fn check(&self, filter: &QuotientFilter) {
        filter.validate().expect("a valid filter");
        assert_eq!(Form::from(filter.parameters()), self.form);
        let stored = self.stored();
        let found: Vec<_> = filter
            .iter()
            .map(|entry| (as_print(&entry.fingerprint), (entry.count, entry.value)))
            .collect();
        assert!(found.iter().copied().eq(stored.iter().map(|(&print, &number)| (print, number))));
        let details = filter.details();
        let members: u64 = self.entries.iter().map(|entry| entry.count).sum();
        assert_eq!(filter.stats().members as u64, members);
        assert_eq!(details.fingerprints, stored.len() as u64);
        assert_eq!(details.extension_slots, self.used() - stored.len() as u64);
        for entry in &self.entries {
            assert!(filter.contains(entry.hash), "a false negative: {:?}", entry.hash);
            let (count, value) = stored[&entry.print];
            assert_eq!((filter.count(entry.hash), filter.value(entry.hash)), (count, Some(value)));
        }
    }
}

/// Finds an interval of hashes that have a fingerprint in a filter of this form, by bisection. If
/// remainders are plain, these are all hashes that have it. Otherwise, they are those with one
/// value of the first 64 bits.
///
/// # Panics
/// If no hash has the fingerprint.
pub fn hashes_of(fingerprint: &Fingerprint, form: Form) -> RangeInclusive<Hash> {
    let print = as_print(fingerprint);
    let (bits, length) =
        if form.is_plain() { (print.bits, print.length) } else { unmixed(print, form) };
    let position = |hash: u128| {
        let whole = scaled(Hash::from_u128(hash), form.slots);
        (whole.quotient, whole.bits)
    };
    // Returns the first hash at or after a position.
    let first_at = |wanted: (u64, u128)| {
        let (mut least, mut most) = (0, u128::MAX);
        while least < most {
            let middle = least + (most - least) / 2;
            if position(middle) < wanted { least = middle + 1 } else { most = middle }
        }
        (position(least) >= wanted).then_some(least)
    };
    let step = 1u128.checked_shl(128 - length as u32);
    let behind = step.and_then(|step| bits.checked_add(step));
    let behind = behind.map_or((print.quotient + 1, 0), |bits| (print.quotient, bits));
    let first = first_at((print.quotient, bits)).expect("a fingerprint of a hash");
    let last = first_at(behind).map_or(u128::MAX, |behind| behind - 1);
    Hash::from_u128(first)..=Hash::from_u128(last)
}

/// Returns at least 64 bits of a fraction that has this print, and the number of these bits. Finds
/// the bits one by one, from the lowest: the lowest bits of a product depend only on the lowest
/// bits of its factors.
fn unmixed(print: Print, form: Form) -> (u128, usize) {
    let mut first = 0u128;
    for place in 64..128 {
        if (mixed(first, form.remainders) ^ print.bits) >> place & 1 == 1 {
            first |= 1 << place;
        }
    }
    (first | print.bits & u128::from(u64::MAX), print.length.max(64))
}

fn as_print(fingerprint: &Fingerprint) -> Print {
    Print {
        quotient: fingerprint.quotient(),
        bits: fingerprint.prefix(),
        length: fingerprint.bits() as usize,
    }
}
