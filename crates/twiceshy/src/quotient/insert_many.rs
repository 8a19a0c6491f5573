//! Batch inserts. If the filter is empty and the batch is large, the members are sorted first, and
//! then written in one pass.

use super::QuotientFilter;
use super::construct::EntryWriter;
use super::edit::Refused;
use super::entry::Entry;
use super::remove::{Leave, take_out};
use crate::Hash;
use crate::bits::machine::{AnyShape, dispatched};
use crate::error::{BuildError, InsertError};
use crate::fingerprint::Digits;
use crate::sorting::Numbers;
use crate::table::{Place, Widths};

/// Number of inserts between the prefetch of a cache line and its use.
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
        self.tally.len -= hashes.len() as u64;
        self.bump_all(hashes);
    }

    fn bump_all(&mut self, hashes: &[Hash]) {
        let digits = self.shared.digits;
        self.versions.bump_each(hashes.iter().map(|&hash| digits.scale(hash).quotient));
    }

    /// Inserts members, all or none, without growing the filter.
    fn insert_all(&mut self, hashes: &[Hash]) -> Result<Revived, Refused> {
        let many = self.usage.used == 0 && hashes.len() as u64 > self.shared.table.slots() / 16;
        let revived = match many.then(|| self.fill(hashes)).flatten() {
            Some(filled) => filled.map(|()| Revived::default())?,
            None => self.insert_in_turn(hashes)?,
        };
        self.bump_all(hashes);
        Ok(revived)
    }

    /// Inserts members into an empty filter, in hash order. Returns `None`, and changes nothing, if
    /// members can't be packed into 64-bit numbers, or if there is no memory to sort them.
    fn fill(&mut self, hashes: &[Hash]) -> Option<Result<(), Refused>> {
        Some(fill(self, hashes)?.map_err(|_| {
            self.editor().clear();
            (self.tally.len, self.tally.tombstones, self.tally.extra_slots) = (0, 0, 0);
            Refused::Full
        }))
    }

    /// Inserts members in the given order.
    fn insert_in_turn(&mut self, hashes: &[Hash]) -> Result<Revived, Refused> {
        let mut revived = Revived::default();
        match insert_each(self, hashes, &mut revived.0) {
            Ok(()) => {
                self.tally.len += hashes.len() as u64;
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
            let digits = self.shared.digits;
            let scaled = digits.scale(hash);
            let take = |entries: &mut Vec<_>| take_out(digits, entries, scaled, leave).ok_or(());
            let taken = self.edit(scaled, take);
            taken.expect("it was inserted");
        }
    }
}

/// Indices of the batch members that replaced a tombstone.
#[derive(Default)]
pub(crate) struct Revived(Vec<usize>);

dispatched! {
    /// Inserts members in the given order. Appends the indices of those that replaced a tombstone
    /// to `revived`. The error says how many members were inserted before one was refused.
    fn insert_each<'a>(
        filter: &'a mut QuotientFilter,
        hashes: &'a [Hash],
        revived: &'a mut Vec<usize>,
    ) -> Result<(), (usize, Refused)> => filter.shared.target(), Widths, |machine| {
        let mut begun = [(Place::default(), 0); AHEAD];
        for (begun, &hash) in begun.iter_mut().zip(hashes) {
            *begun = filter.shared.begin::<SHAPE>(hash);
        }
        for (index, &hash) in hashes.iter().enumerate() {
            let (home, remainder) = begun[index % AHEAD];
            if let Some(&later) = hashes.get(index + AHEAD) {
                begun[index % AHEAD] = filter.shared.begin::<SHAPE>(later);
                filter.shared.table.prefetch_across::<SHAPE>(begun[index % AHEAD].0);
            }
            match filter.insert_at_home::<M, SHAPE>(machine, || hash, home, remainder) {
                Ok(false) => {}
                Ok(true) => revived.push(index),
                Err(refused) => return Err((index, refused)),
            }
        }
        Ok(())
    }
}

dispatched! {
    fn fill<'a>(
        filter: &'a mut QuotientFilter,
        hashes: &'a [Hash],
    ) -> Option<Result<(), BuildError>> => filter.shared.table.target(), AnyShape, |_| {
        let digits = filter.shared.digits;
        let numbers = Numbers::new(digits, 0)?;
        let scattered = numbers.scatter(hashes, |&hash| (hash, 0))?;
        let mut writer = filter.writer();
        let (mut at_hand, mut times) = (0, 0);
        let written = scattered.in_order(|number| {
            if number != at_hand {
                write(&mut writer, digits, numbers.parts(at_hand), times)?;
                times = 0;
            }
            at_hand = number;
            times += 1;
            Ok(())
        });
        let written =
            written.and_then(|()| write(&mut writer, digits, numbers.parts(at_hand), times));
        Some(written.and_then(|()| writer.finish()))
    }
}

/// Writes the entry of a packed member that occurs `times` times.
#[inline(always)]
fn write(
    writer: &mut EntryWriter<'_>,
    digits: Digits,
    (quotient, remainder, _): (u64, u64, u64),
    times: u64,
) -> Result<(), BuildError> {
    match times {
        0 => Ok(()),
        1 => writer.write_single((quotient, remainder)),
        _ => writer.write(Entry::bare(digits, (quotient, remainder)).of(times)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_many_works_if_fingerprints_exceed_64_bits() {
        let mut filter = QuotientFilter::builder().remainder_bits(56).slots(3000).build().unwrap();
        let hash = |index: u128| Hash::from_u128(index.wrapping_mul(u128::MAX / 2000));
        let hashes: Vec<Hash> = (0..2000).map(hash).collect();
        filter.insert_many(&hashes).unwrap();
        assert!(filter.validate().is_ok() && hashes.iter().all(|&hash| filter.contains(hash)));
    }
}
