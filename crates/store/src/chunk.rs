//! Cutting long inputs into chunks.

use crate::error::Result;
use std::mem;

/// The largest size of a chunk: a number of items, or a number of bytes, whichever is reached first.
pub(crate) struct Chunk {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}

/// The size of one batch.
pub(crate) const BATCH: Chunk = Chunk { items: 1 << 10, bytes: 4 << 20 };

impl Chunk {
    /// Calls `work` with all items, chunk by chunk. `bytes` returns the length of an item.
    pub(crate) fn for_each<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        bytes: impl Fn(&T) -> usize,
        mut work: impl FnMut(Vec<T>) -> Result<()>,
    ) -> Result<()> {
        let (mut chunk, mut sum) = (Vec::new(), 0);
        for item in items {
            sum += bytes(&item);
            chunk.push(item);
            if chunk.len() >= self.items || sum >= self.bytes {
                work(mem::take(&mut chunk))?;
                sum = 0;
            }
        }
        if chunk.is_empty() { Ok(()) } else { work(chunk) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_limited_in_items_and_bytes() {
        let chunks = |lengths: &[usize]| {
            let mut chunks = Vec::new();
            let note = |chunk: Vec<&usize>| {
                chunks.push(chunk.len());
                Ok(())
            };
            Chunk { items: 3, bytes: 10 }.for_each(lengths, |&&length| length, note).unwrap();
            chunks
        };
        assert_eq!(chunks(&[]), []);
        assert_eq!(chunks(&[1, 1, 1, 1]), [3, 1]);
        assert_eq!(chunks(&[4, 6, 1, 20, 1]), [2, 2, 1]);
    }
}
