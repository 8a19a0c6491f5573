/// An invalid parameter of a workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{parameter} is {given}, but must be {wanted}")]
#[non_exhaustive]
pub struct Invalid {
    /// The parameter's name.
    pub parameter: &'static str,
    /// The parameter's value.
    pub given: f64,
    /// The values that are allowed.
    pub wanted: &'static str,
}

/// Returns an error unless the share is from 0 to 1.
pub(crate) fn share(parameter: &'static str, given: f64) -> Result<(), Invalid> {
    if (0.0..=1.0).contains(&given) {
        Ok(())
    } else {
        Err(Invalid { parameter, given, wanted: "from 0 to 1" })
    }
}

/// Returns an error if the number is 0.
pub(crate) fn at_least_one(parameter: &'static str, given: u64) -> Result<(), Invalid> {
    if given == 0 { Err(Invalid { parameter, given: 0.0, wanted: "at least 1" }) } else { Ok(()) }
}
