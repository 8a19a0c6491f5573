//! Reads the input as a list of operations, and applies them to a range filter and to a map of
//! members. The two must agree after each operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::range::drive(bytes));
