//! Reads any bytes as a snapshot of a range filter. The snapshot must be refused or contain a valid
//! filter; in both cases, lookups in place must not panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::range_snapshot::drive(bytes));
