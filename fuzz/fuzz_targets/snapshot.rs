//! Reads any bytes as a snapshot of a quotient filter. The snapshot must be refused or contain a valid
//! filter; in both cases, lookups in place must not panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::snapshot::drive(bytes));
