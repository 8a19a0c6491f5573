//! Any bytes are a script of operations on a filter for ranges and a map of members; both must
//! agree after each.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::range::drive(bytes));
