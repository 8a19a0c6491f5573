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
        let room = self.table.slots() - self.table.used();
        let inserted = if keys.len() as u64 > room {
            Err(TableFull)
        } else {
            let many = self.is_empty() && keys.len() as u64 > self.table.slots() / 16;
            let filled = many.then(|| self.fill(keys, hash)).flatten();
            filled.unwrap_or_else(|| self.insert_in_turn(keys, hash))
        };
        inserted.map_err(|TableFull| InsertError::Full { load: self.load() })?;
        let digits = self.digits();
        self.len += keys.len() as u64;
        self.versions.bump_each(keys.iter().map(|key| digits.scale(hash(key)).quotient));
        Ok(())
    }

    /// Inserts members in the order in which they are given, and doesn't count them.
    fn insert_in_turn<K>(
        &mut self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash + Copy,
    ) -> Result<(), TableFull> {
        let level = self.table.level();
        let inserted = level.run(InsertInTurn { filter: self, keys, hash });
        if inserted < keys.len() {
            for key in keys[..inserted].iter().rev() {
                self.take_out(hash(key));
            }
            return Err(TableFull);
        }
        Ok(())
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

struct InsertInTurn<'a, K, H> {
    filter: &'a mut AdaptiveQuotientFilter,
    keys: &'a [K],
    hash: H,
}

impl<K, H: Fn(&K) -> Hash> Operation for InsertInTurn<'_, K, H> {
    /// How many were inserted before the table was full.
    type Output = usize;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        with_width!(self.filter.table.width(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl<K, H: Fn(&K) -> Hash> InsertInTurn<'_, K, H> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> usize {
        let Self { filter, keys, hash } = self;
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
            let inserted = filter.insert_begun::<M, WIDTH>(machine, || hash(key), place, remainder);
            if inserted.is_err() {
                return index;
            }
        }
        keys.len()
    }
}
