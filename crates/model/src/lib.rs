//! Specifies what filters must do with slow, simple models, and drives a filter and its model side
//! by side with scripts of operations.
//!
//! Property tests and fuzz targets share the models and scripts. Any bytes are a valid [`script`].

pub mod bloom;
pub mod coded;
pub mod coded_snapshot;
pub mod concurrent;
pub mod list;
pub mod packed_snapshot;
pub mod quotient;
pub mod range;
pub mod range_snapshot;
pub mod script;
pub mod snapshot;
pub mod yes_no;
