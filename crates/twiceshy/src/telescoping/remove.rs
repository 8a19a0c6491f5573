//! Removals of members.

use super::scheme::{CodedScheme, Scheme};
use super::{CodedFilter, LocatedEntry};
use crate::bits::machine::{AnyShape, Machine, Operation};
use crate::error::RemoveError;
use crate::table::QuotientTable;
use crate::{Claim, Hash, Listing};

impl<S: Scheme> CodedFilter<S> {
    /// Removes one copy of a key that the caller *knows* to be a member. If it is not a member, a
    /// different member that shares its fingerprint may be lost.
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if the key is certainly not a member; [`RemoveError::Ambiguous`] if
    /// several entries of a [`TelescopingFilter`](super::TelescopingFilter) may belong to the key,
    /// and only [`remove`](Self::remove) can tell. The filter is unchanged in both cases.
    pub fn remove_trusting(&mut self, hash: Hash) -> Result<(), RemoveError> {
        let scaled = self.coding.digits.scale(hash);
        let mut covering = self.entries(scaled.quotient..=scaled.quotient);
        covering.retain(|entry| self.coding.covers(entry.spelt, scaled));
        // Take the entry with the longest extension: the shorter ones cover everything that it
        // covers.
        let entry = covering.iter().max_by_key(|entry| S::level(entry.spelt.symbol));
        let entry = *entry.ok_or(RemoveError::Absent)?;
        let is_any = covering.iter().any(|other| other.spelt != entry.spelt);
        if S::MEMBERS_TO_FORGET && is_any {
            return Err(RemoveError::Ambiguous);
        }
        self.remove_entry(entry);
        Ok(())
    }

    fn remove_entry(&mut self, entry: LocatedEntry) {
        let home = self.home(entry.quotient);
        let mut symbols = self.symbols(home);
        if entry.ordinal < symbols.len() {
            symbols.remove(entry.ordinal);
        }
        let code = self.encode(&symbols).expect("what is left takes no more room");
        self.take(entry);
        self.table.set_code(home, code);
    }

    /// Removes an entry from the table, without changing any code.
    pub(super) fn take(&mut self, entry: LocatedEntry) {
        let LocatedEntry { quotient, position, .. } = entry;
        self.table.target().run(Take { table: &mut self.table, quotient, position });
        self.tally.len -= 1;
        self.versions.bump(self.home(quotient).block() as u64);
    }
}

impl<S: CodedScheme> CodedFilter<S> {
    /// Removes one copy of the claim's query. `listing` must contain all members in
    /// [`claim.suspects()`](Claim::suspects), including the one to remove. Listed mistakes are
    /// ignored: the repairs of other entries stay as they are.
    ///
    /// # Errors
    /// If the query is not listed, if the claim is stale, or if the listed members are not those of
    /// the filter. The filter is unchanged in that case.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        let Listing { members, .. } = listing.into();
        let owned = self.owned(claim, &members)?;
        let ghosts = owned.iter().filter(|owned| owned.owner.is_none()).count() as u64;
        if ghosts > 0 {
            return Err(RemoveError::Unlisted { members: ghosts });
        }
        let owner = Some(self.coding.digits.scale(claim.query));
        let its = owned.iter().find(|owned| owned.owner == owner);
        self.remove_entry(its.ok_or(RemoveError::Absent)?.entry);
        Ok(())
    }
}

struct Take<'a> {
    table: &'a mut QuotientTable,
    quotient: u64,
    position: u64,
}

impl Operation for Take<'_> {
    type Argument = ();
    type Output = ();
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        self.table.take_entry(machine, self.quotient, self.position);
    }
}
