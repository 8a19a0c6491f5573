//! Operations for x86-64 machines that have instructions beyond the baseline.
#![expect(unsafe_code, reason = "instructions that not every x86-64 machine has")]

use super::avx2;
use super::machine::{Keepable, Machine, Operation};
use super::word::Line;
use core::arch::x86_64::{
    __cpuid, __m128i, _MM_HINT_T0, _bzhi_u64, _mm_aesenc_si128, _mm_aesenclast_si128,
    _mm_aeskeygenassist_si128, _mm_prefetch, _mm_shuffle_epi32, _mm_slli_si128, _mm_xor_si128,
    _pdep_u64, _pext_u64,
};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Proof that detection found BMI1, BMI2, POPCNT, LZCNT, AES and AVX2 on this machine.
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
}

/// Returns whether `pdep` is slower than the portable code. AMD machines before Zen 3 (family 19h)
/// run it in microcode. Hygon machines derive from them and do the same.
fn deposits_slowly() -> bool {
    let vendor = __cpuid(0);
    let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    let signature = __cpuid(1).eax;
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    let theirs = [b"AuthenticAMD", b"HygonGenuine"];
    theirs.iter().any(|name| vendor.as_flattened() == *name) && family < 0x19
}

#[target_feature(enable = "bmi1,bmi2,popcnt,lzcnt,aes,avx2")]
pub(super) fn run_with_bmi2<O: Operation<Argument = ()>, const SHAPE: u32>(
    machine: Bmi2,
    operation: O,
) -> O::Output {
    operation.run::<_, SHAPE>(machine, ())
}

/// Runs a kept operation, compiled for these instructions.
///
/// # Safety
/// The machine must have the features that [`Bmi2::detect`] checks.
#[target_feature(enable = "bmi1,bmi2,popcnt,lzcnt,aes,avx2")]
pub(super) unsafe fn run_kept_with_bmi2<O: Keepable, const SHAPE: u32>(
    on: O::On<'_>,
    argument: O::Argument,
) -> O::Output {
    on.run::<_, SHAPE>(Bmi2(()), argument)
}

// SAFETY of all methods: a value of `Bmi2` exists only if the machine has the features.
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
    fn balanced(self, plus: u32, minus: u32, more: u32) -> u32 {
        // SAFETY: see above.
        unsafe { avx2::balanced(plus, minus, more) }
    }

    #[inline(always)]
    fn push_bits(self, line: &mut Line, bits: (u32, u32), by: u32, value: u64, flips: [u64; 3]) {
        // SAFETY: see above.
        unsafe { avx2::push_bits(line, bits, by, value, flips) };
    }
}

/// Prefetches the cache line that contains an address (`prefetcht0`). The address may be invalid.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    // SAFETY: every x86-64 machine has the instruction. A prefetch may have any address, because it
    // never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// The round keys of one AES-128 key, for a machine with the AES instructions.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct AesRounds {
    keys: [u128; 11],
}

impl AesRounds {
    /// Expands `key`. Returns `None` if the machine lacks the instructions.
    pub(crate) fn expand(key: &[u8; 16]) -> Option<Self> {
        // SAFETY: runs only if the machine has the feature.
        is_x86_feature_detected!("aes").then(|| unsafe { expand(u128::from_le_bytes(*key)) })
    }

    #[inline(always)]
    pub(crate) fn encrypt(&self, block: u128) -> u128 {
        // SAFETY: a value of `AesRounds` exists only if the machine has the feature.
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
    /// Computes one step of FIPS-197's key expansion. Each word of the next round key is the sum of
    /// all words up to it, plus the transformed last word.
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
