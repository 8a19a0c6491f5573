//! Runs any bytes as a script of operations on a telescoping or an extension filter and on a list of
//! members. The filter must not lose a member, or repeat a mistake right after its repair.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twiceshy_model::coded::drive(bytes));
