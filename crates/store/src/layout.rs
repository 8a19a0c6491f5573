//! Where things are in a backend.
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
//! | `Mistakes`, ranges | first number that isn't there | last number of its partition that isn't there either, nor any between |
//! | `Meta` | `store` | format (4 bytes), layout (1 byte), secret (16 bytes); ranges: bits of a number (1 byte), numbers of a partition (8 bytes); since format 3: the hash of all that (16 bytes) |
//! | `Meta` | `shape` | of the filter: capacity, false-positive rate (a float), shards (8 bytes each) |
//! | `Meta` | `clean` | version (1 byte), the number under which the filter is saved (16 bytes), the length of the file (8 bytes), and its end (64 bytes) |
//!
//! Numbers are big-endian, so that bytes are in the order of hashes. The key behind the hash
//! gives back all of it, and keeps apart two keys that share its first bytes. Of these there are
//! as many as tell apart what a repair scans: of 2^32 members it reads one more than it needs, and
//! in exchange keys of 16 bytes stay within the 20 that the engine keeps without a pointer. The
//! numbers of ranges have as many bytes as it takes for their bits.

use crate::backend::{
    Backend, Batch, Bounds, Bytes, Durability, Excluded, Included, Keyspace, Unbounded,
};
use crate::error::{Result, StoreError};
use crate::filter::Shape;
use std::fmt;
use std::ops::RangeInclusive;
use twiceshy::{Hash, KeyedHasher, Secret};

/// How keys and values are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One map in hash order: a put writes once, a positive is one point get.
    #[default]
    Merged,
    /// One map in key order, for ranges of keys, and one in hash order, for repairs.
    Split,
}

/// Names in [`Keyspace::Meta`].
const STORE: &[u8] = b"store";
const SHAPE: &[u8] = b"shape";
pub(crate) const CLEAN: &[u8] = b"clean";

/// The version of all this.
const FORMAT: u32 = 3;

/// The version before, whose identity has no check value.
const UNCHECKED_FORMAT: u32 = 2;

/// What a store keeps, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A [`GuardedStore`](crate::GuardedStore).
    Points(Layout),
    /// A [`RangeStore`](crate::RangeStore).
    Ranges(Numbers),
    /// A [`ListStore`](crate::ListStore).
    Lists,
}

/// Which numbers a store of ranges keeps, and how many of them are a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) key_bits: u32,
    /// A power of two.
    pub(crate) longest_range: u64,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(_) => write!(f, "keeps any keys, for single lookups"),
            Self::Ranges(Numbers { key_bits, longest_range }) => {
                write!(f, "keeps keys of {key_bits} bits, for ranges of up to {longest_range}")
            }
            Self::Lists => write!(f, "keeps a yes list and a no list"),
        }
    }
}

/// What a store was created with.
pub(crate) struct Identity {
    pub(crate) kind: Kind,
    pub(crate) secret: Secret,
    /// Whether it was created just now, and is empty.
    pub(crate) is_new: bool,
}

/// Whether there is a store in a backend.
pub(crate) fn is_store(backend: &impl Backend) -> Result<bool> {
    Ok(backend.get(Keyspace::Meta, STORE)?.is_some())
}

impl Identity {
    /// That of the store in a backend; a new one of this kind, if there is none. If a secret is
    /// asked for, it must be the store's.
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
                return Err(StoreError::Format("it has data, but no secret".into()));
            }
        }
        let secret = secret.map_or_else(Secret::generate, |secret| Ok(secret.clone()))?;
        let identity = Self { kind, secret, is_new: true };
        let mut batch = Batch::new();
        batch.insert(Keyspace::Meta, STORE, identity.to_bytes());
        backend.write(&batch, Durability::Synced)?;
        // Without the secret all is lost: it shan't be in a journal alone.
        backend.flush()?;
        Ok(identity)
    }

    /// The layout of a store of points; if one is asked for, it must be the store's.
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
        let (format, _) = bytes.split_first_chunk().ok_or_else(|| wrong("it has no version"))?;
        let (record, check) = match u32::from_be_bytes(*format) {
            FORMAT => match bytes.split_last_chunk::<16>() {
                Some((record, check)) => (record, Some(check)),
                None => return Err(wrong("its identity is too short")),
            },
            UNCHECKED_FORMAT => (bytes, None),
            other => return Err(wrong(&format!("its format is {other}, not {FORMAT}"))),
        };
        let [_, _, _, _, layout, rest @ ..] = record else {
            return Err(wrong("it has no layout"));
        };
        let short = || wrong("its secret isn't 16 bytes");
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
                    .map_err(|_| wrong("its longest range isn't 8 bytes"))?,
            }),
            (2, []) => return Err(wrong("its keys have no length")),
            (other, _) => return Err(wrong(&format!("there is no layout {other}"))),
        };
        let secret = Secret::from_bytes(secret);
        if check.is_some_and(|check| *check != check_value(&secret, record)) {
            return Err(wrong("its secret or its layout is damaged; restore it from a backup"));
        }
        Ok(Self { kind, secret, is_new: false })
    }
}

/// What tells whether an identity is as it was written: its hash by its own secret.
fn check_value(secret: &Secret, record: &[u8]) -> [u8; 16] {
    KeyedHasher::new(secret).hash_bytes(record).as_u128().to_be_bytes()
}

/// What the filter of the store in a backend was last asked to be like.
pub(crate) fn shape(backend: &impl Backend) -> Result<Option<Shape>> {
    let Some(bytes) = backend.get(Keyspace::Meta, SHAPE)? else { return Ok(None) };
    let wrong = || StoreError::Format("its filter has no shape".into());
    let bytes: [u8; 24] = (*bytes).try_into().map_err(|_| wrong())?;
    let [capacity, rate, shards] =
        [0, 8, 16].map(|at| u64::from_be_bytes(*bytes[at..].first_chunk().expect("24 bytes")));
    let [capacity, shards] =
        [capacity, shards].map(|number| number.try_into().map_err(|_| wrong()));
    Ok(Some(Shape {
        capacity: capacity?,
        false_positive_rate: f64::from_bits(rate),
        shards: shards?,
    }))
}

/// Remembers what the filter is asked to be like.
pub(crate) fn keep_shape(backend: &impl Backend, shape: &Shape) -> Result<()> {
    let rate = shape.false_positive_rate.to_bits();
    let numbers = [shape.capacity as u64, rate, shape.shards as u64];
    let mut batch = Batch::new();
    batch.insert(Keyspace::Meta, SHAPE, numbers.map(u64::to_be_bytes).concat());
    Ok(backend.write(&batch, Durability::Synced)?)
}

/// Bytes of a hash that members are sorted by.
const PREFIX: usize = 4;

/// The key of a member in [`Keyspace::Members`], and of a no key in [`Keyspace::Mistakes`].
pub(crate) fn member_key(hash: Hash, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX + key.len());
    bytes.extend_from_slice(&prefix(hash));
    bytes.extend_from_slice(key);
    bytes
}

/// How long that is.
pub(crate) fn member_key_len(key: &[u8]) -> usize {
    PREFIX + key.len()
}

/// The user's key in the key of a member; `None` if that is too short to be one.
pub(crate) fn user_key(member_key: &[u8]) -> Option<&[u8]> {
    member_key.get(PREFIX..)
}

pub(crate) fn mistake_key(hash: Hash) -> [u8; 16] {
    hash.as_u128().to_be_bytes()
}

pub(crate) fn mistake(key: &[u8]) -> Option<Hash> {
    key.try_into().ok().map(|bytes| Hash::from_u128(u128::from_be_bytes(bytes)))
}

pub(crate) fn prefix(hash: Hash) -> [u8; PREFIX] {
    *hash.as_u128().to_be_bytes().first_chunk().expect("4 of 16 bytes")
}

impl Layout {
    /// The value of a key.
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

    /// A batch with room for these pairs.
    pub(crate) fn batch(self, pairs: &[(&[u8], &[u8])]) -> Batch {
        let bytes = pairs.iter().map(|(key, value)| member_key_len(key) + value.len());
        match self {
            Layout::Merged => Batch::with_capacity(pairs.len(), bytes.sum()),
            Layout::Split => {
                let keys = pairs.iter().map(|(key, _)| key.len());
                Batch::with_capacity(2 * pairs.len(), bytes.sum::<usize>() + keys.sum::<usize>())
            }
        }
    }

    /// Has a batch give a key a value; `new` says whether it may have none yet.
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

    /// Has a batch remove a key.
    pub(crate) fn remove(self, batch: &mut Batch, hash: Hash, key: &[u8]) {
        if self == Layout::Split {
            batch.remove(Keyspace::Keys, key);
        }
        batch.remove(Keyspace::Members, member_key(hash, key));
    }
}

/// The hashes of all members in an interval, in order.
pub(crate) fn members(
    backend: &impl Backend,
    hasher: &KeyedHasher,
    hashes: &RangeInclusive<Hash>,
) -> Result<Vec<Hash>> {
    let read = |key: &[u8]| Some((hasher.hash_bytes(key), ()));
    let members = listed(backend, Keyspace::Members, hashes, read).map(|member| Ok(member?.0));
    let mut members = members.collect::<Result<Vec<Hash>>>()?;
    // In order, but for those that share their first bytes.
    members.sort_unstable();
    Ok(members)
}

/// The members in an interval of hashes, or the no keys, with their hashes, as they are read from the
/// keys. In order, but for those that share the first bytes of their hashes.
pub(crate) fn listed<M>(
    backend: &impl Backend,
    space: Keyspace,
    hashes: &RangeInclusive<Hash>,
    read: impl Fn(&[u8]) -> Option<(Hash, M)>,
) -> impl Iterator<Item = Result<(Hash, M)>> {
    let first = prefix(*hashes.start());
    let behind = u32::from_be_bytes(prefix(*hashes.end())).checked_add(1).map(u32::to_be_bytes);
    let end = behind.as_ref().map_or(Unbounded, |behind| Excluded(&behind[..]));
    let bounds: Bounds<'_> = (Included(&first[..]), end);
    let hashes = hashes.clone();
    backend.range(space, bounds).filter_map(move |pair| {
        let member = match pair {
            Ok((member, _)) => member,
            Err(error) => return Some(Err(error.into())),
        };
        // Bytes that no store has written are nobody's.
        let (hash, read) = read(user_key(&member)?)?;
        let is_listed = hashes.contains(&hash) && member.starts_with(&prefix(hash));
        is_listed.then_some(Ok((hash, read)))
    })
}
