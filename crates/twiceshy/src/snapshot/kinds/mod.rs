//! The snapshots of each kind of filter.

mod bloom;
mod coded;
mod list;
mod quotient;
mod range;
