//! Yes/no lists: never wrong about a key that is on one of them.
//!
//! Those that change at any time keep both lists, in order ([`dynamic`]); what is shipped is a
//! filter alone, and smaller ([`fixed`]).

mod fixed;

pub use fixed::{Delta, DeltaError, YesNoFilter, YesNoFilterBuilder};
pub(crate) use fixed::{Shape, Tally};
