//! Reads the input as a snapshot of a range filter. The snapshot must either be refused or contain
//! a valid filter. In both cases, lookups in the snapshot itself must not panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::range_snapshot::drive(bytes));
