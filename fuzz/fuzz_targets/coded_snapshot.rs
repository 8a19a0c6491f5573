//! Reads the input as a snapshot of a telescoping or an extension filter. The snapshot must either
//! be refused or contain a valid filter.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::coded_snapshot::drive(bytes));
