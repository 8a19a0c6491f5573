//! Any bytes are a script of operations; filter and model must agree after each.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::script::drive(bytes));
