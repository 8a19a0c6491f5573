//! Any bytes are a script of operations on a filter of shards, a plain one and a map of members;
//! all must agree after each.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::concurrent::drive_bytes(bytes));
