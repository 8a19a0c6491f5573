//! The guarded store of ranges: against a model, counted where the disk is, failing, killed, and
//! used by many threads.

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
