//! Which entry of a run is whose: a perfect matching.
//!
//! An entry may cover several members, and a member may be covered by several entries, so to
//! take the first that covers may leave another member with none. If the members are those of
//! the run there is a way, and augmenting paths find it.
//!
//! Equal members, and equal entries, are matched together: there may be many copies of one hash.

/// What the entries of one kind are to the members: which member has how many of them.
pub(super) type Shares = Vec<(usize, usize)>;

/// Finds entries for members such that no entry is used twice, as `covers(member, entry)` allows;
/// for as many members as possible. There are `members[m]` copies of member `m`, and `entries[e]`
/// entries of kind `e`. Returns, for each kind of entries, whose they are.
pub(super) fn matched(
    members: &[usize],
    entries: &[usize],
    covers: impl Fn(usize, usize) -> bool,
) -> Vec<Shares> {
    let mut matching =
        Matching { free: entries.to_vec(), shares: vec![Shares::new(); entries.len()], covers };
    for (member, &copies) in members.iter().enumerate() {
        let mut left = copies;
        while left > 0 {
            match matching.augment(member, left) {
                0 => break,
                found => left -= found,
            }
        }
    }
    matching.shares
}

struct Matching<C> {
    /// Entries of each kind that are nobody's.
    free: Vec<usize>,
    shares: Vec<Shares>,
    covers: C,
}

/// How a kind of entries was reached: from a member, which was reached from another kind, unless it
/// is the one that a search began with.
#[derive(Clone, Copy)]
struct Step {
    member: usize,
    from: Option<usize>,
}

impl<C: Fn(usize, usize) -> bool> Matching<C> {
    /// Finds entries for some of the copies of a member, if need be by finding others for those
    /// that have them; for how many.
    fn augment(&mut self, member: usize, copies: usize) -> usize {
        let mut steps: Vec<Option<Step>> = vec![None; self.free.len()];
        let mut is_reached = vec![member];
        let mut queue = vec![Step { member, from: None }];
        let mut next = 0;
        while let Some(&step) = queue.get(next) {
            next += 1;
            for entry in 0..self.free.len() {
                if steps[entry].is_some() || !(self.covers)(step.member, entry) {
                    continue;
                }
                steps[entry] = Some(step);
                if self.free[entry] > 0 {
                    return self.push(entry, &steps, copies);
                }
                for &(owner, _) in &self.shares[entry] {
                    if !is_reached.contains(&owner) {
                        is_reached.push(owner);
                        queue.push(Step { member: owner, from: Some(entry) });
                    }
                }
            }
        }
        0
    }

    /// Gives entries to the member at the beginning of a path that ends with a kind that has some;
    /// everybody else on the path moves on to the next kind. Returns how many.
    fn push(&mut self, last: usize, steps: &[Option<Step>], copies: usize) -> usize {
        let path = |entry: usize| steps[entry].map(|step| (entry, step));
        let path: Vec<(usize, Step)> =
            core::iter::successors(path(last), |(_, step)| step.from.and_then(path)).collect();
        let held =
            |&(_, step): &(usize, Step)| step.from.map(|entry| self.share(step.member, entry));
        let least = path.iter().filter_map(held).min().unwrap_or(copies);
        let count = least.min(copies).min(self.free[last]);
        self.free[last] -= count;
        for (entry, Step { member, from }) in path {
            *self.share_mut(member, entry) += count;
            if let Some(from) = from {
                *self.share_mut(member, from) -= count;
                self.shares[from].retain(|&(_, count)| count > 0);
            }
        }
        count
    }

    fn share(&self, member: usize, entry: usize) -> usize {
        let share = self.shares[entry].iter().find(|&&(owner, _)| owner == member);
        share.map_or(0, |&(_, count)| count)
    }

    fn share_mut(&mut self, member: usize, entry: usize) -> &mut usize {
        let shares = &mut self.shares[entry];
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

    /// The size of the best matching, by trying all.
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
        fn as_many_as_possible_are_matched(
            edges in prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 0..6)
        ) {
            let ones = vec![1; edges.len()];
            prop_assert_eq!(check(&ones, &[1; 6], &edges), best(&edges, 0, 0));
        }

        /// Copies are matched as if each were a member, or an entry, of its own.
        #[test]
        fn copies_are_matched_as_one_by_one(
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
    fn greed_would_fail() {
        // The first member is covered by both entries, the second by the first alone.
        let shares = matched(&[1, 1], &[1, 1], |member, entry| member == 0 || entry == 0);
        assert_eq!(shares, [[(1, 1)], [(0, 1)]]);
    }

    #[test]
    fn many_copies_are_matched_at_once() {
        let shares =
            matched(&[1 << 40, 5], &[1 << 40, 5], |member, entry| member == 0 || entry == 0);
        let matched: usize = shares.iter().flatten().map(|&(_, count)| count).sum();
        assert_eq!(matched, (1 << 40) + 5);
    }
}
