//! How much is written at once.

use crate::error::Result;
use std::mem;

/// So many pairs, or fewer if they have so many bytes.
pub(crate) struct Chunk {
    pub(crate) pairs: usize,
    pub(crate) bytes: usize,
}

/// What one batch has.
pub(crate) const WRITTEN: Chunk = Chunk { pairs: 1 << 10, bytes: 4 << 20 };

impl Chunk {
    /// Does something with all pairs, chunk by chunk; `bytes` says how long each is.
    pub(crate) fn of<T>(
        &self,
        pairs: impl IntoIterator<Item = T>,
        bytes: impl Fn(&T) -> usize,
        mut work: impl FnMut(Vec<T>) -> Result<()>,
    ) -> Result<()> {
        let (mut chunk, mut sum) = (Vec::new(), 0);
        for pair in pairs {
            sum += bytes(&pair);
            chunk.push(pair);
            if chunk.len() >= self.pairs || sum >= self.bytes {
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
    fn chunks_have_so_many_pairs_or_so_many_bytes() {
        let chunks = |lengths: &[usize]| {
            let mut chunks = Vec::new();
            let note = |chunk: Vec<&usize>| {
                chunks.push(chunk.len());
                Ok(())
            };
            Chunk { pairs: 3, bytes: 10 }.of(lengths, |&&length| length, note).unwrap();
            chunks
        };
        assert_eq!(chunks(&[]), []);
        assert_eq!(chunks(&[1, 1, 1, 1]), [3, 1]);
        assert_eq!(chunks(&[4, 6, 1, 20, 1]), [2, 2, 1]);
    }
}
