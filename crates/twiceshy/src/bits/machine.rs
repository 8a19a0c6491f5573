//! Dispatches operations, each of which is compiled once per machine level and per common table
//! shape.
//!
//! The code of an [`Operation`] is generic over [`Machine`] and over the constant `SHAPE`. It is
//! marked `#[inline(always)]`, and so is everything that it calls. [`Target::run`] enters it
//! through a function that has the machine's instructions enabled, so all code inlined into that
//! function uses them without checking again, and each call dispatches once. For the most frequent
//! operations, the filter keeps the address of the compiled operation instead: [`Kept`].

#![expect(unsafe_code, reason = "an operation is entered by its address")]

use super::word::{self, Line};
use core::marker::PhantomData;

/// The word operations whose best instruction depends on the machine.
///
/// A value of an accelerated machine proves that its instructions exist. The documentation of each
/// operation names the x86-64 instruction that implements it.
pub(crate) trait Machine: Copy {
    /// Returns the lowest `count` bits of `word` (`bzhi`). `count` may be up to 255.
    fn lowest(self, word: u64, count: u32) -> u64;

    /// Returns a word whose lowest `count` bits are set (`bzhi` of all ones). `count` may be up to
    /// 255.
    #[inline(always)]
    fn low_bits(self, count: u32) -> u64 {
        self.lowest(u64::MAX, count)
    }

    /// Moves the only set bit of `bit` from position `k` to the position of the `k`-th set bit of
    /// `word`, counted from 0 (`pdep`). Returns 0 if `word` has too few bits, or if `bit` is 0.
    fn deposit_bit(self, bit: u64, word: u64) -> u64;

    /// Returns the bits of `word` that are selected by `mask`, side by side (`pext`).
    fn pack(self, word: u64, mask: u64) -> u64;

    /// Returns the position of the `rank`-th set bit of `word`, as [`word::select`] does (`pdep`,
    /// then `tzcnt`).
    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        debug_assert!(word.count_ones() > rank);
        self.deposit_bit(1 << rank, word).trailing_zeros()
    }

    /// Returns a word in which bit `i` is set if the excess at bit `i` is exactly `more`: the
    /// number of set bits of `minus`, minus the number of those of `plus`, among the bits 0 to `i`.
    /// `more` must be at most 64. Uses `vpshufb` and `vpaddb` on one byte per bit, then
    /// `vpmovmskb`.
    fn balanced(self, plus: u32, minus: u32, more: u32) -> u32;

    /// Moves bits up within a line and puts `value` below them, as [`word::push_bits`] does
    /// (`vpsllvq` and `vpsrlvq` on all words in parallel). `value` must fit in `by` bits.
    fn push_bits(self, line: &mut Line, bits: (u32, u32), by: u32, value: u64, flips: [u64; 3]);
}

/// The portable machine, which uses no special instructions.
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
    fn balanced(self, plus: u32, minus: u32, more: u32) -> u32 {
        word::balanced(plus, minus, more)
    }

    #[inline(always)]
    fn push_bits(self, line: &mut Line, bits: (u32, u32), by: u32, value: u64, flips: [u64; 3]) {
        word::push_bits(line, bits, by, value, flips);
    }
}

/// An operation that is compiled once per machine level and per common table shape.
///
/// `self` is the data that the operation works on. For an operation that is [kept](Kept), `self`
/// and the argument should fit in registers.
pub(crate) trait Operation: Sized {
    type Argument;
    type Output;
    /// The shapes that the operation is compiled for.
    type Shapes: Shapes;

    /// Runs the operation. `SHAPE` is the shape of the table, or 0 if that shape is not a common
    /// one.
    fn run<M: Machine, const SHAPE: u32>(
        self,
        machine: M,
        argument: Self::Argument,
    ) -> Self::Output;
}

/// Defines a function whose body is an [`Operation`]. The function is written like this:
///
/// ```text
/// fn name<'a>(argument: Type) -> Output => target, Shapes, |machine| { body }
/// ```
///
/// The body can use the machine, its type `M`, and the constant `SHAPE`.
macro_rules! dispatched {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident<$($lifetime:lifetime),+ $(, $generic:ident: $bound:path)*>
        ($($argument:ident: $type:ty),+ $(,)?) -> $output:ty
        => $target:expr, $shapes:ty, |$machine:pat_param| $body:block
    ) => {
        $(#[$attribute])*
        $visibility fn $name<$($lifetime),+ $(, $generic: $bound)*>(
            $($argument: $type),+
        ) -> $output {
            struct Body<$($lifetime),+ $(, $generic: $bound)*>($($type),+);

            impl<$($lifetime),+ $(, $generic: $bound)*> $crate::bits::machine::Operation
                for Body<$($lifetime),+ $(, $generic)*>
            {
                type Argument = ();
                type Output = $output;
                type Shapes = $shapes;

                #[inline(always)]
                fn run<M: $crate::bits::machine::Machine, const SHAPE: u32>(
                    self,
                    $machine: M,
                    (): (),
                ) -> Self::Output {
                    let Self($($argument),+) = self;
                    $body
                }
            }

            let target: $crate::bits::machine::Target = $target;
            target.run(Body($($argument),+))
        }
    };
}

pub(crate) use dispatched;

/// Defines an [`Operation`] whose address can be [kept](Kept). The operation is written like this:
///
/// ```text
/// struct Name<'a, S: Bound; const FLAG: bool>(on: &'a Type);
///
/// fn run(argument: Type) -> Output => Shapes, |machine| { body }
/// ```
///
/// The body can use the machine, its type `M`, and the constant `SHAPE`.
macro_rules! kept {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident<
            $lifetime:lifetime
            $(, $generic:ident: $bound:path)*
            $(; const $constant:ident: $kind:ty)*
        >($on:ident: $data:ty);

        fn run($argument:tt: $type:ty) -> $output:ty
        => $shapes:ty, |$machine:pat_param| $body:block
    ) => {
        $(#[$attribute])*
        $visibility struct $name<
            $lifetime $(, $generic: $bound)* $(, const $constant: $kind)*
        >($visibility $data);

        impl<$($generic: $bound,)* $(const $constant: $kind,)*> $crate::bits::machine::Keepable
            for $name<'static $(, $generic)* $(, $constant)*>
        {
            type On<$lifetime> = $name<$lifetime $(, $generic)* $(, $constant)*>;
        }

        impl<$lifetime $(, $generic: $bound)* $(, const $constant: $kind)*>
            $crate::bits::machine::Operation
            for $name<$lifetime $(, $generic)* $(, $constant)*>
        {
            type Argument = $type;
            type Output = $output;
            type Shapes = $shapes;

            #[inline(always)]
            fn run<M: $crate::bits::machine::Machine, const SHAPE: u32>(
                self,
                $machine: M,
                $argument: $type,
            ) -> $output {
                let Self($on) = self;
                $body
            }
        }
    };
}

pub(crate) use kept;

/// A list of shapes. Each shape is a nonzero number.
pub(crate) trait Shapes {
    /// Calls `choice` with the constant `shape` if it is in the list, else with 0.
    fn choose<C: Choice>(shape: u32, choice: C) -> C::Output;
}

/// A function that takes a shape as a constant.
pub(crate) trait Choice {
    type Output;
    fn with<const SHAPE: u32>(self) -> Self::Output;
}

/// An empty list of shapes, with which an operation is compiled only once per machine level.
pub(crate) struct AnyShape;

impl Shapes for AnyShape {
    #[inline(always)]
    fn choose<C: Choice>(_: u32, choice: C) -> C::Output {
        choice.with::<0>()
    }
}

/// The instructions that an operation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Bmi2(super::x86_64::Bmi2),
}

impl Level {
    /// Returns the best level of this machine.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(machine) = super::x86_64::Bmi2::detect() {
            return Level::Bmi2(machine);
        }
        Level::Portable
    }
}

/// Selects one of the compiled versions of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) level: Level,
    /// The shape of the table, or 0 if there is none.
    pub(crate) shape: u32,
}

impl Target {
    /// Returns the target on this machine for operations without a table.
    pub(crate) fn detect() -> Self {
        Self { level: Level::detect(), shape: 0 }
    }

    /// Dispatches an operation and runs it.
    #[inline(always)]
    pub(crate) fn run<O: Operation<Argument = ()>>(self, operation: O) -> O::Output {
        O::Shapes::choose(self.shape, Enter(self.level, operation))
    }

    /// Returns the address of an operation, compiled for this target.
    pub(crate) fn keep<O: Keepable>(self) -> Kept<O> {
        O::Shapes::choose(self.shape, Find::<O>(self.level, PhantomData))
    }
}

struct Enter<O>(Level, O);

impl<O: Operation<Argument = ()>> Choice for Enter<O> {
    type Output = O::Output;

    #[inline(always)]
    fn with<const SHAPE: u32>(self) -> O::Output {
        let Self(level, operation) = self;
        match level {
            Level::Portable => operation.run::<_, SHAPE>(Portable, ()),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of `Bmi2` exists only if the machine has all the features.
            Level::Bmi2(machine) => unsafe {
                super::x86_64::run_with_bmi2::<O, SHAPE>(machine, operation)
            },
        }
    }
}

/// An operation whose address can be kept, because it is the same for all lifetimes. Implement it
/// for the operation with the lifetime `'static`.
pub(crate) trait Keepable: Operation {
    /// The operation, with the lifetime of the data that it works on.
    type On<'a>: Operation<Argument = Self::Argument, Output = Self::Output>;
}

/// The address of an operation, compiled for one target.
pub(crate) struct Kept<O: Keepable>(Address<O>);

/// A function that may be called only if the machine has the instructions that it uses.
type Address<O> = for<'a> unsafe fn(
    <O as Keepable>::On<'a>,
    <O as Operation>::Argument,
) -> <O as Operation>::Output;

impl<O: Keepable> Kept<O> {
    #[inline(always)]
    pub(crate) fn run(self, on: O::On<'_>, argument: O::Argument) -> O::Output {
        // SAFETY: `Find` chose a function that uses only instructions of this machine. Its `Level`
        // is the proof.
        unsafe { (self.0)(on, argument) }
    }
}

impl<O: Keepable> Copy for Kept<O> {}
impl<O: Keepable> Clone for Kept<O> {
    fn clone(&self) -> Self {
        *self
    }
}

struct Find<O>(Level, PhantomData<O>);

impl<O: Keepable> Choice for Find<O> {
    type Output = Kept<O>;

    fn with<const SHAPE: u32>(self) -> Kept<O> {
        match self.0 {
            Level::Portable => Kept(|on, argument| on.run::<_, SHAPE>(Portable, argument)),
            #[cfg(target_arch = "x86_64")]
            Level::Bmi2(_) => Kept(super::x86_64::run_kept_with_bmi2::<O, SHAPE>),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn portable() -> Target {
        Target { level: Level::Portable, shape: 0 }
    }

    struct Everything(u64, u64, u32);

    impl Operation for Everything {
        type Argument = ();
        type Output = [u64; 7];
        type Shapes = AnyShape;
        fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
            let Everything(word, mask, count) = self;
            let beyond = word.count_ones().min(63);
            let rank = count % word.count_ones();
            [
                machine.select(word, rank).into(),
                machine.deposit_bit(1 << rank, word),
                machine.deposit_bit(1 << beyond, word & !1),
                machine.deposit_bit(0, word),
                machine.lowest(word, count),
                machine.pack(word, mask),
                machine.balanced(word as u32, mask as u32, count % 65).into(),
            ]
        }
    }

    proptest! {
        #[test]
        fn accelerated_operations_agree_with_portable_ones(word in 1u64.., mask in any::<u64>(), count in 0u32..256) {
            let [selected, alone, beyond, none, low, packed, balanced] =
                portable().run(Everything(word, mask, count));
            prop_assert_eq!((1 << selected, 0, 0), (alone, beyond, none));
            prop_assert_eq!(low, word & 1u64.checked_shl(count).unwrap_or(0).wrapping_sub(1));
            prop_assert_eq!(packed.count_ones(), (word & mask).count_ones());
            let everything = Target::detect().run(Everything(word, mask, count));
            prop_assert_eq!(everything, [selected, alone, beyond, none, low, packed, balanced]);
        }
    }
}
