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
    /// [`InsertError::Full`] if there are not enough slots; nothing has changed then.
    pub fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        self.insert_each(hashes, |&hash| hash)
    }

    /// As [`insert_many`](Self::insert_many), of keys whose hashes are made when they are
    /// needed: more than once.
    #[inline(always)]
    pub(crate) fn insert_each<K>(
        &mut self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash + Copy,
    ) -> Result<(), InsertError> {
        loop {
            let many = self.table.used() == 0 && keys.len() as u64 > self.table.slots() / 16;
            let filled = many.then(|| self.fill(keys, hash)).flatten();
            match filled.unwrap_or_else(|| self.insert_in_turn(keys, hash)) {
                Ok(()) => break,
                Err(Refused::Full) if self.grow(keys.len() as u64) => {}
                Err(refused) => return Err(self.insert_error(refused)),
            }
        }
        let digits = self.digits;
        self.versions.bump_each(keys.iter().map(|key| digits.scale(hash(key)).quotient));
        Ok(())
    }

    /// Inserts members in the order in which they are given.
    fn insert_in_turn<K>(
        &mut self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash + Copy,
    ) -> Result<(), Refused> {
        let level = self.table.level();
        let mut revived = Vec::new();
        let turn = InsertInTurn { filter: self, keys, hash, revived: &mut revived };
        let Err((inserted, refused)) = level.run(turn) else {
            self.len += keys.len() as u64;
            return Ok(());
        };
        for (index, key) in keys[..inserted].iter().enumerate().rev() {
            let leave = match revived.pop_if(|revived| *revived == index) {
                Some(_) => Leave::Tombstone,
                None => Leave::Nothing,
            };
            // No member is told from another that has its fingerprint, so it doesn't matter
            // which one goes.
            self.take_out(self.digits.scale(hash(key)), leave).expect("it was inserted");
        }
        Err(refused)
    }
}

struct InsertInTurn<'a, K, H> {
    filter: &'a mut AdaptiveQuotientFilter,
    keys: &'a [K],
    hash: H,
    /// Which of them took the place of a tombstone.
    revived: &'a mut Vec<usize>,
}

impl<K, H: Fn(&K) -> Hash> Operation for InsertInTurn<'_, K, H> {
    /// Or how many were inserted before one was refused.
    type Output = Result<(), (usize, Refused)>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        with_width!(self.filter.digits.constant(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl<K, H: Fn(&K) -> Hash> InsertInTurn<'_, K, H> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> Result<(), (usize, Refused)> {
        let Self { filter, keys, hash, revived } = self;
        let mut begun = [Begun::default(); AHEAD];
        for (begun, key) in begun.iter_mut().zip(keys) {
            *begun = filter.begin::<WIDTH>(hash(key));
        }
        for (index, key) in keys.iter().enumerate() {
            let Begun { place, remainder } = begun[index % AHEAD];
            if let Some(later) = keys.get(index + AHEAD) {
                begun[index % AHEAD] = filter.begin::<WIDTH>(hash(later));
                filter.table.prefetch_across::<WIDTH>(begun[index % AHEAD].place);
            }
            match filter.insert_begun::<M, WIDTH>(machine, || hash(key), place, remainder) {
                Ok(Inserting::Usual) => {}
                Ok(Inserting::Revived) => revived.push(index),
                Err(refused) => return Err((index, refused)),
            }
        }
        Ok(())
    }
}
