//! Yes/no lists on a disk: against a model, without visits, failing, killed, and used by many
//! threads.

mod common;

#[path = "lists/faults.rs"]
mod faults;
#[cfg(feature = "fjall")]
#[path = "lists/kill.rs"]
mod kill;
#[path = "lists/model.rs"]
mod model;
#[path = "lists/opening.rs"]
mod opening;
#[path = "lists/threads.rs"]
mod threads;

use twiceshy::Secret;
use twiceshy_store::OpenOptions;

/// So bad a filter that most unlisted keys are answered "yes", so small that it grows, and always
/// the same hashes.
fn options() -> OpenOptions {
    OpenOptions::new()
        .capacity(8)
        .false_positive_rate(0.7)
        .shards(2)
        .secret(Secret::from_bytes([7; 16]))
}
