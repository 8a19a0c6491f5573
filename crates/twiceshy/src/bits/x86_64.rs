//! x86-64 with instructions beyond the baseline.
#![expect(unsafe_code, reason = "instructions that not every x86-64 machine has")]

use super::machine::{Machine, Operation, Routine};
use super::line::Line;
use core::arch::x86_64::*;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A machine with BMI1, BMI2, POPCNT, LZCNT, AES and AVX2: proof that detection found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bmi2(());

impl Bmi2 {
    pub(crate) fn detect() -> Option<Self> {
        let present = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("avx2");
        (present && !deposits_slowly()).then_some(Self(()))
    }

    #[inline(always)]
    pub(crate) fn enter<O: Operation>(self, operation: O) -> O::Output {
        // SAFETY: a value of `Bmi2` exists only where all the features are.
        unsafe { run_with_bmi2(self, operation) }
    }
}

/// AMD's machines before Zen 3 (family 19h), and Hygon's, which are made after them, have
/// the deposit instruction in microcode, tens of times slower than doing without.
fn deposits_slowly() -> bool {
    let vendor = __cpuid(0);
    let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    let signature = __cpuid(1).eax;
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    let theirs = [b"AuthenticAMD", b"HygonGenuine"];
    theirs.iter().any(|name| vendor.as_flattened() == *name) && family < 0x19
}

#[target_feature(enable = "bmi1,bmi2,popcnt,lzcnt,aes,avx2")]
fn run_with_bmi2<O: Operation>(machine: Bmi2, operation: O) -> O::Output {
    operation.run(machine)
}

/// # Safety
/// The machine must be a [`Bmi2`].
#[target_feature(enable = "bmi1,bmi2,popcnt,lzcnt,aes,avx2")]
pub(super) unsafe fn enter_with_bmi2<R: Routine, const NUMBER: u32>(
    subject: R::Subject<'_>,
    argument: R::Argument,
) -> R::Output {
    R::run::<_, NUMBER>(Bmi2(()), subject, argument)
}

// SAFETY, for all of them: a value of `Bmi2` exists only where the feature is.
impl Machine for Bmi2 {
    #[inline(always)]
    fn lowest(self, word: u64, count: u32) -> u64 {
        // SAFETY: see above.
        unsafe { _bzhi_u64(word, count) }
    }

    #[inline(always)]
    fn deposit_bit(self, bit: u64, word: u64) -> u64 {
        // SAFETY: see above.
        unsafe { _pdep_u64(bit, word) }
    }

    #[inline(always)]
    fn pack(self, word: u64, mask: u64) -> u64 {
        // SAFETY: see above.
        unsafe { _pext_u64(word, mask) }
    }

    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        debug_assert!(word.count_ones() > rank);
        self.select_bit(word, rank).trailing_zeros()
    }

    #[inline(always)]
    fn balanced(self, plus: u32, minus: u32, more: u32) -> u32 {
        // SAFETY: see above.
        unsafe { balanced(plus, minus, more) }
    }

    #[inline(always)]
    fn push_bits(
        self,
        line: &mut Line,
        bits: (u32, u32),
        by: u32,
        value: u64,
        flips: [u64; 3],
    ) {
        // SAFETY: see above.
        unsafe { push_bits(line, bits, by, value, flips) };
    }
}

/// As of [`Machine`]: a byte for each bit, and the sums of all bytes up to each.
#[inline]
#[target_feature(enable = "avx2")]
fn balanced(plus: u32, minus: u32, more: u32) -> u32 {
    const ZERO: u64 = 0x8080_8080_8080_8080;
    let each = |number: u64| _mm256_set1_epi64x(number as i64);
    let four = |a: u64, b: u64, c: u64, d: u64| {
        _mm256_setr_epi64x(a as i64, b as i64, c as i64, d as i64)
    };
    // A byte for each bit: all ones if it is set.
    let bits = each(0x8040_2010_0804_0201);
    let bytes = four(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let spread = |word: u32| {
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(word as i32), bytes);
        _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits)
    };
    // Within 64 bits, 128, and all.
    let sums = _mm256_sub_epi8(spread(minus), spread(plus));
    let sums = _mm256_add_epi8(sums, _mm256_slli_epi64::<8>(sums));
    let sums = _mm256_add_epi8(sums, _mm256_slli_epi64::<16>(sums));
    let sums = _mm256_add_epi8(sums, _mm256_slli_epi64::<32>(sums));
    let lower = four(ZERO, 0x0707_0707_0707_0707, ZERO, 0x0707_0707_0707_0707);
    let sums = _mm256_add_epi8(sums, _mm256_shuffle_epi8(sums, lower));
    let half = _mm256_permute2x128_si256::<0x08>(sums, sums);
    let half = _mm256_shuffle_epi8(half, each(0x0f0f_0f0f_0f0f_0f0f));
    let sums = _mm256_add_epi8(sums, half);
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(sums, _mm256_set1_epi8(-(more as i8)))) as u32
}

/// As of [`Machine`]: all words at once, instead of a loop of unforeseeable length.
#[inline]
#[target_feature(enable = "avx2")]
fn push_bits(line: &mut Line, (first, last): (u32, u32), by: u32, value: u64, flips: [u64; 3]) {
    let each = |number: u64| _mm256_set1_epi64x(number as i64);
    let four = |numbers: [u64; 4]| {
        let [a, b, c, d] = numbers.map(|number| number as i64);
        _mm256_setr_epi64x(a, b, c, d)
    };
    let ones = each(u64::MAX);
    let (first, last, by) = (u64::from(first), u64::from(last), u64::from(by));
    // Four words that begin at bits `starts` of the line, those before each of them, and
    // what to flip.
    let push = |words: __m256i, before: __m256i, starts: __m256i, flips: __m256i| {
        // The bits of each word below bit `at` of the line. A difference that would be
        // negative is zero; one of 64 and more shifts all out.
        let below = |at: u64| {
            let ends = _mm256_add_epi64(starts, each(64));
            _mm256_srlv_epi64(ones, _mm256_subs_epu16(ends, each(at)))
        };
        let upto = below(last + 1);
        let shifted = _mm256_or_si256(
            _mm256_sllv_epi64(words, each(by)),
            _mm256_srlv_epi64(before, each(64 - by)),
        );
        let moved = _mm256_andnot_si256(below(first + by), _mm256_and_si256(shifted, upto));
        // A difference that is negative is a large number here, and shifts all out.
        let value = _mm256_or_si256(
            _mm256_sllv_epi64(each(value), _mm256_sub_epi64(each(first), starts)),
            _mm256_srlv_epi64(each(value), _mm256_sub_epi64(starts, each(first))),
        );
        let stays = _mm256_andnot_si256(_mm256_andnot_si256(below(first), upto), words);
        let pushed = _mm256_or_si256(_mm256_or_si256(stays, moved), value);
        _mm256_xor_si256(pushed, flips)
    };
    let [f0, f1, f2] = flips;
    let start = line.as_mut_ptr();
    // SAFETY: all loads and stores are within the line's 64 bytes, and need no alignment.
    unsafe {
        let (low, high) = (start.cast::<__m256i>(), start.add(32).cast::<__m256i>());
        let (low_words, high_words) = (_mm256_loadu_si256(low), _mm256_loadu_si256(high));
        let before_low = _mm256_permute4x64_epi64::<0b10_01_00_00>(low_words);
        let before_high = _mm256_loadu_si256(start.add(24).cast());
        let starts = [0, 64, 128, 192];
        _mm256_storeu_si256(low, push(low_words, before_low, four(starts), four([f0, f1, f2, 0])));
        let starts = starts.map(|start| start + 256);
        _mm256_storeu_si256(high, push(high_words, before_high, four(starts), each(0)));
    }
}

/// Asks for the line of an address, which need not be anyone's.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    // SAFETY: every x86-64 machine has it; a prefetch touches no memory, so any
    // address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// The round keys of one AES-128 key, for a machine with the AES instructions.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct AesRounds {
    keys: [u128; 11],
}

impl AesRounds {
    /// Expands `key`, or `None` where the instructions are missing.
    pub(crate) fn expand(key: &[u8; 16]) -> Option<Self> {
        // SAFETY: called only when the feature is there.
        is_x86_feature_detected!("aes").then(|| unsafe { expand(u128::from_le_bytes(*key)) })
    }

    #[inline(always)]
    pub(crate) fn encrypt(&self, block: u128) -> u128 {
        // SAFETY: a value of `AesRounds` exists only where the feature is.
        unsafe { encrypt(&self.keys, block) }
    }
}

fn to_vector(block: u128) -> __m128i {
    // SAFETY: both are 16 bytes without padding, and every bit pattern is valid.
    unsafe { core::mem::transmute::<u128, __m128i>(block) }
}

fn to_integer(block: __m128i) -> u128 {
    // SAFETY: both are 16 bytes without padding, and every bit pattern is valid.
    unsafe { core::mem::transmute::<__m128i, u128>(block) }
}

#[inline]
#[target_feature(enable = "aes")]
fn encrypt(keys: &[u128; 11], block: u128) -> u128 {
    let mut state = _mm_xor_si128(to_vector(block), to_vector(keys[0]));
    for &key in &keys[1..10] {
        state = _mm_aesenc_si128(state, to_vector(key));
    }
    to_integer(_mm_aesenclast_si128(state, to_vector(keys[10])))
}

#[target_feature(enable = "aes")]
fn expand(key: u128) -> AesRounds {
    /// One step of FIPS-197's key expansion: each word of the next round key is
    /// the sum of all words up to it, plus the transformed last word.
    #[inline]
    #[target_feature(enable = "aes")]
    fn next<const CONSTANT: i32>(key: __m128i) -> __m128i {
        let assist = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<CONSTANT>(key));
        let sum = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
        let sum = _mm_xor_si128(sum, _mm_slli_si128::<8>(sum));
        _mm_xor_si128(sum, assist)
    }
    let k0 = to_vector(key);
    let k1 = next::<0x01>(k0);
    let k2 = next::<0x02>(k1);
    let k3 = next::<0x04>(k2);
    let k4 = next::<0x08>(k3);
    let k5 = next::<0x10>(k4);
    let k6 = next::<0x20>(k5);
    let k7 = next::<0x40>(k6);
    let k8 = next::<0x80>(k7);
    let k9 = next::<0x1b>(k8);
    let k10 = next::<0x36>(k9);
    AesRounds { keys: [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10].map(to_integer) }
}
