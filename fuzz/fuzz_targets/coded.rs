//! Any bytes are a script of operations on a telescoping or an extension filter and a list of
//! members; no member may be lost, and no mistake made again that was repaired just now.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::coded::drive(bytes));
