//! Assigns listed members to boxes, and computes new boxes for them.

use super::boxes::Spot;
use super::layout::{RangeBox, Spelling};
use crate::claim::Mismatch;
use crate::hash::Scaled;

/// The listed members, each with the box that contains it.
pub(super) struct Account<'a> {
    /// The listed members, in order, each with its box.
    pub(super) members: Vec<(Spot, &'a RangeBox)>,
    /// Number of members that the boxes contain but the listing doesn't.
    pub(super) unlisted: u64,
}

/// A partition with its members, and the old and new number of digits of its fingerprint.
struct Partition {
    scaled: Scaled,
    had: u32,
    digits: u32,
    mementos: Vec<u64>,
}

impl<'a> Account<'a> {
    /// Finds a box for each member. `members` must be sorted, and contain all listed members that
    /// the boxes may contain.
    ///
    /// Starts with the boxes that have the longest fingerprints. If several members have the
    /// memento that a box contains, any of them is correct, because every remaining box covers
    /// either all or none of them.
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
            let free = (0..members.len()).filter(|&index| {
                owned[index].is_none() && range_box.fingerprint.covers_scaled(scaled[index])
            });
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
        let owned = members.iter().zip(owned).filter_map(|(&spot, owner)| Some((spot, owner?)));
        let owned: Vec<_> = owned.collect();
        match (members.len() - owned.len()) as u64 {
            0 => Ok(Self { members: owned, unlisted }),
            members => Err(Mismatch::Surplus { members }),
        }
    }

    /// Computes new boxes for all members. No fingerprint is a prefix of another. Given a member,
    /// its old box and the number of digits of that box, `needed` returns the least number of
    /// digits of the new fingerprint. Also returns the number of partitions whose fingerprints
    /// became longer.
    pub(super) fn settle<E>(
        &self,
        spelling: Spelling,
        needed: impl Fn(Spot, &RangeBox, u32) -> Result<u32, E>,
    ) -> Result<(Vec<RangeBox>, usize), E> {
        let digits = spelling.digits;
        let had =
            |range_box: &RangeBox| spelling.digits_at(range_box.age).count(&range_box.fingerprint);
        let mut partitions: Vec<Partition> = Vec::new();
        for members in self.members.chunk_by(|(a, _), (b, _)| a.partition == b.partition) {
            let mut most = 0;
            for &(spot, range_box) in members {
                most = most.max(needed(spot, range_box, had(range_box))?);
            }
            let (first, range_box) = members[0];
            let scaled = digits.scale(first.partition);
            let mementos = members.iter().map(|(spot, _)| spot.memento).collect();
            partitions.push(Partition { scaled, had: had(range_box), digits: most, mementos });
        }
        digits.make_prefix_free(&mut partitions, |each| (each.scaled, &mut each.digits));
        let lengthened = partitions.iter().filter(|each| each.digits > each.had).count();
        let mut boxes: Vec<RangeBox> = Vec::new();
        for Partition { scaled, digits: count, mementos, .. } in partitions {
            let fingerprint = digits.fingerprint(scaled, count);
            match boxes.last_mut() {
                Some(last) if last.fingerprint == fingerprint => last.mementos.extend(mementos),
                _ => boxes.push(RangeBox { fingerprint, age: 0, mementos }),
            }
        }
        for range_box in &mut boxes {
            range_box.mementos.sort_unstable();
        }
        Ok((boxes, lengthened))
    }
}
