//! Matches the members of a run with its entries.
//!
//! An entry may cover several members, and several entries may cover a member, so taking the first
//! entry that covers a member may leave no entry for another one. If the given members are exactly
//! those of the run, there is a perfect matching, and augmenting paths find it.
//!
//! Equal members and equal entries are matched together, because there may be many copies of one
//! hash.

/// Finds a maximum matching of members and entries, in which a member can only get an entry for
/// which `covers(member, entry)` is true. There are `members[m]` copies of member `m`, and
/// `entries[e]` entries of kind `e`. Returns for each kind the number of its entries that each
/// member owns.
pub(super) fn matched(
    members: &[usize],
    entries: &[usize],
    covers: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let shares = vec![vec![0; members.len()]; entries.len()];
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
    /// Number of entries of each kind that each member owns.
    shares: Vec<Vec<usize>>,
    covers: C,
}

impl<C: Fn(usize, usize) -> bool> Matching<C> {
    /// Finds entries for at most `copies` copies of a member, if necessary by moving other members
    /// to entries that aren't `tried` yet. Returns the number of copies that got an entry.
    ///
    /// The recursion visits each kind of entry at most once per path. Two adjacent kinds on a path
    /// cover the same member at different levels, so at least every other kind has a symbol that
    /// isn't 0. A code has room for at most one such symbol per bit, so the recursion isn't deep.
    fn augment(&mut self, member: usize, copies: usize, tried: &mut [bool]) -> usize {
        let is_open = |&kind: &usize| !tried[kind] && (self.covers)(member, kind);
        let mut free = (0..self.free.len()).filter(|&kind| self.free[kind] > 0);
        if let Some(kind) = free.find(is_open) {
            let count = copies.min(self.free[kind]);
            self.free[kind] -= count;
            self.shares[kind][member] += count;
            return count;
        }
        let kinds: Vec<usize> = (0..self.free.len()).filter(is_open).collect();
        for kind in kinds {
            // A failed move may have tried this kind in the meantime.
            if core::mem::replace(&mut tried[kind], true) {
                continue;
            }
            for owner in 0..self.shares[kind].len() {
                let held = self.shares[kind][owner];
                let count = if held > 0 { self.augment(owner, copies.min(held), tried) } else { 0 };
                if count > 0 {
                    self.shares[kind][member] += count;
                    self.shares[kind][owner] -= count;
                    return count;
                }
            }
        }
        0
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
            for (member, &count) in shares.iter().enumerate() {
                assert!(count == 0 || edges[member][entry]);
                used[member] += count;
            }
            assert!(shares.iter().sum::<usize>() <= entries[entry]);
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
    fn matching_is_found_where_greedy_choice_fails() {
        // Both entries cover the first member. Only the first entry covers the second member.
        let shares = matched(&[1, 1], &[1, 1], |member, entry| member == 0 || entry == 0);
        assert_eq!(shares, [[0, 1], [1, 0]]);
    }

    #[test]
    fn many_copies_are_matched_in_one_step() {
        let shares =
            matched(&[1 << 40, 5], &[1 << 40, 5], |member, entry| member == 0 || entry == 0);
        assert_eq!(shares.iter().flatten().sum::<usize>(), (1 << 40) + 5);
    }
}
