//! Options that only one family of filters has, with values that are impossible. Each family
//! exports its own type as `OptionError`.

pub(crate) mod quotient {
    /// A quotient filter can't have the requested option.
    #[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
    #[non_exhaustive]
    pub enum OptionError {
        /// A filter can't grow at that load.
        #[error("a filter can't grow at a load of {0}; choose one from 0.1 to 1")]
        Growth(f64),
        /// A filter can't have values of that many bits.
        #[error("values of {0} bits are impossible; choose 0 to 16")]
        ValueBits(u32),
        /// A value from the filter that is being replaced doesn't fit in the new filter.
        #[error(
            "the value {value} doesn't fit in {bits} bits; allow as many bits per value as before"
        )]
        ValueTooLarge {
            /// The value that doesn't fit.
            value: u64,
            /// Bits per value in the new filter.
            bits: u32,
        },
    }
}

pub(crate) mod telescoping {
    /// A telescoping or extension filter can't have the requested option.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    #[non_exhaustive]
    pub enum OptionError {
        /// A filter can't have codes of that many bits.
        #[error("codes of {0} bits are impossible; choose 8 to 120")]
        CodeBits(u32),
        /// The slots and remainders use all bits of the hashes and leave none for repairs.
        #[error(
            "remainders of {remainder_bits} bits in {slots} slots leave no bits of the hash for \
             repairs; choose at most {} bits, or a higher false-positive rate",
            (slots - 1).leading_zeros().midpoint(64)
        )]
        NoRepairs {
            /// Number of slots in the table.
            slots: u64,
            /// Bits per remainder.
            remainder_bits: u32,
        },
    }
}

pub(crate) mod range {
    /// A range filter can't have the requested option.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    #[non_exhaustive]
    pub enum OptionError {
        /// A filter can't be planned for ranges of that many keys.
        #[error("ranges of {0} keys are impossible; choose 1 to 2^20")]
        LongestRange(u64),
    }
}

pub(crate) mod concurrent {
    /// A concurrent filter can't have the requested option.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    #[non_exhaustive]
    pub enum OptionError {
        /// A filter can't have that many shards.
        #[error("{0} shards are impossible; choose 1 to 4096")]
        Shards(usize),
    }
}
