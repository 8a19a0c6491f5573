//! Yes/no lists: never wrong about a key that is on one of them.
//!
//! Those that change at any time keep both lists, in order ([`dynamic`]); what is shipped is a
//! filter alone, and smaller ([`fixed`]).

mod dynamic;
mod fixed;
mod plan;

pub use dynamic::{YesNoList, YesNoListBuilder, YesNoStatistics};
pub use fixed::{Delta, DeltaError, YesNoFilter, YesNoFilterBuilder};
pub(crate) use fixed::{Shape, Tally};
pub use plan::YesNoPlan;
