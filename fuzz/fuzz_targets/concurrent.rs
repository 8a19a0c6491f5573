//! Runs any bytes as a script of operations on a concurrent filter, on a filter without shards, and on
//! a map of members. All must agree after each operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::concurrent::drive_bytes(bytes));
