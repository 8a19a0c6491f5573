//! Builds a filter from any bytes, read as a list of members and a list of mistakes. The filter must
//! be that of the model, or the constructor must return an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::script::drive_constructor(bytes));
