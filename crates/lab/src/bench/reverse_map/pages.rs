//! Stores a map in pages, and counts the accesses to them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub(super) const PAGE_BYTES: usize = 4096;

/// Counts of accesses to a map.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) moved: u64,
    /// The number of accessed pages. A page counts once per operation.
    pub(super) pages: u64,
    /// The pages that the current operation has accessed.
    touched: Vec<usize>,
}

impl Traffic {
    pub(super) fn touch(&mut self, page: usize) {
        if !self.touched.contains(&page) {
            self.touched.push(page);
        }
    }

    pub(super) fn end_of_operation(&mut self) {
        self.pages += self.touched.len() as u64;
        self.touched.clear();
    }
}

/// An ordered map in the leaves of a tree, one page per leaf.
pub(super) struct PagedMap<K, V> {
    /// The leaves. The key of a leaf is the smallest key that it may contain.
    leaves: BTreeMap<K, Leaf<K, V>>,
    entries_per_page: usize,
}

struct Leaf<K, V> {
    page: usize,
    /// The entries, sorted by key.
    entries: Vec<(K, V)>,
}

impl<K: Copy + Ord, V: Copy> PagedMap<K, V> {
    /// Creates an empty map with entries of this size.
    pub(super) fn new(least: K, entry_bytes: usize) -> Self {
        let leaf = Leaf { page: 0, entries: Vec::new() };
        Self { leaves: BTreeMap::from([(least, leaf)]), entries_per_page: PAGE_BYTES / entry_bytes }
    }

    fn leaf(&mut self, key: K) -> &mut Leaf<K, V> {
        self.leaves.range_mut(..=key).next_back().expect("the first leaf has the smallest key").1
    }

    pub(super) fn insert(&mut self, key: K, value: V, traffic: &mut Traffic) {
        let (new_page, most) = (self.leaves.len(), self.entries_per_page);
        let Leaf { page, entries } = self.leaf(key);
        match entries.binary_search_by_key(&key, |entry| entry.0) {
            Ok(index) => entries[index].1 = value,
            Err(index) => entries.insert(index, (key, value)),
        }
        traffic.writes += 1;
        traffic.touch(*page);
        if entries.len() > most {
            let entries = entries.split_off(most / 2);
            traffic.touch(new_page);
            self.leaves.insert(entries[0].0, Leaf { page: new_page, entries });
        }
    }

    pub(super) fn get(&mut self, key: K, traffic: &mut Traffic) -> Option<V> {
        let Leaf { page, entries } = self.leaf(key);
        traffic.reads += 1;
        traffic.touch(*page);
        let index = entries.binary_search_by_key(&key, |entry| entry.0).ok()?;
        Some(entries[index].1)
    }

    /// Removes an entry. Returns whether it existed.
    pub(super) fn remove(&mut self, key: K, traffic: &mut Traffic) -> bool {
        let Leaf { page, entries } = self.leaf(key);
        traffic.writes += 1;
        traffic.touch(*page);
        let index = entries.binary_search_by_key(&key, |entry| entry.0);
        index.map(|index| entries.remove(index)).is_ok()
    }

    /// Returns the entries in an interval, in order.
    pub(super) fn range(&self, keys: &RangeInclusive<K>, traffic: &mut Traffic) -> Vec<(K, V)> {
        let first = self.leaves.range(..=keys.start()).next_back();
        let first = first.map_or(*keys.start(), |(&least, _)| least);
        let mut found = Vec::new();
        for Leaf { page, entries } in self.leaves.range(first..=*keys.end()).map(|(_, leaf)| leaf) {
            traffic.touch(*page);
            let start = entries.partition_point(|entry| entry.0 < *keys.start());
            let listed = entries[start..].iter().take_while(|entry| entry.0 <= *keys.end());
            found.extend(listed.copied());
        }
        traffic.reads += found.len() as u64;
        found
    }

    /// Iterates over all entries, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.leaves.values().flat_map(|leaf| leaf.entries.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a map that has four entries per page with a `BTreeMap`.
    #[test]
    fn paged_map_matches_btree_map() {
        let (mut map, mut oracle) = (PagedMap::new(0, PAGE_BYTES / 4), BTreeMap::new());
        let mut traffic = Traffic::default();
        for step in 0..2000u64 {
            let key = step * 7919 % 512;
            if step % 3 == 2 {
                assert_eq!(map.remove(key, &mut traffic), oracle.remove(&key).is_some());
            } else {
                map.insert(key, step, &mut traffic);
                oracle.insert(key, step);
            }
            let other = step * 31 % 512;
            assert_eq!(map.get(other, &mut traffic), oracle.get(&other).copied());
            let keys = other..=other + step % 20;
            let wanted: Vec<_> = oracle.range(keys.clone()).map(|(&key, &at)| (key, at)).collect();
            assert_eq!(map.range(&keys, &mut traffic), wanted);
            traffic.end_of_operation();
        }
        assert!(map.leaves.len() > 50 && map.iter().eq(oracle));
    }

    #[test]
    fn each_page_is_counted_once_per_operation() {
        let (mut map, mut traffic) = (PagedMap::new(0, PAGE_BYTES / 4), Traffic::default());
        for key in 0..4 {
            map.insert(key, (), &mut traffic);
        }
        traffic.end_of_operation();
        assert_eq!((traffic.writes, traffic.pages), (4, 1));
        map.insert(4, (), &mut traffic); // splits a page
        traffic.end_of_operation();
        assert_eq!(traffic.pages, 3);
        assert_eq!(map.range(&(1..=3), &mut traffic).len(), 3);
        traffic.end_of_operation();
        assert_eq!((traffic.reads, traffic.pages), (3, 5));
    }
}
