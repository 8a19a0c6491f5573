//! Addresses of the operations that are called most often.

use super::CodedFilter;
use super::insert::{Insert, InsertAt};
use super::lookup::{Contains, LookClosely};
use super::scheme::Scheme;
use crate::Hash;
use crate::bits::machine::{Kept, Target};

#[derive(Clone, Copy)]
pub(crate) struct Routines<S: Scheme> {
    pub(super) contains: Kept<Contains<'static, S, false>>,
    pub(super) contains_coded: Kept<Contains<'static, S, true>>,
    pub(super) contains_many: fn(&CodedFilter<S>, &[Hash], &mut [bool]),
    pub(super) look_closely: Kept<LookClosely<'static, S>>,
    pub(super) insert: Kept<Insert<'static, S>>,
    pub(super) insert_at: Kept<InsertAt<'static, S>>,
}

impl<S: Scheme> Routines<S> {
    /// Looks up the addresses. Call this only for a concrete scheme ([`Scheme::routines`]), so that
    /// the operations are compiled in this crate, and not again in each crate that uses a filter.
    pub(super) fn new(target: Target) -> Self {
        Self {
            contains: target.keep(),
            contains_coded: target.keep(),
            contains_many: CodedFilter::answer_many,
            look_closely: target.keep(),
            insert: target.keep(),
            insert_at: target.keep(),
        }
    }
}
