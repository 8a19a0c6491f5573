//! Reads the input as a list of changes to a yes list and a no list. After each change, the answers
//! for all keys on the two lists must be right.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::list::drive(bytes));
