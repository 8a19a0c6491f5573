//! Methods of concurrent filters that take keys and `&self`.

use super::{Concurrent, PlainShard, Shard};
use crate::claim::Adaptation;
use crate::error::{AdaptError, InsertError, InsertManyError, RemoveError};
use crate::keyed::keyed_methods;
use crate::{Answer, Checked, Claim, Hash, Key, Keyed, Listing};
use core::borrow::Borrow;
use core::ops::RangeInclusive;

keyed_methods!(Concurrent<F>, PlainShard, Shard, filter);

impl<K: Key + ?Sized, F: PlainShard> Keyed<K, Concurrent<F>> {
    /// Inserts as many of these members as there is room for.
    ///
    /// # Errors
    /// Returns the same errors as [`Concurrent::insert_each`].
    pub fn insert_each<Q: Borrow<K>>(&self, keys: &[Q]) -> Result<(), InsertManyError> {
        self.filter().insert_each(&self.hashes(keys))
    }
}
