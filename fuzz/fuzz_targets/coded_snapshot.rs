//! Any bytes are a snapshot of a telescoping or an extension filter, or become one: it is refused,
//! or it is a valid filter's.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::coded_snapshot::drive(bytes));
