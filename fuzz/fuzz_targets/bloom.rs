//! Runs any bytes as a script of operations on an adaptive Bloom filter and on a list of members. The
//! filter must not lose a member.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::bloom::drive(bytes));
