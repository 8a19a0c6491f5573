//! Yes/no lists: never wrong about a key that is on one of them.
//!
//! Those that change at any time keep both lists, in order ([`dynamic`]); what is shipped is a
//! filter alone, and smaller ([`fixed`]). With the feature `matching`, filters can be asked for hosts
//! and URLs.

mod dynamic;
mod fixed;
#[cfg(feature = "matching")]
mod matching;
mod plan;

pub use dynamic::{YesNoList, YesNoListBuilder, YesNoStatistics};
pub use fixed::{Delta, DeltaError, YesNoFilter, YesNoFilterBuilder};
pub(crate) use fixed::{Shape, Tally};
#[cfg(feature = "matching")]
pub use matching::{Matching, MatchingFilter, MatchingFilterBuilder, UnknownMatching};
pub use plan::YesNoPlan;
