//! Reads pairs from lines.

use super::open::Store;
use crate::input::{Block, Lines};
use anyhow::{Context as _, Error, Result, anyhow};

/// How a line becomes a pair.
pub(super) enum Form {
    /// The key, this separator, and the value.
    Separated(Vec<u8>),
    /// The whole line is the key, and the value is empty.
    KeyOnly,
}

pub(super) type Pair = (Vec<u8>, Vec<u8>);

impl Form {
    fn split<'a>(&self, line: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        match self {
            Self::KeyOnly => Some((line, &[])),
            Self::Separated(separator) => {
                let at = memchr::memmem::find(line, separator)?;
                Some((&line[..at], &line[at + separator.len()..]))
            }
        }
    }

    /// Returns the pairs of a block, with an error for each line that a store cannot take.
    fn pairs(&self, block: &Block, name: &str) -> impl Iterator<Item = Result<Pair>> {
        block.numbered().map(move |(number, line)| {
            let (key, value) = self.split(line).ok_or_else(|| {
                anyhow!("{name}: line {number} has no separator; see --separator")
            })?;
            Store::check_pair(key, value).with_context(|| format!("{name}: line {number}"))?;
            Ok((key.into(), value.into()))
        })
    }

    /// Checks that all lines are pairs that a store can take.
    pub(super) fn check(&self, mut lines: Lines) -> Result<()> {
        while let Some(block) = lines.next_block()? {
            self.pairs(&block, lines.name()).try_for_each(|pair| pair.map(drop))?;
        }
        Ok(())
    }
}

/// The pairs of a source, up to the first bad line.
pub(super) struct Pairs<'a> {
    lines: Lines,
    form: &'a Form,
    block: std::vec::IntoIter<Pair>,
    /// The error of the bad line.
    pub(super) error: Option<Error>,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(lines: Lines, form: &'a Form) -> Self {
        Self { lines, form, block: Vec::new().into_iter(), error: None }
    }

    /// Returns the pairs of the next block, up to the first error.
    fn next_pairs(&mut self) -> Result<Option<Vec<Pair>>> {
        let Some(block) = self.lines.next_block()? else { return Ok(None) };
        let pairs = self.form.pairs(&block, self.lines.name());
        Ok(Some(
            pairs.map_while(|pair| pair.map_err(|error| self.error = Some(error)).ok()).collect(),
        ))
    }
}

impl Iterator for Pairs<'_> {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        loop {
            if let Some(pair) = self.block.next() {
                return Some(pair);
            }
            if self.error.is_some() {
                return None;
            }
            match self.next_pairs() {
                Ok(pairs) => self.block = pairs?.into_iter(),
                Err(error) => self.error = Some(error),
            }
        }
    }
}
