//! Reads the input as a list of operations, and applies them to a quotient filter and to its model.
//! The two must agree after each operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::script::drive(bytes));
