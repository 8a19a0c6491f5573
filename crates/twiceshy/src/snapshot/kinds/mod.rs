//! One description per kind of filter.

mod coded;
mod list;
mod quotient;
mod range;
