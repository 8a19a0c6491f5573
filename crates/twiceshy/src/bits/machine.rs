//! One operation, compiled for each kind of machine, dispatched once per call.
//!
//! The code of an operation is generic over [`Machine`] and marked
//! `#[inline(always)]` all the way down; [`Level::run`] enters it through a function
//! that has the instructions enabled, so that everything inlined into it uses them
//! and nothing asks again.

#![expect(unsafe_code, reason = "a routine is entered by its address")]

use super::line::{self, Line};
use super::word;

/// The word operations whose best instruction depends on the machine.
///
/// A value of an accelerated machine exists only where its instructions do.
pub(crate) trait Machine: Copy {
    /// The lowest `count` bits of `word`, which may be more than 64, but not than 255.
    fn lowest(self, word: u64, count: u32) -> u64;

    /// The lowest `count` bits set, as of [`lowest`](Self::lowest).
    #[inline(always)]
    fn low_bits(self, count: u32) -> u64 {
        self.lowest(u64::MAX, count)
    }

    /// The set bit of `word` of the same rank as the one bit that is set in `bit` has in
    /// a word of ones, alone; 0 if there aren't so many, or `bit` is 0.
    fn deposit_bit(self, bit: u64, word: u64) -> u64;

    /// The bits of `word` at the bits that are set in `mask`, side by side.
    fn pack(self, word: u64, mask: u64) -> u64;

    /// The `rank`-th set bit of `word`, alone; 0 if there aren't so many. `rank` is
    /// less than 64.
    #[inline(always)]
    fn select_bit(self, word: u64, rank: u32) -> u64 {
        self.deposit_bit(1 << rank, word)
    }

    /// As [`word::select`].
    fn select(self, word: u64, rank: u32) -> u32;

    /// Which of the lowest 32 bits are such that up to them, `minus` has as many bits set as
    /// `plus` and `more`, which is at most 64.
    fn balanced(self, plus: u32, minus: u32, more: u32) -> u32;

    /// As [`line::push_bits`], `value` being fewer than `by` bits.
    fn push_bits(self, line: &mut Line, bits: (u32, u32), by: u32, value: u64, flips: [u64; 3]);
}

/// A machine of which nothing is known.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Machine for Portable {
    #[inline(always)]
    fn lowest(self, word: u64, count: u32) -> u64 {
        word & word::low_bits(count.min(64))
    }

    #[inline(always)]
    fn deposit_bit(self, bit: u64, word: u64) -> u64 {
        let rank = bit.trailing_zeros();
        if word.count_ones() > rank { 1 << word::select(word, rank) } else { 0 }
    }

    #[inline(always)]
    fn pack(self, word: u64, mask: u64) -> u64 {
        let (mut packed, mut count, mut rest) = (0, 0, mask);
        while rest != 0 {
            packed |= (word >> rest.trailing_zeros() & 1) << count;
            count += 1;
            rest &= rest - 1;
        }
        packed
    }

    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        word::select(word, rank)
    }

    #[inline(always)]
    fn balanced(self, plus: u32, minus: u32, more: u32) -> u32 {
        word::balanced(plus, minus, more)
    }

    #[inline(always)]
    fn push_bits(self, line: &mut Line, bits: (u32, u32), by: u32, value: u64, flips: [u64; 3]) {
        line::push_bits(line, bits, by, value, flips);
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

/// A piece of work that is done so often that even finding out how, for this machine and
/// for a number that says more of the work, shall be done only once.
pub(crate) trait Routine {
    type Subject<'a>;
    type Argument;
    type Output;
    fn run<M: Machine, const NUMBER: u32>(
        machine: M,
        subject: Self::Subject<'_>,
        argument: Self::Argument,
    ) -> Self::Output;
}

/// A routine as compiled for this machine.
pub(crate) struct Compiled<R: Routine>(Entry<R>);

/// How a routine is entered; its instructions must be there.
type Entry<R> = for<'a> unsafe fn(
    <R as Routine>::Subject<'a>,
    <R as Routine>::Argument,
) -> <R as Routine>::Output;

impl<R: Routine> Compiled<R> {
    pub(crate) fn new<const NUMBER: u32>(level: Level) -> Self {
        match level {
            Level::Portable => {
                Self(|subject, argument| R::run::<_, NUMBER>(Portable, subject, argument))
            }
            #[cfg(target_arch = "x86_64")]
            Level::Bmi2(_) => Self(super::x86_64::enter_with_bmi2::<R, NUMBER>),
        }
    }

    #[inline(always)]
    pub(crate) fn run(self, subject: R::Subject<'_>, argument: R::Argument) -> R::Output {
        // SAFETY: a level is known only where its instructions are.
        unsafe { (self.0)(subject, argument) }
    }
}

impl<R: Routine> Copy for Compiled<R> {}
impl<R: Routine> Clone for Compiled<R> {
    fn clone(&self) -> Self {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Everything(u64, u64, u32);

    impl Operation for Everything {
        type Output = [u64; 7];
        fn run<M: Machine>(self, machine: M) -> Self::Output {
            let Everything(word, mask, count) = self;
            let beyond = word.count_ones().min(63);
            let rank = count % word.count_ones();
            [
                machine.select(word, rank).into(),
                machine.select_bit(word, rank),
                machine.select_bit(word & !1, beyond),
                machine.deposit_bit(0, word),
                machine.lowest(word, count),
                machine.pack(word, mask),
                machine.balanced(word as u32, mask as u32, count % 65).into(),
            ]
        }
    }

    proptest! {
        #[test]
        fn every_machine_does_alike(word in 1u64.., mask in any::<u64>(), count in 0u32..256) {
            let [selected, alone, beyond, none, low, packed, balanced] =
                Level::Portable.run(Everything(word, mask, count));
            prop_assert_eq!((1 << selected, 0, 0), (alone, beyond, none));
            prop_assert_eq!(low, word & 1u64.checked_shl(count).unwrap_or(0).wrapping_sub(1));
            prop_assert_eq!(packed.count_ones(), (word & mask).count_ones());
            let everything = Level::detect().run(Everything(word, mask, count));
            prop_assert_eq!(everything, [selected, alone, beyond, none, low, packed, balanced]);
        }
    }
}
