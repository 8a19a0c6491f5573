//! Assigns listed members to boxes, and computes new boxes for them.

use super::boxes::Spot;
use super::layout::{RangeBox, Spelling};
use crate::claim::Mismatch;
use crate::fingerprint::Digits;
use crate::hash::Scaled;

/// Members and their boxes.
pub(super) struct Account<'a> {
    /// The listed members, in order, each with its box.
    pub(super) members: Vec<(Spot, &'a RangeBox)>,
    /// Number of members in boxes that aren't listed.
    pub(super) unlisted: u64,
}

/// A partition with its members, and the number of digits that its fingerprint had and needs.
struct Partition {
    scaled: Scaled,
    had: u32,
    digits: u32,
    mementos: Vec<u64>,
}

impl<'a> Account<'a> {
    /// Finds a box for each member. `members` are sorted, and all that the boxes may contain.
    ///
    /// Boxes with longer fingerprints come first. Among members with the same memento any choice
    /// is correct, because every remaining box covers either all or none of them.
    pub(super) fn new(
        spelling: Spelling,
        boxes: &'a [RangeBox],
        members: &[Spot],
    ) -> Result<Self, Mismatch> {
        let scaled: Vec<Scaled> =
            members.iter().map(|spot| spelling.digits.scale(spot.partition)).collect();
        let mut owned: Vec<Option<&RangeBox>> = vec![None; members.len()];
        let mut unlisted = 0;
        let mut deepest_first: Vec<&RangeBox> = boxes.iter().collect();
        deepest_first.sort_by_key(|range_box| core::cmp::Reverse(range_box.fingerprint.bits()));
        for range_box in deepest_first {
            let free = (0..members.len())
                .filter(|&index| owned[index].is_none() && range_box.covers(scaled[index]));
            let mut free: Vec<(u64, usize)> =
                free.map(|index| (members[index].memento, index)).collect();
            free.sort_unstable();
            let mut free = free.into_iter().peekable();
            for &memento in &range_box.mementos {
                while free.next_if(|&(other, _)| other < memento).is_some() {}
                match free.next_if(|&(other, _)| other == memento) {
                    Some((_, index)) => owned[index] = Some(range_box),
                    None => unlisted += 1,
                }
            }
        }
        let with_box =
            |(&spot, range_box): (&Spot, Option<_>)| range_box.map(|owner| (spot, owner));
        let owned: Vec<_> = members.iter().zip(owned).filter_map(with_box).collect();
        match (members.len() - owned.len()) as u64 {
            0 => Ok(Self { members: owned, unlisted }),
            members => Err(Mismatch::Surplus { members }),
        }
    }

    /// Computes new boxes for all members. Each fingerprint has at least as many digits as `needed`
    /// returns for a member, its old box, and that box's number of digits, and enough that none is
    /// a prefix of another. Also returns the number of partitions whose fingerprints became longer.
    pub(super) fn settle<E>(
        &self,
        spelling: Spelling,
        needed: impl Fn(Spot, &RangeBox, u32) -> Result<u32, E>,
    ) -> Result<(Vec<RangeBox>, usize), E> {
        let digits = spelling.digits;
        let mut partitions: Vec<Partition> = Vec::new();
        for &(spot, range_box) in &self.members {
            let scaled = digits.scale(spot.partition);
            let had = spelling.digits_at(range_box.age).count(&range_box.fingerprint);
            let needed = needed(spot, range_box, had)?;
            match partitions.last_mut() {
                Some(last) if last.scaled == scaled => {
                    last.digits = last.digits.max(needed);
                    last.mementos.push(spot.memento);
                }
                _ => {
                    let mementos = vec![spot.memento];
                    partitions.push(Partition { scaled, had, digits: needed, mementos });
                }
            }
        }
        distinguish(digits, &mut partitions);
        let lengthened = partitions.iter().filter(|partition| partition.digits > partition.had);
        let lengthened = lengthened.count();
        let mut boxes: Vec<RangeBox> = Vec::new();
        for Partition { scaled, digits: count, mementos, .. } in partitions {
            let fingerprint = digits.fingerprint(scaled, count);
            match boxes.last_mut() {
                Some(last) if last.fingerprint == fingerprint => last.mementos.extend(mementos),
                _ => boxes.push(RangeBox { fingerprint, age: 0, mementos }),
            }
        }
        boxes.iter_mut().for_each(|range_box| range_box.mementos.sort_unstable());
        Ok((boxes, lengthened))
    }
}

/// Lengthens fingerprints until none is a prefix of another. A fingerprint covers only neighbours
/// in the sorted order, so one pass in each direction is enough.
fn distinguish(digits: Digits, partitions: &mut [Partition]) {
    let pairs = partitions.len().saturating_sub(1);
    for index in (0..pairs).chain((0..pairs).rev()) {
        let [one, other] = [&partitions[index], &partitions[index + 1]];
        let different = digits.to_tell_apart(one.scaled, other.scaled).expect("two partitions");
        let (shorter, longer) = (one.digits.min(other.digits), one.digits.max(other.digits));
        if shorter < different && shorter < longer {
            let at = if one.digits == shorter { index } else { index + 1 };
            partitions[at].digits = longer.min(different);
        }
    }
}
