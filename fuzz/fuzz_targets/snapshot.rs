//! Any bytes are a snapshot, or become one: it is refused, or it is a valid filter's; and it
//! can be asked in either case.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::snapshot::drive(bytes));
