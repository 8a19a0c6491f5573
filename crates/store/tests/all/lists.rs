//! Tests of a `ListStore`: against a model, for disk reads, with failing backends, with kills, and with many
//! threads.

mod faults;
#[cfg(feature = "fjall")]
mod kill;
mod model;
mod opening;
mod threads;

use twiceshy::Secret;
use twiceshy_store::OpenOptions;

/// Returns options of a filter so poor that it answers "yes" for most unlisted keys, and so small that it
/// grows. The secret is fixed, so that hashes are the same in each run.
fn options() -> OpenOptions {
    OpenOptions::new()
        .capacity(8)
        .false_positive_rate(0.7)
        .shards(2)
        .secret(Secret::from_bytes([7; 16]))
}
