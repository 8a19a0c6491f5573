//! Runs any bytes as a script of operations on a range filter and on a map of members. Both must agree
//! after each operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::range::drive(bytes));
