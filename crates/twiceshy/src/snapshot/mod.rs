//! Filters as files: saved, opened, and read in place.
//!
//! - [`Snapshot`] has four verbs for filters of hashes: `write_to` and `read_from` for streams,
//!   `save` and `open` for files. A saved file is replaced at once or not at all. Filters are
//!   validated when they are read, so that they can be changed.
//! - [`KeyedSnapshot`] has the same verbs for filters that know the secret of their keys:
//!   [`Keyed`](crate::Keyed) ones and those for ranges. A [`SecretMode`] says whether the secret
//!   is saved, too.
//! - A [`Frozen`] filter answers from bytes where they are, in a memory map for example, without
//!   reading them first. It doesn't trust them: if they were tampered with, its answers are wrong
//!   at worst.
//! - With the feature `serde`, filters of hashes are (de)serialised as the bytes of their snapshots.
//!
//! ```
//! use twiceshy::{AdaptiveQuotientFilter, Frozen, Hash, Snapshot};
//! let mut filter = AdaptiveQuotientFilter::builder().slots(1000).build()?;
//! filter.insert(Hash::from_u128(7 << 100))?;
//! let mut bytes = Vec::new();
//! filter.write_to(&mut bytes)?;
//!
//! let copy = AdaptiveQuotientFilter::read_from(&bytes[..])?;
//! let frozen = Frozen::<AdaptiveQuotientFilter>::from_bytes(bytes)?;
//! assert!(copy.contains(Hash::from_u128(7 << 100)));
//! assert!(frozen.contains(Hash::from_u128(7 << 100)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a snapshot gives away
//! The secret that keys are hashed with is in no snapshot, except with [`SecretMode::Include`].
//! Keep it apart.
//!
//! - **An attacker who has only the filter** learns its parameters, the numbers of members and
//!   repairs, and the members' fingerprints: prefixes of hashes, which without the secret can't
//!   be told from random numbers. They can neither test a key nor search for false positives.
//!   Two snapshots of one filter show which fingerprints came and went; an attacker who has a
//!   key of their choice inserted in between learns its fingerprint. A mark tells whether
//!   two filters of keys have the same secret, and nothing else of it.
//! - **An attacker who has the filter and the secret** can test any key offline: they can try
//!   likely keys to list the members among them (wrongly at the false-positive rate), and search
//!   for false positives, one in about 2^r tries, to send them all at once. Repairs still
//!   help against those that were sent, but not against those that are kept for later.
//!
//! The checksums are against accidents. An attacker who can write to the file can make a filter
//! that misses members, with correct checksums; sign the file if that is a threat.
//!
//! # Format, version 1
//! All numbers are little-endian. A snapshot is a header of two lines of 64 bytes, and
//! sections, which all begin at a multiple of 64.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: `89 54 57 53 48 59 0d 0a`, "\x89TWSHY\r\n" |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0, a secret section follows the table; the others are 0 |
//! | 16 | 8 | slots |
//! | 24 | 4 | bits of a remainder |
//! | 28 | 4 | bits of a slot |
//! | 32 | 4 | bits of a value |
//! | 36 | 4 | hash scheme: 1, [`Aes128SipHash13`](crate::HashScheme::Aes128SipHash13) |
//! | 40 | 8 | members, each as often as it was inserted |
//! | 48 | 8 | used slots that are not the first of their entry |
//! | 56 | 8 | used slots |
//! | 64 | 8 | repairs |
//! | 72 | 8 | lines of the table, *n* |
//! | 80 | 8 | mark of the secret, or 0 if it isn't known: the first 8 bytes of the AES-128 block 3 under it, or 1 if they are 0 |
//! | 88 | 8 | load at which the filter doubles by itself, a 64-bit floating-point number, or 0 |
//! | 96 | 20 | 0 |
//! | 116 | 4 | checksum of the table section |
//! | 120 | 4 | checksum of the secret section, or 0 |
//! | 124 | 4 | checksum of the bytes before |
//! | 128 | 64·*n* | table section: the lines of the table |
//! | 128 + 64·*n* | 64 | still of the table section: 0, so that the last line can be viewed in place as the others are |
//! | 192 + 64·*n* | 64 | secret section, if there is one: the secret's 16 bytes, then 0 |
//!
//! Checksums are CRC-32 (the one of IEEE 802.3). A table of s slots has
//! ⌈(s + 4·⌊√s⌋ + 64) / lanes⌉ lines, in which slots of w bits are laid out so:
//!
//! ```text
//! bit 0      8            8+L        8+2L         8+3L                     8+3L+L·w
//!     ┌──────┬────────────┬──────────┬────────────┬────────┬────────┬─┄┄─┬──────────┐
//!     │ spill│ occupied   │ runend   │ extension  │ slot 0 │ slot 1 │    │ slot L-1 │
//!     └──────┴────────────┴──────────┴────────────┴────────┴────────┴─┄┄─┴──────────┘
//!       L lanes: 504 / (3 + w), at most 56. Bits are counted from the lowest of the first
//!       byte; what is behind the last slot is 0.
//! ```
//!
//! What the planes mean is in the source of the table (`src/table/mod.rs`), how entries are
//! spelt in slots in that of the filter (`src/quotient/entry.rs`).
//!
//! # Format of concurrent filters, version 1
//! A line, the snapshots of all shards, in hash order and each as above, and another line. So all
//! of them begin at a multiple of 64. Each shard's hashes are those of the whole without their
//! first log₂(shards) bits: `hash << log₂(shards)`.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: `89 54 57 53 48 43 0d 0a`, "\x89TWSHC\r\n" |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: 0 |
//! | 16 | 4 | shards: a power of two, at most 4096 |
//! | 20 | 4 | hash scheme, as above; that of each shard |
//! | 24 | 36 | 0 |
//! | 60 | 4 | checksum of the bytes before |
//! | 64 | | the shards' snapshots, without secret sections, and without marks |
//! | *m* | 8 | bytes of the whole snapshot, *m* + 64 |
//! | *m* + 8 | 4 | checksum of the header checksums of all shards, in order: it tells that they were saved together |
//! | *m* + 12 | 48 | 0 |
//! | *m* + 60 | 4 | checksum of the 60 bytes before |
//!
//! Bits of a value, and the load at which shards double, are the same in all shards. Slots, and
//! the bits of slots and remainders, need not be. The secret is never in it, nor a mark of it:
//! keep the secret elsewhere, together with the name of the snapshot it belongs to.
//!
//! # Format of filters for ranges, version 1
//! As that of filters, with another header. It is the same for filters that adapt and that don't:
//! each can be opened as the other.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: `89 54 57 53 48 52 0d 0a`, "\x89TWSHR\r\n" |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0, a secret section follows the table; bit 1, boxes have ages; the others are 0 |
//! | 16 | 8 | slots |
//! | 24 | 4 | bits of a remainder, *r* |
//! | 28 | 4 | bits of a slot: *r* + *m*, and one more if there are ages |
//! | 32 | 4 | bits of a memento, *m*: at most 20, and fewer than a key has |
//! | 36 | 4 | hash scheme, as above |
//! | 40 | 8 | members, each as often as it was inserted |
//! | 48 | 4 | bits of a key, [`RangeKey::BITS`] |
//! | 52 | 4 | no box is older: at most *r*, and 0 without ages |
//! | 56 | 8 | used slots |
//! | 64 | 8 | repairs; 0 of a filter that doesn't adapt |
//! | 72 | 8 | lines of the table, *n* |
//! | 80 | 8 | mark of the secret, as above |
//! | 88 | 28 | 0 |
//! | 116 | 12 | checksums, as above |
//! | 128 | | table section, and secret section, if there is one, as above |
//!
//! A table may have more lines than above, up to three times as many: its tail is lengthened where
//! boxes are long. How boxes are written in slots is in the source (`src/range/keepsake.rs`).
//! Members are hashed by their partitions: the number of the key without its last *m* bits, as 8
//! bytes, or as 16 if keys have more than 64 bits.
//!
//! # Format of filters of yes and no lists, version 1
//! As that of filters, with another header. A list that is published has a secret section.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: `89 54 57 53 48 4c 0d 0a`, "\x89TWSHL\r\n" |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0, a secret section follows the table; the others are 0 |
//! | 16 | 8 | blocks, *b*: at most 2^26, of 512 quotients each |
//! | 24 | 4 | bits of a remainder: 1 to 55 |
//! | 28 | 4 | quotients of a group, as a power of two: 0 to 9 |
//! | 32 | 4 | bits of a seed that are written as they are: at most 20 |
//! | 36 | 4 | hash scheme, as above |
//! | 40 | 8 | yes-keys |
//! | 48 | 8 | no-keys |
//! | 56 | 8 | fingerprints |
//! | 64 | 8 | the rate that was asked for, a 64-bit floating-point number |
//! | 72 | 8 | lines of the table, *n* |
//! | 80 | 8 | mark of the secret, as above |
//! | 88 | 4 | the user's label |
//! | 92 | 24 | 0 |
//! | 116 | 12 | checksums, as above |
//! | 128 | | table section, and secret section, if there is one, as above |
//!
//! The table is *b* + 1 numbers of 4 bytes, which say where each block begins and where the last one
//! ends, in words of 8 bytes from the first block on; 0 to a whole word; the blocks; and 0 to a whole
//! line. What is in a block is in the source (`src/list/fixed/block.rs`), and how remainders are made of
//! hashes (`src/list/fixed/seed.rs`).
//!
//! # Format of filters with codes, version 1
//! As that of filters, with another header, and another layout of lines.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: `89 54 57 53 48 54 0d 0a`, "\x89TWSHT\r\n", of a [`TelescopingFilter`]; `89 54 57 53 48 45 0d 0a`, "\x89TWSHE\r\n", of an [`ExtensionFilter`] |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0, a secret section follows the table; the others are 0 |
//! | 16 | 8 | slots |
//! | 24 | 4 | bits of a remainder, and of a slot, *w* |
//! | 28 | 4 | bits of code for 64 slots, *c*: 8 to 120 |
//! | 32 | 4 | how likely a symbol is 0, or a selector goes no further, of 2^16: 2^15 to 2^16 - 1 |
//! | 36 | 4 | hash scheme, as above |
//! | 40 | 8 | members, each as often as it was inserted: so many slots are used |
//! | 48 | 8 | repairs that were forgotten |
//! | 56 | 8 | mistakes that it was built with, and had no room for |
//! | 64 | 8 | repairs |
//! | 72 | 8 | lines of the table, *n* |
//! | 80 | 8 | mark of the secret, as above |
//! | 88 | 28 | 0 |
//! | 116 | 12 | checksums, as above |
//! | 128 | | table section, and secret section, if there is one, as above |
//!
//! A line has L = ⌊64·504 / (64·(2 + w) + c)⌋ lanes, at most 56, and a code of all bits that are
//! left, at most 120, in the place of the extensions' plane:
//!
//! ```text
//! bit 0      8            8+L        8+2L    8+2L+C                    8+2L+C+L·w
//!     ┌──────┬────────────┬──────────┬───────┬────────┬────────┬─┄┄─┬──────────┐
//!     │ spill│ occupied   │ runend   │ code  │ slot 0 │ slot 1 │    │ slot L-1 │
//!     └──────┴────────────┴──────────┴───────┴────────┴────────┴─┄┄─┴──────────┘
//!       C = 504 − L·(2 + w) bits of code, at most 120
//! ```
//!
//! How codes are written is in the source (`src/coded/coder.rs`, `scheme.rs`). Such a snapshot
//! can't be read in place.
//!
//! That of a concurrent coded filter is as that of a concurrent filter, with shards in this
//! format, and begins with `89 54 57 53 48 74 0d 0a`, "\x89TWSHt\r\n", or, if its shards are
//! extension filters, `89 54 57 53 48 65 0d 0a`, "\x89TWSHe\r\n".

mod describe;
mod error;
mod frozen;
mod kind;
mod kinds;
mod replace;
mod sections;
#[cfg(feature = "serde")]
mod serde;
mod shards;
mod stream;
mod verbs;

pub use error::SnapshotError;
pub use frozen::Frozen;
pub(crate) use shards::ShardFormat;
pub use verbs::{KeyedSnapshot, SecretMode, Snapshot};

#[cfg(doc)]
use crate::{ExtensionFilter, RangeKey, TelescopingFilter};
