//! Snapshots of filters that don't answer from one table: their parts are packed into one.

use super::SnapshotError;
use super::describe::{Assemble, Describe, Header};
use super::stream::{Input, Stream as _};
use crate::bits::memory::{LINE, Lines};
use crate::error::Invalid;
use crate::members::OrderedHashes;
use crate::{Hash, QuotientFilter};
use std::borrow::Cow;
use std::io::Write;

/// Returns lines with the `size` bytes that `write` writes, followed by zeros.
pub(super) fn lines(
    size: usize,
    write: impl FnOnce(&mut [u8]) -> Result<(), SnapshotError>,
) -> Result<Cow<'static, Lines>, SnapshotError> {
    let mut lines = zeroed(size.div_ceil(LINE))?;
    write(&mut lines.bytes_mut()[..size])?;
    Ok(Cow::Owned(lines))
}

fn zeroed(lines: usize) -> Result<Lines, SnapshotError> {
    let bytes = lines as u64 * LINE as u64;
    Lines::zeroed(lines).ok_or(SnapshotError::Memory { bytes })
}

/// Writes hashes as one of the parts.
pub(super) fn write_hashes(
    parts: &mut impl Write,
    hashes: &OrderedHashes,
) -> Result<(), SnapshotError> {
    let mut hashes = hashes.iter();
    Ok(hashes.try_for_each(|hash| parts.write_all(&hash.as_u128().to_le_bytes()))?)
}

/// Returns a function that unpacks a filter, and checks that it would be saved as the same bytes.
pub(super) fn assemble<F: Describe>(
    header: &Header,
    unpack: impl FnOnce(Parts<'_>) -> Result<F, SnapshotError> + 'static,
) -> Assemble<F> {
    let fields = header.fields;
    Box::new(move |lines, _| {
        let filter = unpack(Parts(lines.as_ref()))?;
        if filter.fields() == fields && filter.lines()?.bytes() == lines.bytes() {
            return Ok(filter);
        }
        Err(Invalid("the table is not what this filter is saved as".into()).into())
    })
}

/// Takes numbers from the front of the parts.
pub(super) struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If there are fewer.
    fn bytes(&mut self, count: u64) -> Result<&'a [u8], Invalid> {
        let count = usize::try_from(count).ok();
        let first = count.and_then(|count| self.0.split_off(..count));
        first.ok_or_else(|| Invalid("the table is too short for its parts".into()))
    }

    /// Takes the snapshot of a quotient filter.
    pub(super) fn filter(&mut self) -> Result<QuotientFilter, SnapshotError> {
        QuotientFilter::read(&mut Input::new(&mut self.0))
    }

    /// Takes lines.
    pub(super) fn lines(&mut self, count: u64) -> Result<Lines, SnapshotError> {
        let bytes = self.bytes(count.saturating_mul(LINE as u64))?;
        let mut lines = zeroed(bytes.len() / LINE)?;
        lines.bytes_mut().copy_from_slice(bytes);
        Ok(lines)
    }

    pub(super) fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], Invalid> {
        let mut numbers = [0; COUNT];
        for number in &mut numbers {
            *number = u64::from_le_bytes(self.bytes(8)?.try_into().expect("8 bytes"));
        }
        Ok(numbers)
    }

    pub(super) fn long_number(&mut self) -> Result<u128, Invalid> {
        Ok(u128::from_le_bytes(self.bytes(16)?.try_into().expect("16 bytes")))
    }

    /// Takes hashes, which must be in order and all different.
    pub(super) fn hashes(&mut self, count: u64) -> Result<OrderedHashes, Invalid> {
        let bytes = self.bytes(count.saturating_mul(16))?;
        let hash = |bytes: &[u8; 16]| Hash::from_u128(u128::from_le_bytes(*bytes));
        let hashes = bytes.as_chunks().0.iter().map(hash);
        if !hashes.clone().is_sorted_by(|a, b| a < b) {
            return Err(Invalid("hashes are out of order".into()));
        }
        Ok(hashes.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_fit_in_memory_are_an_error() {
        let bytes = usize::MAX / LINE / 2 * LINE;
        let error = lines(bytes, |_| Ok(())).map(drop).unwrap_err();
        assert!(matches!(error, SnapshotError::Memory { bytes: found } if found == bytes as u64));
    }
}
