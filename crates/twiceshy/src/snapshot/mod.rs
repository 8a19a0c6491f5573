//! Saves filters to files, opens them, and reads them in place.
//!
//! - [`Snapshot`] has four methods for filters of hashes: `write_to` and `read_from` for streams,
//!   `save` and `open` for files. `save` replaces a file atomically. Reading validates the filter,
//!   so it is safe to change it afterwards.
//! - [`KeyedSnapshot`] has the same methods for filters that know the secret of their keys:
//!   [`Keyed`](crate::Keyed) filters and range filters. A [`SecretMode`] says whether the snapshot
//!   contains the secret.
//! - A [`Frozen`] filter answers directly from the bytes of a snapshot, for example in a memory
//!   map, without reading all of them first. It doesn't trust the bytes: if someone tampered with
//!   them, the worst outcome is a wrong answer.
//! - With the feature `serde`, filters of hashes are (de)serialised as the bytes of their snapshots.
//!
//! ```
//! use twiceshy::{QuotientFilter, Frozen, Hash, Snapshot};
//! let mut filter = QuotientFilter::builder().slots(1000).build()?;
//! filter.insert(Hash::from_u128(7 << 100))?;
//! let mut bytes = Vec::new();
//! filter.write_to(&mut bytes)?;
//!
//! let copy = QuotientFilter::read_from(&bytes[..])?;
//! let frozen = Frozen::<QuotientFilter>::from_bytes(bytes)?;
//! assert!(copy.contains(Hash::from_u128(7 << 100)));
//! assert!(frozen.contains(Hash::from_u128(7 << 100)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a snapshot reveals
//! A snapshot contains the secret of its keys only with [`SecretMode::Include`]. Store the secret
//! in a different place. Without it, a reader learns the parameters (also the numbers of fresh
//! remainders, which say nothing about keys), the numbers of members and repairs, and fingerprints
//! that look random, but can't test a key. With the secret, a reader can test any key, and search
//! for false positives. The checksums protect against accidents; sign the file if an attacker can
//! write to it. The repository's `docs/security.md` says more.
//!
//! # Format, version 1
//! All numbers are little-endian. Checksums are CRC-32 (IEEE 802.3). A snapshot is a header of two
//! 64-byte lines, followed by sections. Every section begins at a multiple of 64 bytes. Bytes that
//! have no meaning are 0.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic, see below |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0 is set if a secret section follows the table; bit 1, see below |
//! | 16 | 20 | size and bits, see below |
//! | 36 | 4 | hash scheme: 1, the function of [`KeyedHasher`](crate::hash::KeyedHasher) |
//! | 40 | 32 | counts, see below |
//! | 72 | 8 | lines of the table, *n* |
//! | 80 | 8 | mark of the secret: the first 8 bytes of block 3, encrypted with AES-128 under the secret, or 1 if these are 0; 0 if the secret is unknown |
//! | 88 | 8 | extra, see below |
//! | 96 | 16 | the numbers that [remainders](crate::quotient::Remainders) are made with, 8 bytes each: *a*, which is odd, and *b*; both are 0 if remainders are plain, and always in range and yes/no filters |
//! | 116 | 4 | checksum of the table section |
//! | 120 | 4 | checksum of the secret section, or 0 |
//! | 124 | 4 | checksum of bytes 0 to 123 |
//! | 128 | 64·*n* | table section: the lines of the table |
//! | 128 + 64·*n* | 64 | end of the table section: a line of zeros, so that the last line can be read in place like the others |
//! | 192 + 64·*n* | 64 | secret section, if present: the secret's 16 bytes, then zeros |
//!
//! The other fields depend on the kind of filter:
//!
//! | byte | size | quotient | range | yes/no | telescoping, extension, plain |
//! | ---: | ---: | --- | --- | --- | --- |
//! | 0 | 8 | "\x89TWSHY\r\n" | "\x89TWSHR\r\n" | "\x89TWSHL\r\n" | "\x89TWSHT\r\n", "\x89TWSHE\r\n", "\x89TWSHP\r\n" |
//! | 12 | 4 | | bit 1 is set if boxes have ages | | |
//! | 16 | 8 | slots | slots | blocks, *b*: at most 2^26, of 512 quotients each | slots |
//! | 24 | 4 | bits per remainder | bits per remainder, *r* | bits per remainder: 1 to 55 | bits per remainder and per slot, *w* |
//! | 28 | 4 | bits per slot, *w* | bits per slot: *r* + *m*, plus one if boxes have ages | log₂ of the quotients per group: 0 to 9 | code bits per 64 slots, *c*: 8 to 120 |
//! | 32 | 4 | bits per value | bits per memento, *m*: at most 20, and fewer than the bits of a key | low bits of a seed that are stored verbatim: at most 20 | probability that a symbol is 0, or that a selector ends, in units of 2^-16: 2^15 to 2^16 - 1 |
//! | 40 | 8 | members, each counted as often as it was inserted | members | yes-list keys | members, which are also the used slots |
//! | 48 | 8 | used slots that are not the first of their entry | 4 bytes: bits per key, [`RangeKey::BITS`]; 4 bytes: highest age that a box may have, at most *r*, and 0 without ages | no-list keys | repairs that were forgotten |
//! | 56 | 8 | used slots | used slots | fingerprints | mistakes that were known when the filter was built, but had no room for a repair |
//! | 64 | 8 | repairs | repairs; 0 for a plain filter | the requested rate, a 64-bit floating-point number | repairs |
//! | 88 | 8 | load at which the filter doubles automatically, a 64-bit floating-point number, or 0 | | 4 bytes: the user's label | |
//!
//! **Quotient filters.** A table of s slots has ⌈(s + 4·⌊√s⌋ + 64) / L⌉ lines. Each line stores
//! L = ⌊504 / (3 + w)⌋ slots, at most 56. `src/table/block.rs` draws a line, `src/table/mod.rs`
//! explains its planes, and `src/quotient/entry.rs` how slots encode entries. Bits after the last
//! slot are 0.
//!
//! **Range filters** have the same lines, and up to three times as many: the tail grows where boxes
//! are long. `src/range/layout.rs` explains how slots encode boxes. The hash of a member is the hash
//! of its partition: the key without its last *m* bits, as 8 bytes, or as 16 bytes if keys have more
//! than 64 bits. Plain and adaptive range filters can open each other's snapshots.
//!
//! **Yes/no filters.** The table begins with *b* + 1 offsets of 4 bytes: the start of each block and
//! the end of the last one, in 8-byte words from the start of the first block. Then follow zeros up
//! to a whole word, the blocks, and zeros up to a whole line. `src/list/fixed/block.rs` explains a
//! block, and `src/list/fixed/lookup.rs` how remainders are computed from hashes.
//!
//! **Telescoping and extension filters** have a code of C bits instead of the extension plane. There
//! are L = ⌊64·504 / (64·(2 + w) + c)⌋ slots per line, at most 56, and C = 504 − L·(2 + w), at most
//! 120. `src/telescoping/coder.rs` and `scheme.rs` explain codes. A plain quotient filter has
//! neither codes nor repairs: *c*, the probability and the numbers of repairs are 0, its lines have
//! ⌊504 / (2 + w)⌋ slots, at most 56, and unused bits come before the slots. These snapshots can't be
//! read in place, because lookups rely on invariants of the table: they follow runs to their end, and
//! count the entries before a run to find its part of a code.
//!
//! **Adaptive Bloom filters and lists that can change** have several parts, which are packed into the
//! table one after another and followed by zeros up to a whole line. There is only one way to pack a
//! filter. Of the fields that depend on the kind, those that the table below doesn't list are 0.
//!
//! | byte | size | Bloom | lists |
//! | ---: | ---: | --- | --- |
//! | 0 | 8 | "\x89TWSHB\r\n" | "\x89TWSHM\r\n" |
//! | 16 | 8 | hashes in the last level | planned yes-list keys, at most 2^24 |
//! | 24 | 4 | levels, without the last one: 1 to 16 | |
//! | 40 | 8 | members | yes-list keys |
//! | 48 | 8 | upper bound on the number of ghosts | no-list keys |
//! | 56 | 8 | removed members whose space only a rebuild can free | repairs |
//! | 64 | 8 | repairs | the requested rate, a 64-bit floating-point number |
//! | 88 | 8 | planned repairs | planned no-list keys, at most 2^24 |
//! | table | | the snapshot of the quotient filter that holds the dead cells (`src/bloom/dead.rs`); for each level, one line and its bits (`src/bloom/level.rs`); the hashes of the last level, in order | the hashes of the yes-list keys, and then those of the no-list keys, both in order |
//!
//! The line of a level has the cells per function, the functions, the members that it has room for,
//! and the members that were written, in 8 bytes each, and then the two keys of its hash functions,
//! in 16 bytes each. The filter of a list is not saved. It is built when the lists are read.
//!
//! **Concurrent filters.** A header line, a secret section if there is one, the snapshots of all
//! shards in hash order, and a footer line. A shard stores hashes without their first log₂(shards)
//! bits: `hash << log₂(shards)`.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: "\x89TWSHC\r\n" for quotient filters, "\x89TWSHt\r\n" for telescoping filters, "\x89TWSHe\r\n" for extension filters, "\x89TWSHp\r\n" for plain quotient filters |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0 is set if a secret section follows the header |
//! | 16 | 4 | shards: a power of two, at most 4096 |
//! | 20 | 4 | hash scheme of every shard, as above |
//! | 24 | 8 | mark of the secret, as above |
//! | 32 | 4 | checksum of the secret section, or 0 |
//! | 60 | 4 | checksum of bytes 0 to 59 |
//! | 64 | 64 | secret section, if present, as above |
//! | 64 or 128 | | the shards' snapshots, without secret sections and without marks |
//! | *m* | 8 | size of the whole snapshot in bytes, *m* + 64 |
//! | *m* + 8 | 4 | checksum of the header checksums of all shards, in order: it proves that they were saved together |
//! | *m* + 60 | 4 | checksum of the 60 bytes before |
//!
//! The shards of a quotient filter have the same bits per value. Otherwise, shards may differ, also
//! in their remainders and the load at which they double.

mod describe;
mod error;
mod frozen;
mod kind;
mod kinds;
mod packed;
mod replace;
mod sections;
#[cfg(feature = "serde")]
pub(crate) mod serde;
mod shards;
mod stream;
mod verbs;

pub use crate::bits::map::MappedFile;
pub(crate) use describe::Describe;
pub use error::SnapshotError;
pub use frozen::Frozen;
pub(crate) use kind::Kind;
pub(crate) use sections::SecretRecord;
pub(crate) use shards::{ShardCopy, read_shards, write_shards};
pub(crate) use stream::{Input, Table};
pub use verbs::{KeyedSnapshot, SecretMode, Snapshot};

#[cfg(doc)]
use crate::range::RangeKey;
