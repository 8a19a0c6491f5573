//! The adaptive quotient filter as a list of members and bit strings.

use std::collections::{BTreeMap, BTreeSet};
use twiceshy::{AdaptiveQuotientFilter, Fingerprint, Hash, Member, Parameters};

/// A fingerprint: a quotient and a string of bits, at the top of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Print {
    pub(crate) quotient: u64,
    pub(crate) bits: u128,
    length: usize,
}

impl Print {
    /// Its first bits; all, if there aren't so many.
    fn prefix(self, length: usize) -> Self {
        let length = length.min(self.length);
        let bits = self.bits & !u128::MAX.checked_shr(length as u32).unwrap_or(0);
        Self { bits, length, ..self }
    }

    fn is_prefix_of(self, other: Print) -> bool {
        self.length <= other.length && other.prefix(self.length) == self
    }
}

/// Inserts of one hash, and what is stored of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The hash that was inserted.
    pub hash: Hash,
    /// How often.
    pub count: u64,
    /// Whether the reverse map doesn't know it.
    pub ghost: bool,
    /// All bits of its scaled hash.
    whole: Print,
    /// What is stored of it.
    print: Print,
}

/// The shape of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Home slots.
    pub slots: u64,
    /// Bits of a remainder.
    pub remainder: usize,
    /// Bits of a slot.
    pub width: usize,
    /// Bits of a value.
    pub value_bits: u32,
}

impl From<Parameters> for Form {
    fn from(parameters: Parameters) -> Self {
        Self {
            slots: parameters.slots,
            remainder: parameters.remainder_bits as usize,
            width: parameters.slot_bits as usize,
            value_bits: parameters.value_bits,
        }
    }
}

/// What a filter of that form must hold.
#[derive(Clone, Debug)]
pub struct Model {
    form: Form,
    entries: Vec<Entry>,
    /// Tombstones.
    graves: BTreeSet<Print>,
    /// Values other than 0.
    values: BTreeMap<Print, u64>,
}

/// `hash × slots`, by long multiplication of bytes: the whole part, and the 128 bits
/// of the fraction.
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
    /// A model without members.
    pub fn new(form: Form) -> Self {
        Self { form, entries: Vec::new(), graves: BTreeSet::new(), values: BTreeMap::new() }
    }

    /// A model of these members in which none of these mistakes is "maybe": each
    /// member's print is lengthened until it is a prefix of none of them.
    pub fn built(form: Form, members: &[Member], mistakes: &[Hash]) -> Self {
        let mut model = Self::new(form);
        for &Member { hash, count } in members {
            let whole = scaled(hash, form.slots);
            let print = model.shortest(whole, mistakes);
            model.entries.push(Entry { hash, count, ghost: false, whole, print });
        }
        model
    }

    /// The shortest print of a hash that is a prefix of no mistake.
    fn shortest(&self, whole: Print, mistakes: &[Hash]) -> Print {
        let mut print = whole.prefix(self.form.remainder);
        for &mistake in mistakes {
            let mistake = scaled(mistake, self.form.slots);
            while print.is_prefix_of(mistake) {
                print = self.longer(print, whole);
            }
        }
        print
    }

    fn longer(&self, print: Print, whole: Print) -> Print {
        whole.prefix(print.length + self.form.width)
    }

    /// The form of the filter.
    pub fn form(&self) -> Form {
        self.form
    }

    /// All entries, in no order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// All members that the reverse map knows, in hash order.
    pub fn members(&self) -> Vec<Member> {
        let mut members: BTreeMap<Hash, u64> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| !entry.ghost) {
            *members.entry(entry.hash).or_default() += entry.count;
        }
        members.into_iter().map(|(hash, count)| Member { hash, count }).collect()
    }

    /// Whether a member's print is longer than a remainder.
    pub fn has_lengthened(&self) -> bool {
        self.entries.iter().any(|entry| entry.print.length > self.form.remainder)
    }

    /// What is stored: prints, with their counts and values.
    fn stored(&self) -> BTreeMap<Print, (u64, u64)> {
        let mut stored: BTreeMap<Print, (u64, u64)> = BTreeMap::new();
        for entry in &self.entries {
            stored.entry(entry.print).or_default().0 += entry.count;
        }
        for &grave in &self.graves {
            assert_eq!(stored.insert(grave, (0, 0)), None, "a member under a tombstone");
        }
        for (print, value) in &self.values {
            stored.get_mut(print).expect("a print that has a value").1 = *value;
        }
        stored
    }

    /// Forgets values whose prints are gone.
    fn forget_values(&mut self) {
        let prints: BTreeSet<Print> = self.entries.iter().map(|entry| entry.print).collect();
        self.values.retain(|print, _| prints.contains(print) || self.graves.contains(print));
    }

    /// Whether a query must be answered "maybe".
    pub fn contains(&self, query: Hash) -> bool {
        self.count(query) > 0
    }

    /// How many members have the fingerprint of a query.
    pub fn count(&self, query: Hash) -> u64 {
        let query = scaled(query, self.form.slots);
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

    /// Whether more members have one print than a filter can count.
    pub fn is_uncountable(&self) -> bool {
        self.stored().values().any(|&(count, _)| count > 1 << 40)
    }

    /// The slots that all prints take.
    pub fn used(&self) -> u64 {
        let stored = self.stored();
        stored.iter().map(|(&print, &(count, value))| self.slots_of(print, count, value)).sum()
    }

    /// Whether a table of that many slots, and its tail, can hold all prints.
    pub fn fits(&self) -> bool {
        let stored = self.stored();
        let end = stored.iter().fold(0, |end, (&print, &(count, value))| {
            u64::max(end, print.quotient) + self.slots_of(print, count, value)
        });
        let Form { slots, width, .. } = self.form;
        let (tail, lanes) = (4 * slots.isqrt() + 64, (504 / (width as u64 + 3)).min(56));
        self.used() <= slots && end < (slots + tail).next_multiple_of(lanes)
    }

    /// Whether two hashes have quotient and remainder in common.
    pub fn same_minirun(&self, a: Hash, b: Hash) -> bool {
        let [a, b] = [a, b].map(|hash| self.id(hash));
        a == b
    }

    /// Quotient and remainder.
    fn id(&self, hash: Hash) -> Print {
        scaled(hash, self.form.slots).prefix(self.form.remainder)
    }

    fn minirun(&self, query: Hash) -> impl Iterator<Item = &Entry> {
        let id = self.id(query);
        self.entries.iter().filter(move |entry| id.is_prefix_of(entry.whole))
    }

    /// The members in the minirun of a query, as a reverse map would list them.
    pub fn suspects(&self, query: Hash) -> Vec<Member> {
        let real = self.minirun(query).filter(|entry| !entry.ghost);
        real.map(|entry| Member { hash: entry.hash, count: entry.count }).collect()
    }

    /// How many ghosts are in the minirun of a query.
    pub fn ghosts(&self, query: Hash) -> u64 {
        self.minirun(query).filter(|entry| entry.ghost).map(|entry| entry.count).sum()
    }

    /// Inserts a hash, so many times. One that a print covers takes it; another takes
    /// digits until it differs from each print in its minirun.
    pub fn insert(&mut self, hash: Hash, ghost: bool, count: u64) {
        let whole = scaled(hash, self.form.slots);
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

    /// Repairs a mistake: every print that covers it grows until it doesn't. Ghosts in
    /// its minirun go, if asked. Returns how many different prints grew from it.
    pub fn adapt(&mut self, mistake: Hash, drop_ghosts: bool) -> usize {
        let id = self.id(mistake);
        let mistake = scaled(mistake, self.form.slots);
        self.entries.retain(|entry| !(drop_ghosts && entry.ghost && id.is_prefix_of(entry.whole)));
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
        self.forget_values();
        longer.len()
    }

    /// Removes a hash that was inserted, once; of the last member with its print, a
    /// tombstone stays if asked for.
    ///
    /// # Panics
    /// If it is no member.
    pub fn remove(&mut self, hash: Hash, bury: bool) {
        let at = self.entries.iter().position(|entry| entry.hash == hash && !entry.ghost);
        let at = at.expect("a member");
        let print = self.entries[at].print;
        self.entries[at].count -= 1;
        if self.entries[at].count == 0 {
            self.entries.swap_remove(at);
        }
        if bury && self.entries.iter().all(|entry| entry.print != print) {
            self.graves.insert(print);
        }
        self.forget_values();
    }

    /// Makes the prints in the minirun of a hash as short as mistakes allow; tombstones
    /// in it go.
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

    /// Sets the value of the print that covers a hash. Returns the one before, or `None` if
    /// the hash is certainly no member's.
    pub fn set_value(&mut self, hash: Hash, value: u64) -> Option<u64> {
        let query = scaled(hash, self.form.slots);
        let print = self.entries.iter().find(|entry| entry.print.is_prefix_of(query))?.print;
        let before = self.values.remove(&print).unwrap_or(0);
        if value > 0 {
            self.values.insert(print, value);
        }
        Some(before)
    }

    /// The same in a filter of another form: of a power of two times the slots, with
    /// remainders that are no longer than is left of them. `None` if prints that were
    /// lengthened would have to be cut.
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
            let whole = scaled(entry.hash, form.slots);
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

    /// All of these in one filter of a form that each can be [converted](Self::converted) to:
    /// the shorter of two prints stands for both, and tombstones give way to members.
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

    /// What a filter that was rebuilt from this one's members holds. Prints are taken from
    /// it, for the members to be compared with; what was lengthened must not cover more.
    ///
    /// # Panics
    /// If a member is missing, or if a lengthened print covers one of `mistakes` again.
    #[must_use]
    pub fn rebuilt(&self, filter: &AdaptiveQuotientFilter, mistakes: &[Hash]) -> Self {
        let form = Form::from(filter.parameters());
        let mut model = Self::new(form);
        let prints: Vec<Print> = filter.iter().map(|entry| as_print(&entry.fingerprint)).collect();
        for entry in self.entries.iter().filter(|entry| !entry.ghost) {
            let whole = scaled(entry.hash, form.slots);
            let print = prints.iter().find(|print| print.is_prefix_of(whole));
            let print = *print.expect("a false negative");
            if entry.print.length > self.form.remainder {
                for &mistake in mistakes {
                    assert!(!print.is_prefix_of(scaled(mistake, form.slots)), "a lost repair");
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

    /// Compares all that can be seen of a filter with the model.
    ///
    /// # Panics
    /// If they differ, or if the filter is not valid.
    pub fn check(&self, filter: &AdaptiveQuotientFilter) {
        filter.validate().expect("a valid filter");
        assert_eq!(Form::from(filter.parameters()), self.form);
        let stored = self.stored();
        let found: Vec<_> = filter
            .iter()
            .map(|entry| (as_print(&entry.fingerprint), (entry.count, entry.value)))
            .collect();
        assert!(found.iter().copied().eq(stored.iter().map(|(&print, &number)| (print, number))));
        let statistics = filter.statistics();
        let members: u64 = self.entries.iter().map(|entry| entry.count).sum();
        assert_eq!(statistics.members as u64, members);
        assert_eq!(statistics.fingerprints, stored.len() as u64);
        assert_eq!(statistics.extension_slots, self.used() - stored.len() as u64);
        for entry in &self.entries {
            assert!(filter.contains(entry.hash), "a false negative: {:?}", entry.hash);
            let (count, value) = stored[&entry.print];
            assert_eq!((filter.count(entry.hash), filter.value(entry.hash)), (count, Some(value)));
        }
    }
}

fn as_print(fingerprint: &Fingerprint) -> Print {
    Print {
        quotient: fingerprint.quotient(),
        bits: fingerprint.prefix(),
        length: fingerprint.bits() as usize,
    }
}
