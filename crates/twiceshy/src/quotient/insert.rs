//! Inserting.

use super::{AdaptiveQuotientFilter, slots_of};
use crate::bits::machine::{Machine, Operation};
use crate::error::InsertError;
use crate::hash::Scaled;
use crate::table::{Slot, TableFull};
use crate::{Fingerprint, Hash};
use core::ops::Range;

impl AdaptiveQuotientFilter {
    /// Inserts a member. One that is inserted twice is a member twice, and takes two
    /// slots: overwriting a key in a store is no insert.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no slot for it; nothing has changed then.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let scaled = self.digits().scale(hash);
        let level = self.table.level();
        let inserted = level.run(Insert { filter: self, scaled });
        inserted.map_err(|TableFull| InsertError::Full { load: self.load() })?;
        self.len += 1;
        self.versions.bump(scaled.quotient);
        Ok(())
    }

    /// The fingerprint of a new member in a minirun that has extensions, and where in it
    /// its entry belongs.
    fn place_among(&self, scaled: Scaled, minirun: Range<u64>) -> (Fingerprint, u64) {
        let digits = self.digits();
        let neighbours = || {
            self.table
                .entries(minirun.clone())
                .map(|entry| (entry.start, self.fingerprint_at(scaled.quotient, entry)))
        };
        let count = neighbours()
            .map(|(_, neighbour)| {
                let shared = (neighbour.prefix() ^ scaled.fraction).leading_zeros();
                u32::min(digits.count(&neighbour), shared / digits.width + 1)
            })
            .max();
        let fingerprint = digits.fingerprint(scaled, count.unwrap_or(1));
        let behind = neighbours().find(|(_, neighbour)| *neighbour > fingerprint);
        (fingerprint, behind.map_or(minirun.end, |(start, _)| start))
    }
}

struct Insert<'a> {
    filter: &'a mut AdaptiveQuotientFilter,
    scaled: Scaled,
}

impl Operation for Insert<'_> {
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        let Self { filter, scaled } = self;
        let table = &filter.table;
        let remainder = scaled.leading(table.width());
        let home = table.home::<0>(scaled.quotient);
        let mut walk = table.walk(machine, home);
        // Behind all that are not larger, unless a neighbour in the minirun is extended.
        if table.is_occupied(scaled.quotient) {
            loop {
                let value = walk.remainder();
                if value > remainder {
                    break;
                }
                if value == remainder && table.is_extension(walk.position() + 1) {
                    return filter.insert_among(machine, scaled);
                }
                if !walk.advance() {
                    break;
                }
            }
        }
        let spot = walk.spot();
        filter.table.insert_remainder(machine, home, spot, remainder)
    }
}

impl AdaptiveQuotientFilter {
    /// Inserts a member into a minirun that has extensions.
    #[inline(always)]
    fn insert_among<M: Machine>(&mut self, machine: M, scaled: Scaled) -> Result<(), TableFull> {
        let minirun = self.minirun(machine, scaled);
        let (fingerprint, at) = self.place_among(scaled, minirun);
        let slots: Vec<Slot> = slots_of(self.digits(), fingerprint).collect();
        self.table.replace(machine, scaled.quotient, at..at, &slots)
    }
}
