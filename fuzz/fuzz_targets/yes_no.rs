//! Either reads the input as two lists, and builds yes/no filters and deltas from them, or reads
//! the input as a file. The file must be refused or valid.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::yes_no::drive(bytes));
