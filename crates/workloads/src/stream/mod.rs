//! Streams of queries that don't depend on the answers.

pub mod firehose;
mod flows;
mod uniform;
mod zipf;

pub use flows::{Flows, FlowsConfig};
pub use uniform::uniform;
pub use zipf::Zipf;
