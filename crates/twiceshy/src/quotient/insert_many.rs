//! Batch inserts.

use super::QuotientFilter;
use super::batch::Begun;
use super::edit::Refused;
use super::remove::{Leave, take_out};
use crate::Hash;
use crate::bits::machine::{Machine, Operation};
use crate::error::InsertError;
use crate::table::Widths;

/// Number of inserts ahead for which cache lines are prefetched.
const AHEAD: usize = 12;

impl QuotientFilter {
    /// Inserts many members, all or none. If the filter is larger than the cache, this is several
    /// times as fast as single inserts.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert). The filter is unchanged then: even if it [grows
    /// automatically](crate::builder::Builder::grow_at), it keeps its size.
    pub fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        self.insert_batch(hashes).map(drop)
    }

    /// Inserts many members, like [`insert_many`](Self::insert_many). Returns what
    /// [`undo_batch`](Self::undo_batch) needs to undo this.
    pub(crate) fn insert_batch(&mut self, hashes: &[Hash]) -> Result<Revived, InsertError> {
        let inserted = self.with_room(hashes.len() as u64, |filter| filter.insert_all(hashes));
        inserted.map_err(|refused| self.insert_error(refused))
    }

    /// Removes a batch that was just inserted. A filter that has grown keeps its larger size.
    pub(crate) fn undo_batch(&mut self, hashes: &[Hash], revived: Revived) {
        self.take_back(hashes, revived);
        self.len -= hashes.len() as u64;
        self.bump_all(hashes);
    }

    fn bump_all(&mut self, hashes: &[Hash]) {
        let digits = self.digits;
        self.versions.bump_each(hashes.iter().map(|&hash| digits.scale(hash).quotient));
    }

    /// Inserts members, all or none, without growing the filter.
    fn insert_all(&mut self, hashes: &[Hash]) -> Result<Revived, Refused> {
        let many = self.table.used() == 0 && hashes.len() as u64 > self.table.slots() / 16;
        let revived = match many.then(|| self.fill(hashes)).flatten() {
            Some(filled) => filled.map(|()| Revived::default())?,
            None => self.insert_in_turn(hashes)?,
        };
        self.bump_all(hashes);
        Ok(revived)
    }

    /// Inserts members in the given order.
    fn insert_in_turn(&mut self, hashes: &[Hash]) -> Result<Revived, Refused> {
        let target = self.target();
        let mut revived = Revived::default();
        let turn = InsertInTurn { filter: self, hashes, revived: &mut revived.0 };
        match target.run(turn) {
            Ok(()) => {
                self.len += hashes.len() as u64;
                Ok(revived)
            }
            Err((inserted, refused)) => {
                self.take_back(&hashes[..inserted], revived);
                Err(refused)
            }
        }
    }

    /// Takes out members that were just inserted. Doesn't update the number of members.
    fn take_back(&mut self, hashes: &[Hash], Revived(mut revived): Revived) {
        for (index, &hash) in hashes.iter().enumerate().rev() {
            let leave = match revived.pop_if(|revived| *revived == index) {
                Some(_) => Leave::Tombstone,
                None => Leave::Nothing,
            };
            // Members that share a fingerprint are the same to the filter, so it doesn't matter
            // which one is taken out.
            let scaled = self.digits.scale(hash);
            let taken = self.edit(scaled, |entries| take_out(entries, scaled, leave).ok_or(()));
            taken.expect("it was inserted");
        }
    }
}

/// Indices of the batch members that replaced a tombstone.
#[derive(Default)]
pub(crate) struct Revived(Vec<usize>);

struct InsertInTurn<'a> {
    filter: &'a mut QuotientFilter,
    hashes: &'a [Hash],
    /// Indices of the hashes that replaced a tombstone.
    revived: &'a mut Vec<usize>,
}

impl Operation for InsertInTurn<'_> {
    type Argument = ();
    /// The error says how many members were inserted before one was refused.
    type Output = Result<(), (usize, Refused)>;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        let Self { filter, hashes, revived } = self;
        let mut begun = [Begun::default(); AHEAD];
        for (begun, &hash) in begun.iter_mut().zip(hashes) {
            *begun = filter.begin::<SHAPE>(hash);
        }
        for (index, &hash) in hashes.iter().enumerate() {
            let Begun { place, remainder } = begun[index % AHEAD];
            if let Some(&later) = hashes.get(index + AHEAD) {
                begun[index % AHEAD] = filter.begin::<SHAPE>(later);
                filter.table.prefetch_across::<SHAPE>(begun[index % AHEAD].place);
            }
            match filter.insert_begun::<M, SHAPE>(machine, || hash, place, remainder) {
                Ok(false) => {}
                Ok(true) => revived.push(index),
                Err(refused) => return Err((index, refused)),
            }
        }
        Ok(())
    }
}
