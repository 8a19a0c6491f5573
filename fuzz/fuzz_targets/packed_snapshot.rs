//! Reads the input as a snapshot of an adaptive Bloom filter, or of lists that can change. The
//! snapshot must either be refused or contain a valid filter.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::packed_snapshot::drive(bytes));
