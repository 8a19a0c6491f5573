//! Reads the input as a list of operations, and applies them to a concurrent filter, to a filter
//! without shards, and to a map of members. All three must agree after each operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::concurrent::drive_bytes(bytes));
