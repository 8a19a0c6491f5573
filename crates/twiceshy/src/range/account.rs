//! Which members are in which boxes, and which boxes they are to have.

use super::boxes::Spot;
use super::keepsake::{Keepsake, Spelling};
use crate::error::AdaptError;
use crate::fingerprint::Digits;
use crate::hash::Scaled;

/// The boxes of a shelf, and all their members.
pub(super) struct Account<'a> {
    /// In order.
    members: &'a [Spot],
    /// The box of each of them.
    boxes: Vec<&'a Keepsake>,
    /// Members that boxes have, but that aren't listed.
    pub(super) unlisted: u64,
}

/// A partition that has members, and how many digits its fingerprint is to have.
struct Tenant {
    scaled: Scaled,
    digits: u32,
    mementos: Vec<u64>,
}

impl<'a> Account<'a> {
    /// Finds a box for each member; these are in order, and all that the boxes may have.
    ///
    /// The deepest boxes come first: nobody else has what they have. Of members with the same
    /// memento any will do, because all boxes that are left cover each of them, or none.
    pub(super) fn new(
        spelling: Spelling,
        boxes: &'a [Keepsake],
        members: &'a [Spot],
    ) -> Result<Self, AdaptError> {
        let scaled: Vec<Scaled> =
            members.iter().map(|spot| spelling.digits.scale(spot.partition)).collect();
        let mut owned: Vec<Option<&Keepsake>> = vec![None; members.len()];
        let mut unlisted = 0;
        let mut deepest_first: Vec<&Keepsake> = boxes.iter().collect();
        deepest_first.sort_by_key(|keepsake| core::cmp::Reverse(keepsake.fingerprint.bits()));
        for keepsake in deepest_first {
            let free = (0..members.len())
                .filter(|&index| owned[index].is_none() && keepsake.covers(scaled[index]));
            let mut free: Vec<(u64, usize)> =
                free.map(|index| (members[index].memento, index)).collect();
            free.sort_unstable();
            let mut free = free.into_iter().peekable();
            for &memento in &keepsake.mementos {
                while free.next_if(|&(other, _)| other < memento).is_some() {}
                match free.next_if(|&(other, _)| other == memento) {
                    Some((_, index)) => owned[index] = Some(keepsake),
                    None => unlisted += 1,
                }
            }
        }
        let surplus = owned.iter().filter(|keepsake| keepsake.is_none()).count() as u64;
        if surplus > 0 {
            return Err(AdaptError::Surplus { members: surplus });
        }
        Ok(Self { members, boxes: owned.into_iter().flatten().collect(), unlisted })
    }

    /// New boxes for all members, spelt anew: each fingerprint has as many digits as `needed` says
    /// of a member, its old box, and the digits of that, or more; and how many partitions have
    /// more than before.
    pub(super) fn settle(
        &self,
        spelling: Spelling,
        needed: impl Fn(&Spot, &Keepsake, u32) -> Result<u32, AdaptError>,
    ) -> Result<(Vec<Keepsake>, usize), AdaptError> {
        let mut counts = Vec::new();
        let mut before = Vec::new();
        for (spot, keepsake) in self.members.iter().zip(&self.boxes) {
            let had = spelling.digits_at(keepsake.age).count(&keepsake.fingerprint);
            counts.push(needed(spot, keepsake, had)?);
            before.push(had);
        }
        let tenants = tenants(spelling.digits, self.members, &counts);
        let firsts = self.members.chunk_by(|one, next| one.partition == next.partition);
        let had = firsts.scan(0, |at, chunk| {
            let had = before[*at];
            *at += chunk.len();
            Some(had)
        });
        let longer = tenants.iter().zip(had).filter(|(tenant, had)| tenant.digits > *had).count();
        Ok((boxes(spelling.digits, tenants), longer))
    }
}

/// Boxes for members, which are in order, whose fingerprints have so many digits each, or more.
pub(super) fn settle(spelling: Spelling, members: &[Spot], digits: &[u32]) -> Vec<Keepsake> {
    boxes(spelling.digits, tenants(spelling.digits, members, digits))
}

/// The partitions of members, with as many digits as each of these needs, and as it takes for no
/// fingerprint to be a prefix of another.
fn tenants(digits: Digits, members: &[Spot], needed: &[u32]) -> Vec<Tenant> {
    let mut tenants: Vec<Tenant> = Vec::new();
    for (spot, &needed) in members.iter().zip(needed) {
        let scaled = digits.scale(spot.partition);
        match tenants.last_mut() {
            Some(last) if last.scaled == scaled => {
                last.digits = last.digits.max(needed);
                last.mementos.push(spot.memento);
            }
            _ => tenants.push(Tenant { scaled, digits: needed, mementos: vec![spot.memento] }),
        }
    }
    tell_apart(digits, &mut tenants);
    tenants
}

/// The boxes of partitions: one for all that share a fingerprint.
fn boxes(digits: Digits, tenants: Vec<Tenant>) -> Vec<Keepsake> {
    let mut boxes: Vec<Keepsake> = Vec::new();
    for Tenant { scaled, digits: count, mementos } in tenants {
        let fingerprint = digits.fingerprint(scaled, count);
        match boxes.last_mut() {
            Some(last) if last.fingerprint == fingerprint => last.mementos.extend(mementos),
            _ => boxes.push(Keepsake { fingerprint, age: 0, mementos }),
        }
    }
    for keepsake in &mut boxes {
        keepsake.mementos.sort_unstable();
    }
    boxes
}

/// Lengthens fingerprints until none is a prefix of another. Whom one covers are its neighbours,
/// in order; so what a lengthened one does to the others is known after one pass each way.
fn tell_apart(digits: Digits, tenants: &mut [Tenant]) {
    let pairs = tenants.len().saturating_sub(1);
    for index in (0..pairs).chain((0..pairs).rev()) {
        let [one, other] = [&tenants[index], &tenants[index + 1]];
        let different = digits.to_tell_apart(one.scaled, other.scaled).expect("two partitions");
        let (shorter, longer) = (one.digits.min(other.digits), one.digits.max(other.digits));
        if shorter < different && shorter < longer {
            let at = if one.digits == shorter { index } else { index + 1 };
            tenants[at].digits = longer.min(different);
        }
    }
}
