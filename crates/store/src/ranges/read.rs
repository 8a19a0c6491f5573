//! Reading from a range store.

use super::key::Span;
use super::repair::stored;
use super::{MOST_PARTITIONS, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Bytes, Included, Keyspace, Scan, Unbounded};
use crate::error::{Result, StoreError};
use crate::maintained::Asked;
use crate::stats::Count;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use twiceshy::range::RangeKey;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Returns whether there is no key in a range.
    ///
    /// # Errors
    /// If the backend fails. A repair that fails doesn't fail the query; it is
    /// [counted](crate::Stats::repairs_failed).
    pub fn range_is_empty(&self, range: impl RangeBounds<K>) -> Result<bool> {
        self.range(range)?.next().transpose().map(|pair| pair.is_none())
    }

    /// Returns the pairs whose keys are in a range, in order, from either end.
    ///
    /// # Errors
    /// Returns the same errors as [`range_is_empty`](Self::range_is_empty).
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<RangePairs<'_, K>> {
        let Some(span) = Span::of(&range)? else { return Ok(RangePairs::none()) };
        let pairs = self.guarded(span, || {
            self.counters.add(Count::BackendScans, 1);
            let [first, last] = [span.first, span.last].map(stored::<K>);
            let bounds = (Included(first.as_ref()), Included(last.as_ref()));
            let mut rest = self.storage.backend.range(Keyspace::Keys, bounds);
            let first = rest.next().transpose()?;
            Ok(first.map(|first| RangePairs { first: Some(first), rest, keys: PhantomData }))
        })?;
        Ok(pairs.unwrap_or_else(RangePairs::none))
    }

    /// Returns all pairs, in order, from either end.
    pub fn iter(&self) -> RangePairs<'_, K> {
        let rest = self.storage.backend.range(Keyspace::Keys, (Unbounded, Unbounded));
        RangePairs { first: None, rest, keys: PhantomData }
    }

    /// Returns the value of a key, or `None` if the key is absent.
    ///
    /// # Errors
    /// Returns the same errors as [`range_is_empty`](Self::range_is_empty).
    pub fn get(&self, key: K) -> Result<Option<Bytes>> {
        let span = Span::one(key)?;
        self.guarded(span, || self.look_up(span.first))
    }

    /// Returns whether the store has a key.
    ///
    /// # Errors
    /// Returns the same errors as [`range_is_empty`](Self::range_is_empty).
    pub fn contains(&self, key: K) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    pub(super) fn look_up(&self, number: u128) -> Result<Option<Bytes>> {
        self.counters.add(Count::BackendGets, 1);
        Ok(self.storage.backend.get(Keyspace::Keys, stored::<K>(number).as_ref())?)
    }

    /// Looks up a span in the backend, unless the filter knows that the span is empty. If the filter's answer
    /// was a mistake, repairs the mistake.
    fn guarded<T>(
        &self,
        span: Span,
        look_up: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let asked = if span.partitions(self.memento_bits()) > MOST_PARTITIONS {
            Asked::Unfiltered
        } else {
            self.claim(span).map_or(Asked::Absent, Asked::Maybe)
        };
        self.counters.guarded(asked, look_up, |claim| self.repair(span, claim))
    }
}

impl<'a, K: StoredKey, B: Backend> IntoIterator for &'a RangeStore<K, B> {
    type Item = Result<(K, Bytes)>;
    type IntoIter = RangePairs<'a, K>;

    fn into_iter(self) -> RangePairs<'a, K> {
        self.iter()
    }
}

/// An iterator over the pairs of a [`RangeStore`], in order, from either end.
pub struct RangePairs<'a, K> {
    /// The first pair, which was read to find out whether the range is empty.
    first: Option<(Bytes, Bytes)>,
    rest: Scan<'a>,
    keys: PhantomData<fn() -> K>,
}

impl<K: StoredKey> RangePairs<'_, K> {
    fn none() -> Self {
        Self { first: None, rest: Box::new(std::iter::empty()), keys: PhantomData }
    }

    fn read((key, value): (Bytes, Bytes)) -> Result<(K, Bytes)> {
        let key = Number::<K>::from_bytes(&key).and_then(|number| K::from_number(number.number()));
        let key = key.ok_or_else(|| StoreError::Format("a key is not a number".into()))?;
        Ok((key, value))
    }
}

impl<K: StoredKey> Iterator for RangePairs<'_, K> {
    type Item = Result<(K, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = match self.first.take() {
            Some(first) => Ok(first),
            None => self.rest.next()?,
        };
        Some(pair.map_err(StoreError::from).and_then(Self::read))
    }
}

impl<K: StoredKey> DoubleEndedIterator for RangePairs<'_, K> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let pair = match self.rest.next_back() {
            Some(pair) => pair,
            None => Ok(self.first.take()?),
        };
        Some(pair.map_err(StoreError::from).and_then(Self::read))
    }
}
