//! Tests of a `RangeStore`: against a model, for disk reads, with failing backends, with kills, and with
//! many threads.

mod common;

#[path = "ranges/faults.rs"]
mod faults;
#[cfg(feature = "fjall")]
#[path = "ranges/kill.rs"]
mod kill;
#[path = "ranges/model.rs"]
mod model;
#[path = "ranges/opening.rs"]
mod opening;
#[path = "ranges/threads.rs"]
mod threads;
#[path = "ranges/visits.rs"]
mod visits;
#[path = "ranges/watched.rs"]
mod watched;
