//! Removing members.

use super::scheme::Scheme;
use super::{CodedFilter, Entry};
use crate::bits::machine::{Machine, Operation};
use crate::error::RemoveError;
use crate::table::QuotientTable;
use crate::{Claim, Hash, Member};

impl<S: Scheme> CodedFilter<S> {
    /// Removes a key that is known to be a member, once. If it is none, another may be lost.
    ///
    /// # Errors
    /// If it is certainly no member; or if several entries of a
    /// [`TelescopingFilter`](super::TelescopingFilter) may be its, and members are needed to tell:
    /// see [`remove_listed`](Self::remove_listed). Nothing has changed then.
    pub fn remove(&mut self, hash: Hash) -> Result<(), RemoveError> {
        let scaled = self.scheme.digits().scale(hash);
        let mut covering = self.entries(scaled.quotient..=scaled.quotient);
        covering.retain(|entry| self.scheme.covers(entry.spelt, scaled));
        // The longest extension: the shorter ones cover whatever it covers.
        let entry = covering.iter().max_by_key(|entry| S::level(entry.spelt.symbol));
        let entry = *entry.ok_or(RemoveError::Absent)?;
        let is_any = covering.iter().any(|other| other.spelt != entry.spelt);
        if S::MEMBERS_TO_FORGET && is_any {
            return Err(RemoveError::Ambiguous);
        }
        self.remove_entry(entry);
        Ok(())
    }

    /// Removes the claim's query, once; `members` are all members in
    /// [`claim.suspects()`](Claim::suspects), in any order, each as often as it was inserted, and
    /// the query is one of them.
    ///
    /// # Errors
    /// If it is none of them, if the claim is stale, or if `members` are not those of the
    /// filter; nothing has changed then.
    pub fn remove_listed<L: Copy + Into<Member>>(
        &mut self,
        claim: &Claim,
        members: &[L],
    ) -> Result<(), RemoveError> {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        let owned = self.owned(claim, &members)?;
        let ghosts = owned.iter().filter(|owned| owned.owner.is_none()).count() as u64;
        if ghosts > 0 {
            return Err(RemoveError::Unlisted { members: ghosts });
        }
        let scaled = self.scheme.digits().scale(claim.query);
        let is_it = |member: &&Member| member.hash == claim.query && member.count > 0;
        members.iter().find(is_it).ok_or(RemoveError::Absent)?;
        let its = owned.iter().find(|owned| owned.owner == Some(scaled));
        self.remove_entry(its.ok_or(RemoveError::Absent)?.entry);
        Ok(())
    }

    fn remove_entry(&mut self, entry: Entry) {
        let home = self.home(entry.quotient);
        let mut symbols = self.symbols(home);
        if entry.ordinal < symbols.len() {
            symbols.remove(entry.ordinal);
        }
        let code = self.encode(&symbols).expect("what is left takes no more room");
        self.take(entry);
        self.table.set_code(home, code);
    }

    /// Takes an entry out of the table; codes are left alone.
    pub(super) fn take(&mut self, entry: Entry) {
        let Entry { quotient, position, .. } = entry;
        self.table.level().run(Take { table: &mut self.table, quotient, position });
        self.len -= 1;
        self.versions.bump(self.home(quotient).block() as u64);
    }
}

struct Take<'a> {
    table: &'a mut QuotientTable,
    quotient: u64,
    position: u64,
}

impl Operation for Take<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        self.table.take_entry(machine, self.quotient, self.position);
    }
}
