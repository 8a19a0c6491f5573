//! What is done most, as compiled for this machine and for the shape of a table.

use super::insert::{Insert, InsertAt};
use super::lookup::{Contains, ContainsCoded, ContainsMany, LookClosely};
use super::scheme::Scheme;
use crate::bits::machine::{Compiled, Level};

#[derive(Clone, Copy)]
pub(crate) struct Routines<S: Scheme> {
    pub(super) contains: Compiled<Contains<S>>,
    pub(super) contains_coded: Compiled<ContainsCoded<S>>,
    pub(super) contains_many: Compiled<ContainsMany<S>>,
    pub(super) look_closely: Compiled<LookClosely<S>>,
    pub(super) insert: Compiled<Insert<S>>,
    pub(super) insert_at: Compiled<InsertAt<S>>,
}

impl<S: Scheme> Routines<S> {
    pub(super) fn new<const SHAPE: u32>(level: Level) -> Self {
        Self {
            contains: Compiled::new::<SHAPE>(level),
            contains_coded: Compiled::new::<SHAPE>(level),
            contains_many: Compiled::new::<SHAPE>(level),
            look_closely: Compiled::new::<SHAPE>(level),
            insert: Compiled::new::<SHAPE>(level),
            insert_at: Compiled::new::<SHAPE>(level),
        }
    }
}
