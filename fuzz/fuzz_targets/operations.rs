//! Runs any bytes as a script of operations on a quotient filter and its model. Both must agree after
//! each operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::script::drive(bytes));
