//! Yes/no lists: never wrong about a key that is on one of them.

mod dynamic;
mod plan;

pub use dynamic::{YesNoBuilder, YesNoList, YesNoStatistics};
pub use plan::YesNoPlan;
