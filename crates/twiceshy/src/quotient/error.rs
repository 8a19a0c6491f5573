//! Errors that only quotient filters have.

use crate::error::BuildError;

/// The reason why a value was not set. The filter is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The key is not a member.
    #[error("the key is not a member, so it can't have a value")]
    Absent,
    /// The value has more bits than the filter was built for.
    #[error("{value} is too large: the filter was built for values of {bits} bits")]
    TooLarge {
        /// The value that was refused.
        value: u64,
        /// Bits per value in this filter.
        bits: u32,
    },
    /// No slot is left for the value.
    #[error("no room for a value at {:.1} % load; build a larger filter", load * 100.0)]
    Full {
        /// Used slots as a fraction of all slots.
        load: f64,
    },
}

/// The reason why filters were not merged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The list of filters is empty.
    #[error("there are no filters to merge; pass at least one")]
    Nothing,
    /// The filters' secrets are different.
    #[error("filters of different secrets can't be merged; insert the keys of one into the other")]
    Secrets,
    /// The filters' slots are not equally wide.
    #[error("slots of {0} and {1} bits can't be merged; rebuild the filters from their members")]
    SlotBits(u32, u32),
    /// The ratio of the filters' numbers of slots is not a power of two.
    #[error("the ratio of {0} to {1} slots is not a power of two; rebuild both from their members")]
    Sizes(u64, u64),
    /// The filters make remainders in different ways, or the remainders aren't plain and the
    /// filters have different sizes.
    #[error(
        "filters of different fresh remainders, or of fresh remainders and different sizes, can't be \
         merged; rebuild them from their members"
    )]
    Remainders,
    /// No bit would be left for remainders.
    #[error("no bit would be left for remainders; rebuild the filters from their members")]
    NoRemainder,
    /// Fingerprints that were lengthened would have to be cut.
    #[error(
        "repaired fingerprints would have to be cut, because unrepaired ones are not equally \
         long; rebuild the filters from their members"
    )]
    Lengthened,
    /// The merged filter could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}
