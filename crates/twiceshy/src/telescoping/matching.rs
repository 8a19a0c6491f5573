//! Matches the members of a run with its entries.
//!
//! An entry may cover several members, and several entries may cover a member. So taking the first
//! entry that covers a member may leave no entry for another one. If the members are those of the
//! run, there is a perfect matching, and augmenting paths find it.
//!
//! Equal members and equal entries are matched together, because there may be many copies of one
//! hash.

/// The owners of the entries of one kind: members, and how many entries each of them has.
pub(super) type Shares = Vec<(usize, usize)>;

/// Finds a maximum matching in which each entry is used at most once, as `covers(member, entry)`
/// allows. There are `members[m]` copies of member `m`, and `entries[e]` entries of kind `e`.
/// Returns the owners of each kind of entries.
pub(super) fn matched(
    members: &[usize],
    entries: &[usize],
    covers: impl Fn(usize, usize) -> bool,
) -> Vec<Shares> {
    let shares = vec![Shares::new(); entries.len()];
    let mut matching = Matching { free: entries.to_vec(), shares, covers };
    for (member, &copies) in members.iter().enumerate() {
        let mut left = copies;
        while left > 0 {
            match matching.augment(member, left, &mut vec![false; entries.len()]) {
                0 => break,
                found => left -= found,
            }
        }
    }
    matching.shares
}

struct Matching<C> {
    /// Number of entries of each kind without an owner.
    free: Vec<usize>,
    shares: Vec<Shares>,
    covers: C,
}

impl<C: Fn(usize, usize) -> bool> Matching<C> {
    /// Finds entries for at most this many copies of a member, if necessary by moving other members
    /// to entries that aren't `tried` yet. Returns the number of copies.
    ///
    /// It calls itself at most once per kind on a path. Adjacent kinds of a path cover the same
    /// member at different levels, so at least every other one has a symbol that isn't 0. A code has
    /// no room for more than one of these per bit, so the recursion isn't deep.
    fn augment(&mut self, member: usize, copies: usize, tried: &mut [bool]) -> usize {
        let is_open = |&kind: &usize| !tried[kind] && (self.covers)(member, kind);
        let mut free = (0..self.free.len()).filter(|&kind| self.free[kind] > 0);
        if let Some(kind) = free.find(is_open) {
            let count = copies.min(self.free[kind]);
            self.free[kind] -= count;
            *self.share_mut(member, kind) += count;
            return count;
        }
        let kinds: Vec<usize> = (0..self.free.len()).filter(is_open).collect();
        for kind in kinds {
            // A move that failed may have tried this entry in the meantime.
            if core::mem::replace(&mut tried[kind], true) {
                continue;
            }
            for (owner, held) in self.shares[kind].clone() {
                let count = self.augment(owner, copies.min(held), tried);
                if count > 0 {
                    *self.share_mut(member, kind) += count;
                    *self.share_mut(owner, kind) -= count;
                    self.shares[kind].retain(|&(_, count)| count > 0);
                    return count;
                }
            }
        }
        0
    }

    fn share_mut(&mut self, member: usize, kind: usize) -> &mut usize {
        let shares = &mut self.shares[kind];
        let at = shares.iter().position(|&(owner, _)| owner == member).unwrap_or_else(|| {
            shares.push((member, 0));
            shares.len() - 1
        });
        &mut shares[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the size of a maximum matching, by brute force.
    fn best(edges: &[Vec<bool>], member: usize, taken: u32) -> usize {
        let Some(row) = edges.get(member) else { return 0 };
        let with = row.iter().enumerate().filter(|&(entry, &edge)| edge && taken >> entry & 1 == 0);
        let with = with.map(|(entry, _)| 1 + best(edges, member + 1, taken | 1 << entry)).max();
        with.unwrap_or(0).max(best(edges, member + 1, taken))
    }

    fn check(members: &[usize], entries: &[usize], edges: &[Vec<bool>]) -> usize {
        let shares = matched(members, entries, |member, entry| edges[member][entry]);
        let mut used = vec![0; members.len()];
        for (entry, shares) in shares.iter().enumerate() {
            for &(member, count) in shares {
                assert!(count > 0 && edges[member][entry]);
                used[member] += count;
            }
            assert!(shares.iter().map(|&(_, count)| count).sum::<usize>() <= entries[entry]);
        }
        assert!(used.iter().zip(members).all(|(used, copies)| used <= copies));
        used.iter().sum()
    }

    proptest! {
        #[test]
        fn matchings_are_maximum(
            edges in prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 0..6)
        ) {
            let ones = vec![1; edges.len()];
            prop_assert_eq!(check(&ones, &[1; 6], &edges), best(&edges, 0, 0));
        }

        #[test]
        fn copies_are_matched_like_different_members(
            edges in prop::collection::vec(prop::collection::vec(any::<bool>(), 4), 4),
            members in prop::collection::vec(0usize..4, 4),
            entries in prop::collection::vec(0usize..4, 4),
        ) {
            let each = |counts: &[usize]| -> Vec<usize> {
                let all = counts.iter().enumerate();
                all.flat_map(|(kind, &count)| core::iter::repeat_n(kind, count)).collect()
            };
            let (each_member, each_entry) = (each(&members), each(&entries));
            let rows = each_member.iter().map(|&member| {
                each_entry.iter().map(|&entry| edges[member][entry]).collect()
            });
            let rows: Vec<Vec<bool>> = rows.collect();
            let ones = [vec![1; each_member.len()], vec![1; each_entry.len()]];
            prop_assert_eq!(check(&members, &entries, &edges), check(&ones[0], &ones[1], &rows));
        }
    }

    #[test]
    fn finds_matching_where_greedy_choice_fails() {
        // The first member is covered by both entries, the second by the first alone.
        let shares = matched(&[1, 1], &[1, 1], |member, entry| member == 0 || entry == 0);
        assert_eq!(shares, [[(1, 1)], [(0, 1)]]);
    }

    #[test]
    fn many_copies_are_matched_in_one_step() {
        let shares =
            matched(&[1 << 40, 5], &[1 << 40, 5], |member, entry| member == 0 || entry == 0);
        let matched: usize = shares.iter().flatten().map(|&(_, count)| count).sum();
        assert_eq!(matched, (1 << 40) + 5);
    }
}
