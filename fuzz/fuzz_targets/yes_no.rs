//! Builds yes/no filters and deltas from any bytes, read as two lists, or reads the bytes as a file,
//! which must be refused or valid.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::yes_no::drive(bytes));
