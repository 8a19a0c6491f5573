//! Workloads that depend on the members.

mod churn;
mod ranges;

pub use churn::{Churn, ChurnConfig, Event, FIRST_MEMBER};
pub use ranges::{Endpoints, Ranges};
