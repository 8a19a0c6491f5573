//! Many inserts at once.

use super::AdaptiveQuotientFilter;
use super::batch::Begun;
use crate::Hash;
use crate::bits::machine::{Machine, Operation};
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
            Err(TableFull)
        } else {
            let many = self.is_empty() && hashes.len() as u64 > self.table.slots() / 16;
            let filled = many.then(|| self.fill(hashes)).flatten();
            filled.unwrap_or_else(|| self.insert_each(hashes))
        };
        inserted.map_err(|TableFull| InsertError::Full { load: self.load() })
    }

    /// Inserts members in the order in which they are given.
    fn insert_each(&mut self, hashes: &[Hash]) -> Result<(), TableFull> {
        let level = self.table.level();
        let inserted = level.run(InsertEach { filter: self, hashes });
        if inserted < hashes.len() {
            for &hash in hashes[..inserted].iter().rev() {
                self.take_out(hash);
            }
            return Err(TableFull);
        }
        self.count(hashes);
        Ok(())
    }

    /// Takes note of new members.
    pub(super) fn count(&mut self, hashes: &[Hash]) {
        let digits = self.digits();
        self.len += hashes.len() as u64;
        self.versions.bump_each(hashes.iter().map(|&hash| digits.scale(hash).quotient));
    }

    /// Undoes the insert of a member that isn't counted yet. In a minirun, all fingerprints that cover it are the
    /// same, so it doesn't matter which one goes.
    #[cold]
    fn take_out(&mut self, hash: Hash) {
        let scaled = self.digits().scale(hash);
        let entry = self
            .table
            .entries(self.find_minirun(scaled))
            .find(|entry| self.fingerprint_at(scaled.quotient, entry.clone()).covers(hash))
            .expect("it was inserted");
        self.rewrite(scaled.quotient, entry, &[]).expect("nothing needs room");
    }
}

struct InsertEach<'a> {
    filter: &'a mut AdaptiveQuotientFilter,
    hashes: &'a [Hash],
}

impl Operation for InsertEach<'_> {
    /// How many were inserted before the table was full.
    type Output = usize;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        with_width!(self.filter.table.width(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl InsertEach<'_> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> usize {
        let Self { filter, hashes } = self;
        let mut begun = [Begun::default(); AHEAD];
        for (begun, &hash) in begun.iter_mut().zip(hashes) {
            *begun = filter.begin::<WIDTH>(hash);
        }
        for (index, &hash) in hashes.iter().enumerate() {
            let Begun { place, remainder } = begun[index % AHEAD];
            if let Some(&hash) = hashes.get(index + AHEAD) {
                begun[index % AHEAD] = filter.begin::<WIDTH>(hash);
                filter.table.prefetch_across::<WIDTH>(begun[index % AHEAD].place);
            }
            if filter.insert_begun::<M, WIDTH>(machine, hash, place, remainder).is_err() {
                return index;
            }
        }
        hashes.len()
    }
}
