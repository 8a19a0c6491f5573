//! The layout of a store in its backend: the keys and values of each keyspace.
//!
//! | keyspace | key | value |
//! | --- | --- | --- |
//! | `Members`, merged | first 4 bytes of the hash, key | value |
//! | `Members`, split | first 4 bytes of the hash, key | nothing |
//! | `Keys`, split | key | value |
//! | `Members`, ranges | first 4 bytes of the partition's hash, number | nothing |
//! | `Keys`, ranges | number | value |
//! | `Members`, lists | first 4 bytes of the hash, key of the yes list | nothing |
//! | `Mistakes` | all 16 bytes of the hash | nothing |
//! | `Mistakes`, lists | first 4 bytes of the hash, key of the no list | nothing |
//! | `Mistakes`, ranges | first number of an empty span | last number of the span, which lies in one partition |
//! | `Meta` | `store` | format (4 bytes), layout (1 byte), secret (16 bytes); ranges: bits per number (1 byte), numbers per partition (8 bytes); since format 3: the hash of the preceding bytes (16 bytes) |
//! | `Meta` | `shape` | the filter's capacity, false-positive rate (a float) and shards (8 bytes each) |
//! | `Meta` | `clean` | version (1 byte), the number in the name of the saved filter's file (16 bytes), the length of the file (8 bytes), its last 64 bytes |
//!
//! Hashes and numbers are big-endian, so that their bytes sort as they do. The key follows the first bytes of its
//! hash, so that the rest of the hash can be computed, and keys whose hashes begin with the same bytes stay
//! distinct. Four bytes are enough: among 2^32 members, a repair reads about one more member than it needs,
//! and keys of 16 bytes stay within the 20 bytes that the engine stores without a pointer. The numbers of a
//! range store have as many bytes as their bits need.

use crate::backend::{
    Backend, Batch, Bounds, Bytes, Durability, Excluded, Included, Keyspace, Unbounded,
};
use crate::error::{Result, StoreError};
use crate::kind::{Kind, Layout, Numbers, PREFIX_BYTES};
use crate::sizing::Sizing;
use std::ops::RangeInclusive;
use twiceshy::{Hash, Secret, hash::KeyedHasher};

/// The keys of the records in [`Keyspace::Meta`].
const STORE: &[u8] = b"store";
const SHAPE: &[u8] = b"shape";
pub(crate) const CLEAN: &[u8] = b"clean";

/// The current version of the format.
const FORMAT: u32 = 3;

/// The previous version of the format. Its identity record has no check value.
const UNCHECKED_FORMAT: u32 = 2;

/// The properties that a store was created with, and that never change.
pub(crate) struct Identity {
    pub(crate) kind: Kind,
    pub(crate) secret: Secret,
    /// Whether the store was created just now, and is empty.
    pub(crate) is_new: bool,
}

/// Returns whether there is a store in a backend.
pub(crate) fn is_store(backend: &impl Backend) -> Result<bool> {
    Ok(backend.get(Keyspace::Meta, STORE)?.is_some())
}

impl Identity {
    /// Reads the identity of the store in a backend. If there is no store, creates one of this kind. If a
    /// `secret` is given, it must be the store's secret.
    pub(crate) fn of(backend: &impl Backend, kind: Kind, secret: Option<&Secret>) -> Result<Self> {
        let identity = match backend.get(Keyspace::Meta, STORE)? {
            Some(bytes) => Self::from_bytes(&bytes)?,
            None => Self::create(backend, kind, secret)?,
        };
        if secret.is_some_and(|secret| secret.expose() != identity.secret.expose()) {
            return Err(StoreError::Secret);
        }
        Ok(identity)
    }

    fn create(backend: &impl Backend, kind: Kind, secret: Option<&Secret>) -> Result<Self> {
        for space in [Keyspace::Members, Keyspace::Keys, Keyspace::Mistakes] {
            if backend.range(space, (Unbounded, Unbounded)).next().transpose()?.is_some() {
                return Err(StoreError::Format("the backend has data, but no secret".into()));
            }
        }
        let secret = secret.map_or_else(Secret::generate, |secret| Ok(secret.clone()))?;
        let identity = Self { kind, secret, is_new: true };
        let mut batch = Batch::new();
        batch.insert(Keyspace::Meta, STORE, identity.to_bytes());
        backend.write(&batch, Durability::Synced)?;
        // Without the secret all data is lost, so flush it from the journal to the tables.
        backend.flush()?;
        Ok(identity)
    }

    /// Returns the layout of a [`Store`](crate::Store), or an error if a different layout is `wanted`.
    pub(crate) fn layout(&self, wanted: Option<Layout>) -> Result<Layout> {
        match (self.kind, wanted) {
            (Kind::Points(found), Some(wanted)) if found != wanted => {
                Err(StoreError::Layout { found, wanted })
            }
            (Kind::Points(layout), _) => Ok(layout),
            (Kind::Ranges(_) | Kind::Lists, _) => Err(StoreError::Kind(self.kind.to_string())),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let (layout, rest) = match self.kind {
            Kind::Points(Layout::Merged) => (0, Vec::new()),
            Kind::Points(Layout::Split) => (1, Vec::new()),
            Kind::Ranges(Numbers { key_bits, longest_range }) => {
                (2, [&[key_bits as u8][..], &longest_range.to_be_bytes()].concat())
            }
            Kind::Lists => (3, Vec::new()),
        };
        let record = [&FORMAT.to_be_bytes()[..], &[layout], self.secret.expose(), &rest].concat();
        let check = check_value(&self.secret, &record);
        [&record[..], &check].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| StoreError::Format(what.into());
        let (format, _) =
            bytes.split_first_chunk().ok_or_else(|| wrong("the identity has no version"))?;
        let (record, check) = match u32::from_be_bytes(*format) {
            FORMAT => match bytes.split_last_chunk::<16>() {
                Some((record, check)) => (record, Some(check)),
                None => return Err(wrong("the identity is too short")),
            },
            UNCHECKED_FORMAT => (bytes, None),
            other => return Err(wrong(&format!("the format is {other}, not {FORMAT}"))),
        };
        let [_, _, _, _, layout, rest @ ..] = record else {
            return Err(wrong("the identity has no layout"));
        };
        let short = || wrong("the secret isn't 16 bytes long");
        let (&secret, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let kind = match (layout, rest) {
            (0, []) => Kind::Points(Layout::Merged),
            (1, []) => Kind::Points(Layout::Split),
            (3, []) => Kind::Lists,
            (0 | 1 | 3, _) => return Err(short()),
            (2, [key_bits, longest_range @ ..]) => Kind::Ranges(Numbers {
                key_bits: u32::from(*key_bits),
                longest_range: longest_range
                    .try_into()
                    .map(u64::from_be_bytes)
                    .map_err(|_| wrong("the longest range isn't 8 bytes long"))?,
            }),
            (2, []) => return Err(wrong("the length of its keys is missing")),
            (other, _) => return Err(wrong(&format!("there is no layout {other}"))),
        };
        let secret = Secret::from_bytes(secret);
        if check.is_some_and(|check| *check != check_value(&secret, record)) {
            return Err(wrong(
                "the secret or the layout is damaged; restore the store from a backup",
            ));
        }
        Ok(Self { kind, secret, is_new: false })
    }
}

/// Returns the check value of an identity record, which is its hash under the store's secret.
fn check_value(secret: &Secret, record: &[u8]) -> [u8; 16] {
    KeyedHasher::new(secret).hash_bytes(record).as_u128().to_be_bytes()
}

/// Reads the filter's recorded sizing from a backend.
pub(crate) fn sizing(backend: &impl Backend) -> Result<Option<Sizing>> {
    let Some(bytes) = backend.get(Keyspace::Meta, SHAPE)? else { return Ok(None) };
    let wrong = || StoreError::Format("the size of its filter is unreadable".into());
    let bytes: [u8; 24] = (*bytes).try_into().map_err(|_| wrong())?;
    let [capacity, rate, shards] =
        [0, 8, 16].map(|at| u64::from_be_bytes(*bytes[at..].first_chunk().expect("24 bytes")));
    let [capacity, shards] =
        [capacity, shards].map(|number| number.try_into().map_err(|_| wrong()));
    Ok(Some(Sizing {
        capacity: capacity?,
        false_positive_rate: f64::from_bits(rate),
        shards: shards?,
        memory: None,
    }))
}

/// Records the sizing of the filter.
pub(crate) fn keep_sizing(backend: &impl Backend, sizing: &Sizing) -> Result<()> {
    let rate = sizing.false_positive_rate.to_bits();
    let numbers = [sizing.capacity as u64, rate, sizing.shards as u64];
    let mut batch = Batch::new();
    batch.insert(Keyspace::Meta, SHAPE, numbers.map(u64::to_be_bytes).concat());
    Ok(backend.write(&batch, Durability::Synced)?)
}

/// Returns the key of a member in [`Keyspace::Members`], or of a no-list key in [`Keyspace::Mistakes`].
pub(crate) fn member_key(hash: Hash, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + key.len());
    bytes.extend_from_slice(&prefix(hash));
    bytes.extend_from_slice(key);
    bytes
}

/// Returns the user's key in a member's key, or `None` if the member's key is too short.
pub(crate) fn user_key(member_key: &[u8]) -> Option<&[u8]> {
    member_key.get(PREFIX_BYTES..)
}

/// Returns the key of a mistake in [`Keyspace::Mistakes`].
pub(crate) fn mistake_key(hash: Hash) -> [u8; 16] {
    hash.as_u128().to_be_bytes()
}

/// Returns the mistake that is stored under a key, or `None` if no store has written that key.
fn mistake(key: &[u8]) -> Option<Hash> {
    key.try_into().ok().map(|bytes| Hash::from_u128(u128::from_be_bytes(bytes)))
}

/// Returns the first bytes of a hash.
pub(crate) fn prefix(hash: Hash) -> [u8; PREFIX_BYTES] {
    *hash.as_u128().to_be_bytes().first_chunk().expect("4 of 16 bytes")
}

impl Layout {
    /// Reads the value of a key.
    pub(crate) fn get(
        self,
        backend: &impl Backend,
        hash: Hash,
        key: &[u8],
    ) -> Result<Option<Bytes>> {
        Ok(match self {
            Layout::Merged => backend.get(Keyspace::Members, &member_key(hash, key))?,
            Layout::Split => backend.get(Keyspace::Keys, key)?,
        })
    }

    /// Returns an empty batch with room for these pairs.
    pub(crate) fn batch(self, pairs: &[(&[u8], &[u8])]) -> Batch {
        let bytes = pairs.iter().map(|(key, value)| PREFIX_BYTES + key.len() + value.len());
        match self {
            Layout::Merged => Batch::with_capacity(pairs.len(), bytes.sum()),
            Layout::Split => {
                let keys = pairs.iter().map(|(key, _)| key.len());
                Batch::with_capacity(2 * pairs.len(), bytes.sum::<usize>() + keys.sum::<usize>())
            }
        }
    }

    /// Adds a put to a batch. `new` says whether the key may be new.
    pub(crate) fn insert(self, batch: &mut Batch, hash: Hash, key: &[u8], value: &[u8], new: bool) {
        match self {
            Layout::Merged => batch.insert_joined(Keyspace::Members, [&prefix(hash), key], value),
            Layout::Split => {
                batch.insert(Keyspace::Keys, key, value);
                if new {
                    batch.insert_joined(Keyspace::Members, [&prefix(hash), key], b"");
                }
            }
        }
    }

    /// Adds a removal to a batch.
    pub(crate) fn remove(self, batch: &mut Batch, hash: Hash, key: &[u8]) {
        if self == Layout::Split {
            batch.remove(Keyspace::Keys, key);
        }
        batch.remove(Keyspace::Members, member_key(hash, key));
    }
}

/// Lists the hashes of all members in an interval.
pub(crate) fn members(
    backend: &impl Backend,
    hasher: &KeyedHasher,
    hashes: &RangeInclusive<Hash>,
) -> Result<Vec<Hash>> {
    let read = |key: &[u8]| Some((hasher.hash_bytes(key), ()));
    listed(backend, Keyspace::Members, hashes, read).map(|member| Ok(member?.0)).collect()
}

/// Lists the mistakes that a [`Store`](crate::Store) keeps in an interval, in order.
pub(crate) fn mistakes(
    backend: &impl Backend,
    hashes: &RangeInclusive<Hash>,
) -> impl Iterator<Item = Result<Hash>> {
    let [first, last] = [hashes.start(), hashes.end()].map(|&hash| mistake_key(hash));
    let keys = backend.range(Keyspace::Mistakes, (Included(&first[..]), Included(&last[..])));
    // Skip keys that no store has written.
    keys.filter_map(|pair| pair.map(|(key, _)| mistake(&key)).map_err(StoreError::from).transpose())
}

/// Lists the members (or the keys of the no list) whose hashes are in an interval, ordered by the first bytes
/// of the hashes. `read` computes the hash of a key.
pub(crate) fn listed<M>(
    backend: &impl Backend,
    space: Keyspace,
    hashes: &RangeInclusive<Hash>,
    read: impl Fn(&[u8]) -> Option<(Hash, M)>,
) -> impl Iterator<Item = Result<(Hash, M)>> {
    let first = prefix(*hashes.start());
    let next = u32::from_be_bytes(prefix(*hashes.end())).checked_add(1).map(u32::to_be_bytes);
    let end = next.as_ref().map_or(Unbounded, |next| Excluded(&next[..]));
    let bounds: Bounds<'_> = (Included(&first[..]), end);
    let hashes = hashes.clone();
    backend.range(space, bounds).filter_map(move |pair| {
        let member = match pair {
            Ok((member, _)) => member,
            Err(error) => return Some(Err(error.into())),
        };
        // Skip bytes that no store has written.
        let (hash, read) = read(user_key(&member)?)?;
        let is_listed = hashes.contains(&hash) && member.starts_with(&prefix(hash));
        is_listed.then_some(Ok((hash, read)))
    })
}
