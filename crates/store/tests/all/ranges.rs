//! Tests of a `RangeStore`: against a model, for disk reads, with failing backends, with kills, and with
//! many threads.

mod faults;
#[cfg(feature = "fjall")]
mod kill;
mod model;
mod opening;
mod repairs;
mod threads;
mod visits;
mod watched;
