//! Any bytes are a script of changes of a yes list and a no list; no listed key may be answered
//! wrongly after any of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::list::drive(bytes));
