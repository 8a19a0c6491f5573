//! Any bytes are a snapshot of a filter for ranges, or become one: it is refused, or it is a valid
//! filter's; and it can be asked in either case.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::range_snapshot::drive(bytes));
