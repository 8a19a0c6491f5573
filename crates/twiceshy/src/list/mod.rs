//! Filters of a yes list and a no list that are never wrong about a listed key.
//!
//! A [`YesNoList`] can change at any time; it stores both lists beside a filter. A [`YesNoFilter`]
//! is built once and doesn't contain the lists, so it is smaller. With the feature `matching`,
//! filters match hosts and URLs.

mod dynamic;
mod error;
mod fixed;
#[cfg(feature = "matching")]
mod matching;
mod plan;

pub use dynamic::YesNoList;
pub use error::ListError;
pub use fixed::{Delta, DeltaError, Details, YesNoFilter};
pub(crate) use fixed::{Shape, Tally};
#[cfg(feature = "matching")]
pub use matching::{Matching, MatchingFilter, MatchingFilterBuilder, UnknownMatching};
pub use plan::PlanDetails;
