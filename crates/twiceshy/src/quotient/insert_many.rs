//! Many inserts at once.

use super::AdaptiveQuotientFilter;
use super::insert::Insert;
use crate::Hash;
use crate::bits::machine::{Machine, Operation, Routine};
use crate::error::InsertError;
use crate::table::{TableFull, with_width};

/// How many inserts ahead a line is asked for.
const AHEAD: usize = 12;

impl AdaptiveQuotientFilter {
    /// Inserts many members, all or none. Several times as fast as one by one where the
    /// filter is larger than the cache.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there are not enough slots; nothing has changed then.
    pub fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        let room = self.table.slots() - self.table.used();
        let inserted = if hashes.len() as u64 > room {
            Err(0)
        } else {
            let level = self.table.level();
            level.run(InsertMany { filter: self, hashes })
        };
        inserted.map_err(|_count| InsertError::Full { load: self.load() })
    }
}

struct InsertMany<'a> {
    filter: &'a mut AdaptiveQuotientFilter,
    hashes: &'a [Hash],
}

impl Operation for InsertMany<'_> {
    type Output = Result<(), usize>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        with_width!(self.filter.table.width(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl InsertMany<'_> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> Result<(), usize> {
        let Self { filter, hashes } = self;
        for (index, &hash) in hashes.iter().enumerate() {
            if let Some(&next) = hashes.get(index + AHEAD) {
                let quotient = filter.digits().scale(next).quotient;
                filter.table.prefetch(filter.table.home::<WIDTH>(quotient));
            }
            if let Err(TableFull) = Insert::run::<M, WIDTH>(machine, filter, hash) {
                return Err(index);
            }
        }
        Ok(())
    }
}
