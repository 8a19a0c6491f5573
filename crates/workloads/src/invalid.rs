/// A parameter for which there is no workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{parameter} is {given}, but must be {wanted}")]
#[non_exhaustive]
pub struct Invalid {
    /// Which one.
    pub parameter: &'static str,
    /// What it is.
    pub given: f64,
    /// What it could be.
    pub wanted: &'static str,
}

/// Refuses a share that isn't one.
pub(crate) fn share(parameter: &'static str, given: f64) -> Result<(), Invalid> {
    if (0.0..=1.0).contains(&given) {
        Ok(())
    } else {
        Err(Invalid { parameter, given, wanted: "from 0 to 1" })
    }
}

/// Refuses a number of things that is none.
pub(crate) fn some(parameter: &'static str, given: u64) -> Result<(), Invalid> {
    if given == 0 { Err(Invalid { parameter, given: 0.0, wanted: "at least 1" }) } else { Ok(()) }
}
