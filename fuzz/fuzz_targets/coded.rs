//! Reads the input as a list of operations, and applies them to a telescoping or an extension
//! filter and to a list of members. The filter must not lose a member. It must not repeat a mistake
//! right after the repair.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::coded::drive(bytes));
