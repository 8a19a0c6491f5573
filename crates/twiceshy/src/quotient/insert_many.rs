//! Many inserts at once.

use super::AdaptiveQuotientFilter;
use super::batch::Begun;
use super::insert::{Inserting, Refused};
use super::remove::Leave;
use crate::Hash;
use crate::bits::machine::{Machine, Operation};
use crate::error::InsertError;
use crate::table::with_width;

/// How many inserts ahead a line is asked for.
const AHEAD: usize = 12;

impl AdaptiveQuotientFilter {
    /// Inserts many members, all or none. Several times as fast as one by one where the
    /// filter is larger than the cache.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); nothing has changed then, not even the size of a filter
    /// that [grows by itself](super::Builder::grow_at).
    pub fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        let inserted = self.with_room(hashes.len() as u64, |filter| filter.insert_all(hashes));
        inserted.map_err(|refused| self.insert_error(refused))
    }

    /// Inserts members into this filter as it is, all or none.
    fn insert_all(&mut self, hashes: &[Hash]) -> Result<(), Refused> {
        let many = self.table.used() == 0 && hashes.len() as u64 > self.table.slots() / 16;
        let filled = many.then(|| self.fill(hashes)).flatten();
        filled.unwrap_or_else(|| self.insert_in_turn(hashes))?;
        let digits = self.digits;
        self.versions.bump_each(hashes.iter().map(|&hash| digits.scale(hash).quotient));
        Ok(())
    }

    /// Inserts members in the order in which they are given.
    fn insert_in_turn(&mut self, hashes: &[Hash]) -> Result<(), Refused> {
        let level = self.table.level();
        let mut revived = Vec::new();
        let turn = InsertInTurn { filter: self, hashes, revived: &mut revived };
        let Err((inserted, refused)) = level.run(turn) else {
            self.len += hashes.len() as u64;
            return Ok(());
        };
        for (index, &hash) in hashes[..inserted].iter().enumerate().rev() {
            let leave = match revived.pop_if(|revived| *revived == index) {
                Some(_) => Leave::Tombstone,
                None => Leave::Nothing,
            };
            // No member is told from another that has its fingerprint, so it doesn't matter
            // which one goes.
            let taken_out = self.take_out(self.digits.scale(hash), leave);
            assert_eq!(taken_out, Ok(true), "it was inserted");
        }
        Err(refused)
    }
}

struct InsertInTurn<'a> {
    filter: &'a mut AdaptiveQuotientFilter,
    hashes: &'a [Hash],
    /// Which of them took the place of a tombstone.
    revived: &'a mut Vec<usize>,
}

impl Operation for InsertInTurn<'_> {
    /// Or how many were inserted before one was refused.
    type Output = Result<(), (usize, Refused)>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        with_width!(self.filter.digits.constant(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl InsertInTurn<'_> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> Result<(), (usize, Refused)> {
        let Self { filter, hashes, revived } = self;
        let mut begun = [Begun::default(); AHEAD];
        for (begun, &hash) in begun.iter_mut().zip(hashes) {
            *begun = filter.begin::<WIDTH>(hash);
        }
        for (index, &hash) in hashes.iter().enumerate() {
            let Begun { place, remainder } = begun[index % AHEAD];
            if let Some(&later) = hashes.get(index + AHEAD) {
                begun[index % AHEAD] = filter.begin::<WIDTH>(later);
                filter.table.prefetch_across::<WIDTH>(begun[index % AHEAD].place);
            }
            match filter.insert_begun::<M, WIDTH>(machine, || hash, place, remainder) {
                Ok(Inserting::Usual) => {}
                Ok(Inserting::Revived) => revived.push(index),
                Err(refused) => return Err((index, refused)),
            }
        }
        Ok(())
    }
}
