//! Reads the input as a list of members and a list of mistakes, and builds a filter from them. The
//! filter must equal that of the model, or the constructor must return an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::script::drive_constructor(bytes));
