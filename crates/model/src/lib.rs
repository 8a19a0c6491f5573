//! What filters must do, written down as slowly and plainly as possible, and scripts
//! of operations that drive a filter and its model side by side.
//!
//! Property tests and fuzz targets share both: any bytes are a [`script`].

pub mod bloom;
pub mod coded;
pub mod coded_snapshot;
pub mod concurrent;
pub mod list;
pub mod quotient;
pub mod range;
pub mod range_snapshot;
pub mod script;
pub mod snapshot;
pub mod yes_no;
