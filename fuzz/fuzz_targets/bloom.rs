//! Any bytes are a script of operations on an adaptive Bloom filter and a list of members; no member
//! may be lost.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::bloom::drive(bytes));
