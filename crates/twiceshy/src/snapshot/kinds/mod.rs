//! The snapshots of each kind of filter.

mod coded;
mod list;
mod quotient;
mod range;
