//! Which entry of a run is whose: a perfect matching.
//!
//! An entry may cover several members, and a member may be covered by several entries, so to
//! take the first that covers may leave another member with none. If the members are those of
//! the run there is a way, and augmenting paths find it.

/// Finds an entry for each member such that no two have the same, as `covers(member, entry)`
/// allows; or as many as possible. By entry: whose it is.
pub(super) fn matched(
    members: usize,
    entries: usize,
    covers: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let mut owners = vec![None; entries];
    for member in 0..members {
        augment(member, &mut owners, &mut vec![false; entries], &covers);
    }
    owners
}

/// Finds an entry for a member, if need be by finding others for those that have one.
fn augment(
    member: usize,
    owners: &mut [Option<usize>],
    tried: &mut [bool],
    covers: &impl Fn(usize, usize) -> bool,
) {
    // Many copies of one hash would displace each other, one by one.
    let free = (0..owners.len()).find(|&entry| owners[entry].is_none() && covers(member, entry));
    if let Some(entry) = free {
        owners[entry] = Some(member);
        return;
    }
    // Paths are searched by hand: as deep as there are entries, they may not fit the stack.
    let mut path: Vec<(usize, usize)> = vec![(member, 0)];
    while let Some((member, from)) = path.last_mut() {
        let next = (*from..owners.len()).find(|&entry| !tried[entry] && covers(*member, entry));
        let Some(entry) = next else {
            path.pop();
            continue;
        };
        *from = entry + 1;
        tried[entry] = true;
        if let Some(owner) = owners[entry] {
            path.push((owner, 0));
            continue;
        }
        // Each on the path takes the entry that it was trying.
        for &(member, behind) in &path {
            owners[behind - 1] = Some(member);
        }
        return;
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

    proptest! {
        #[test]
        fn as_many_as_possible_are_matched(
            edges in prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 0..6)
        ) {
            let owners = matched(edges.len(), 6, |member, entry| edges[member][entry]);
            let mut members: Vec<usize> = owners.iter().flatten().copied().collect();
            for (entry, owner) in owners.iter().enumerate() {
                prop_assert!(owner.is_none_or(|member| edges[member][entry]));
            }
            members.sort_unstable();
            members.dedup();
            prop_assert_eq!(members.len(), owners.iter().flatten().count());
            prop_assert_eq!(members.len(), best(&edges, 0, 0));
        }
    }

    #[test]
    fn greed_would_fail() {
        // The first member is covered by both entries, the second by the first alone.
        let owners = matched(2, 2, |member, entry| member == 0 || entry == 0);
        assert_eq!(owners, [Some(1), Some(0)]);
    }

    #[test]
    fn many_that_are_alike_are_matched_one_by_one() {
        let owners = matched(4000, 4000, |_, _| true);
        assert!(owners.iter().all(Option::is_some));
    }
}
