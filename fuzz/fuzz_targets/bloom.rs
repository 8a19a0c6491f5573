//! Reads the input as a list of operations, and applies them to an adaptive Bloom filter and to a
//! list of members. The filter must not lose a member.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::bloom::drive(bytes));
