//! Any bytes are two lists; the constructor must build what the model says, or refuse.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::script::drive_constructor(bytes));
