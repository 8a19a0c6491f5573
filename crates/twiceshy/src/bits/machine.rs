//! One operation, compiled for each kind of machine, dispatched once per call.
//!
//! The code of an operation is generic over [`Machine`] and marked
//! `#[inline(always)]` all the way down; [`Level::run`] enters it through a function
//! that has the instructions enabled, so that everything inlined into it uses them
//! and nothing asks again.

use super::word;

/// The word operations whose best instruction depends on the machine.
///
/// A value of an accelerated machine exists only where its instructions do.
pub(crate) trait Machine: Copy {
    /// As [`word::select`].
    fn select(self, word: u64, rank: u32) -> u32;

    /// The `rank`-th set bit of `word`, alone; 0 if there aren't so many. `rank` is
    /// less than 64.
    fn select_bit(self, word: u64, rank: u32) -> u64;
}

/// A machine of which nothing is known.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Machine for Portable {
    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        word::select(word, rank)
    }

    #[inline(always)]
    fn select_bit(self, word: u64, rank: u32) -> u64 {
        if word.count_ones() > rank { 1 << word::select(word, rank) } else { 0 }
    }
}

/// A piece of work that can be done on any machine.
pub(crate) trait Operation {
    type Output;
    fn run<M: Machine>(self, machine: M) -> Self::Output;
}

/// The kind of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Bmi2(super::x86_64::Bmi2),
}

impl Level {
    /// The best kind that this machine is.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(machine) = super::x86_64::Bmi2::detect() {
            return Level::Bmi2(machine);
        }
        Level::Portable
    }

    #[inline(always)]
    pub(crate) fn run<O: Operation>(self, operation: O) -> O::Output {
        match self {
            Level::Portable => operation.run(Portable),
            #[cfg(target_arch = "x86_64")]
            Level::Bmi2(machine) => machine.enter(operation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Select(u64, u32);

    impl Operation for Select {
        type Output = (u32, u64, u64);
        fn run<M: Machine>(self, machine: M) -> Self::Output {
            let Select(word, rank) = self;
            let beyond = word.count_ones().min(63);
            let selected = machine.select(word, rank);
            (selected, machine.select_bit(word, rank), machine.select_bit(word & !1, beyond))
        }
    }

    proptest! {
        #[test]
        fn every_machine_selects_alike(word in 1u64.., rank in any::<u32>()) {
            let rank = rank % word.count_ones();
            let expected = Level::Portable.run(Select(word, rank));
            prop_assert_eq!((1 << expected.0, 0), (expected.1, expected.2));
            prop_assert_eq!(Level::detect().run(Select(word, rank)), expected);
        }
    }
}
