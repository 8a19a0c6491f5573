//! Where things are in a backend.
//!
//! | keyspace | key | value |
//! | --- | --- | --- |
//! | `Members`, merged | first 4 bytes of the hash, key | value |
//! | `Members`, split | first 4 bytes of the hash, key | nothing |
//! | `Keys`, split | key | value |
//! | `Mistakes` | all 16 bytes of the hash | nothing |
//! | `Meta` | `store` | format (4 bytes), layout (1 byte), secret (16 bytes) |
//! | `Meta` | `shape` | of the filter: capacity, false-positive rate (a float), shards (8 bytes each) |
//! | `Meta` | `clean` | the number under which the filter is saved (16 bytes), how long the file is (8 bytes), and its end (64 bytes) |
//!
//! Numbers are big-endian, so that bytes are in the order of hashes. The key behind the hash
//! gives back all of it, and keeps apart two keys that share its first bytes. Of these there are
//! as many as tell apart what a repair scans: of 2^32 members it reads one more than it needs, and
//! in exchange keys of 16 bytes stay within the 20 that the engine keeps without a pointer.

use crate::backend::{
    Backend, Batch, Bounds, Bytes, Durability, Excluded, Included, Keyspace, Unbounded,
};
use crate::error::{Result, StoreError};
use crate::filter::Shape;
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
const FORMAT: u32 = 2;

/// What a store was created with.
pub(crate) struct Identity {
    pub(crate) layout: Layout,
    pub(crate) secret: Secret,
    /// Whether it was created just now, and is empty.
    pub(crate) is_new: bool,
}

/// Whether there is a store in a backend.
pub(crate) fn is_store(backend: &impl Backend) -> Result<bool> {
    Ok(backend.get(Keyspace::Meta, STORE)?.is_some())
}

impl Identity {
    /// That of the store in a backend; a new one, if there is none. If a layout or a secret is
    /// asked for, it must be the store's.
    pub(crate) fn of(
        backend: &impl Backend,
        layout: Option<Layout>,
        secret: Option<&Secret>,
    ) -> Result<Self> {
        let identity = match backend.get(Keyspace::Meta, STORE)? {
            Some(bytes) => Self::from_bytes(&bytes)?,
            None => Self::create(backend, layout.unwrap_or_default(), secret)?,
        };
        if secret.is_some_and(|secret| secret.expose() != identity.secret.expose()) {
            return Err(StoreError::Secret);
        }
        match layout {
            Some(layout) if layout != identity.layout => {
                Err(StoreError::Layout { found: identity.layout, wanted: layout })
            }
            _ => Ok(identity),
        }
    }

    fn create(backend: &impl Backend, layout: Layout, secret: Option<&Secret>) -> Result<Self> {
        for space in [Keyspace::Members, Keyspace::Keys, Keyspace::Mistakes] {
            if backend.range(space, (Unbounded, Unbounded)).next().transpose()?.is_some() {
                return Err(StoreError::Format("it has data, but no secret".into()));
            }
        }
        let secret = secret.map_or_else(Secret::generate, |secret| Ok(secret.clone()))?;
        let identity = Self { layout, secret, is_new: true };
        let mut batch = Batch::new();
        batch.insert(Keyspace::Meta, STORE, identity.to_bytes());
        backend.write(&batch, Durability::Synced)?;
        // Without the secret all is lost: it shan't be in a journal alone.
        backend.flush()?;
        Ok(identity)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let layout = match self.layout {
            Layout::Merged => 0,
            Layout::Split => 1,
        };
        [&FORMAT.to_be_bytes()[..], &[layout], self.secret.expose()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| StoreError::Format(what.into());
        let (format, rest) = bytes.split_first_chunk().ok_or_else(|| wrong("it has no version"))?;
        let format = u32::from_be_bytes(*format);
        if format != FORMAT {
            return Err(wrong(&format!("its format is {format}, not {FORMAT}")));
        }
        let [layout, secret @ ..] = rest else { return Err(wrong("it has no layout")) };
        let layout = match layout {
            0 => Layout::Merged,
            1 => Layout::Split,
            other => return Err(wrong(&format!("there is no layout {other}"))),
        };
        let secret = secret.try_into().map_err(|_| wrong("its secret isn't 16 bytes"))?;
        Ok(Self { layout, secret: Secret::from_bytes(secret), is_new: false })
    }
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

/// The key of a member in [`Keyspace::Members`].
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

fn prefix(hash: Hash) -> [u8; PREFIX] {
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
    let first = prefix(*hashes.start());
    let behind = u32::from_be_bytes(prefix(*hashes.end())).checked_add(1).map(u32::to_be_bytes);
    let end = behind.as_ref().map_or(Unbounded, |behind| Excluded(&behind[..]));
    let bounds: Bounds<'_> = (Included(&first[..]), end);
    let mut members = Vec::new();
    for pair in backend.range(Keyspace::Members, bounds) {
        let (member, _) = pair?;
        // Bytes that no store has written are nobody's.
        let Some(key) = user_key(&member) else { continue };
        let hash = hasher.hash_bytes(key);
        if hashes.contains(&hash) && member.starts_with(&prefix(hash)) {
            members.push(hash);
        }
    }
    // In order, but for those that share their first bytes.
    members.sort_unstable();
    Ok(members)
}
