//! Addresses of the operations that are called most often.

use super::insert::{Insert, InsertAt};
use super::lookup::{Contains, LookClosely};
use super::scheme::Scheme;
use crate::bits::machine::{Kept, Target};

#[derive(Clone, Copy)]
pub(crate) struct Routines<S: Scheme> {
    pub(super) contains: Kept<Contains<'static, S, false>>,
    pub(super) contains_coded: Kept<Contains<'static, S, true>>,
    pub(super) look_closely: Kept<LookClosely<'static, S>>,
    pub(super) insert: Kept<Insert<'static, S>>,
    pub(super) insert_at: Kept<InsertAt<'static, S>>,
}

impl<S: Scheme> Routines<S> {
    pub(super) fn new(target: Target) -> Self {
        Self {
            contains: target.keep(),
            contains_coded: target.keep(),
            look_closely: target.keep(),
            insert: target.keep(),
            insert_at: target.keep(),
        }
    }
}
