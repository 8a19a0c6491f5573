//! x
mod bits;
mod error;
mod hash;
pub use error::*;
pub use hash::*;
