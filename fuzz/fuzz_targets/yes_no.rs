//! Any bytes are two lists, of which filters and updates are made; or a file, which is refused, or
//! valid.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::yes_no::drive(bytes));
