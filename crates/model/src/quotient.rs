//! The adaptive quotient filter as a list of members and bit strings.

use twiceshy::{AdaptiveQuotientFilter, Fingerprint, Hash};

/// A fingerprint: a quotient and a string of bits, at the top of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Print {
    quotient: u64,
    bits: u128,
    length: usize,
}

impl Print {
    /// Its first bits; all, if there aren't so many.
    fn prefix(self, length: usize) -> Self {
        let length = length.min(self.length);
        let mut bits = 0;
        for bit in 0..length {
            bits |= self.bits & 1 << (127 - bit);
        }
        Self { bits, length, ..self }
    }

    fn is_prefix_of(self, other: Print) -> bool {
        self.length <= other.length && other.prefix(self.length) == self
    }
}

/// One fingerprint, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The hash that was inserted.
    pub hash: Hash,
    /// Whether the reverse map doesn't know it.
    pub ghost: bool,
    /// All bits of its scaled hash.
    whole: Print,
    /// What is stored of it.
    print: Print,
}

/// What a filter of that shape must hold.
#[derive(Clone, Debug)]
pub struct Model {
    slots: u64,
    width: usize,
    entries: Vec<Entry>,
}

/// `hash × slots`, by long multiplication of bytes: the whole part, and the 128 bits
/// of the fraction.
fn scaled(hash: Hash, slots: u64) -> Print {
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
    pub fn new(slots: u64, width: u32) -> Self {
        Self { slots, width: width as usize, entries: Vec::new() }
    }

    /// A model of these members in which none of these mistakes is "maybe": each
    /// member's print is lengthened until it is a prefix of none of them.
    pub fn built(slots: u64, width: u32, members: &[Hash], mistakes: &[Hash]) -> Self {
        let mut model = Self::new(slots, width);
        let mistakes: Vec<Print> = mistakes.iter().map(|&hash| scaled(hash, slots)).collect();
        for &hash in members {
            let whole = scaled(hash, slots);
            let mut print = whole.prefix(model.width);
            while mistakes.iter().any(|&mistake| print.is_prefix_of(mistake)) {
                print = whole.prefix(print.length + model.width);
            }
            model.entries.push(Entry { hash, ghost: false, whole, print });
        }
        model
    }

    /// All entries, in no order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a query must be answered "maybe".
    pub fn contains(&self, query: Hash) -> bool {
        let query = scaled(query, self.slots);
        self.entries.iter().any(|entry| entry.print.is_prefix_of(query))
    }

    fn digits(&self, print: Print) -> u64 {
        print.length.div_ceil(self.width) as u64
    }

    /// The slots that all prints take.
    pub fn used(&self) -> u64 {
        self.entries.iter().map(|entry| self.digits(entry.print)).sum()
    }

    /// Whether a table of that many slots, and its tail, can hold all prints.
    pub fn fits(&self) -> bool {
        let mut prints: Vec<Print> = self.entries.iter().map(|entry| entry.print).collect();
        prints.sort_unstable();
        let end =
            prints.iter().fold(0, |end, print| u64::max(end, print.quotient) + self.digits(*print));
        let (tail, lanes) = (4 * self.slots.isqrt() + 64, (504 / (self.width as u64 + 3)).min(56));
        self.used() <= self.slots && end < (self.slots + tail).next_multiple_of(lanes)
    }

    /// Whether two hashes have quotient and remainder in common.
    pub fn same_minirun(&self, a: Hash, b: Hash) -> bool {
        let [a, b] = [a, b].map(|hash| scaled(hash, self.slots).prefix(self.width));
        a == b
    }

    fn minirun(&self, query: Hash) -> impl Iterator<Item = &Entry> {
        let id = scaled(query, self.slots).prefix(self.width);
        self.entries.iter().filter(move |entry| id.is_prefix_of(entry.whole))
    }

    /// The members in the minirun of a query, as a reverse map would list them.
    pub fn suspects(&self, query: Hash) -> Vec<Hash> {
        self.minirun(query).filter(|entry| !entry.ghost).map(|entry| entry.hash).collect()
    }

    /// How many ghosts are in the minirun of a query.
    pub fn ghosts(&self, query: Hash) -> usize {
        self.minirun(query).filter(|entry| entry.ghost).count()
    }

    /// Inserts a hash: it takes digits until it differs from each neighbour in its
    /// minirun, but never more than that neighbour has.
    pub fn insert(&mut self, hash: Hash, ghost: bool) {
        let whole = scaled(hash, self.slots);
        let mut print = whole.prefix(self.width);
        for neighbour in self.minirun(hash) {
            let mut needed = whole.prefix(self.width);
            while needed.length < neighbour.print.length && needed.is_prefix_of(neighbour.print) {
                needed = whole.prefix(needed.length + self.width);
            }
            print = print.max(needed);
        }
        self.entries.push(Entry { hash, ghost, whole, print });
    }

    /// Repairs a mistake: every print that covers it grows until it doesn't. Ghosts in
    /// its minirun go, if asked. Returns how many prints grew.
    pub fn adapt(&mut self, mistake: Hash, drop_ghosts: bool) -> usize {
        let mistake = scaled(mistake, self.slots);
        let id = mistake.prefix(self.width);
        self.entries.retain(|entry| !(drop_ghosts && entry.ghost && id.is_prefix_of(entry.whole)));
        let covering = self.entries.iter_mut().filter(|entry| entry.print.is_prefix_of(mistake));
        let mut lengthened = 0;
        for entry in covering {
            while entry.print.is_prefix_of(mistake) {
                entry.print = entry.whole.prefix(entry.print.length + self.width);
            }
            lengthened += 1;
        }
        lengthened
    }

    /// Compares all that can be seen of a filter with the model.
    ///
    /// # Panics
    /// If they differ, or if the filter is not valid.
    pub fn check(&self, filter: &AdaptiveQuotientFilter) {
        filter.validate().expect("a valid filter");
        let mut prints: Vec<Print> = self.entries.iter().map(|entry| entry.print).collect();
        prints.sort();
        let stored: Vec<Print> = filter.iter().map(|print| as_print(&print)).collect();
        assert_eq!(stored, prints);
        let statistics = filter.statistics();
        assert_eq!(statistics.members, prints.len());
        assert_eq!(statistics.extension_slots, self.used() - prints.len() as u64);
        for entry in &self.entries {
            assert!(filter.contains(entry.hash), "a false negative: {:?}", entry.hash);
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
