//! Operations that treat a line as vectors. They replace loops of unpredictable length.
#![expect(unsafe_code, reason = "bytes as vectors")]

use super::word::Line;
use core::arch::x86_64::{
    __m256i, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256, _mm256_andnot_si256,
    _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_permute2x128_si256,
    _mm256_permute4x64_epi64, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi64x, _mm256_shuffle_epi8, _mm256_slli_epi64, _mm256_sllv_epi64,
    _mm256_srlv_epi64, _mm256_sub_epi8, _mm256_sub_epi64, _mm256_subs_epu16, _mm256_xor_si256,
};

/// Implements [`Machine::balanced`](super::machine::Machine::balanced) with one byte per bit and
/// running sums of these bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn balanced(plus: u32, minus: u32, more: u32) -> u32 {
    // A shuffle with these indices returns zero bytes.
    const ZERO: u64 = 0x8080_8080_8080_8080;
    // One byte per bit, all ones if the bit is set.
    let bits = each(0x8040_2010_0804_0201);
    let bytes = four(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let spread = |word: u32| {
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(word.cast_signed()), bytes);
        _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits)
    };
    // Compute running sums within 64 bits, then within 128 bits, then over all bits.
    let sums = _mm256_sub_epi8(spread(minus), spread(plus));
    let sums = _mm256_add_epi8(sums, _mm256_slli_epi64::<8>(sums));
    let sums = _mm256_add_epi8(sums, _mm256_slli_epi64::<16>(sums));
    let sums = _mm256_add_epi8(sums, _mm256_slli_epi64::<32>(sums));
    let lower = four(ZERO, 0x0707_0707_0707_0707, ZERO, 0x0707_0707_0707_0707);
    let sums = _mm256_add_epi8(sums, _mm256_shuffle_epi8(sums, lower));
    let half = _mm256_permute2x128_si256::<0x08>(sums, sums);
    let half = _mm256_shuffle_epi8(half, each(0x0f0f_0f0f_0f0f_0f0f));
    let sums = _mm256_add_epi8(sums, half);
    let balanced = _mm256_cmpeq_epi8(sums, _mm256_set1_epi8(-(more as i8)));
    _mm256_movemask_epi8(balanced).cast_unsigned()
}

/// Implements [`Machine::push_bits`](super::machine::Machine::push_bits) for all words in parallel.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn push_bits(
    line: &mut Line,
    (first, last): (u32, u32),
    by: u32,
    value: u64,
    flips: [u64; 3],
) {
    let (first, last, by) = (u64::from(first), u64::from(last), u64::from(by));
    // Pushes the bits of four words, which begin at bits `starts` of the line. `before` has the
    // word before each of them.
    let push = |words: __m256i, before: __m256i, starts: __m256i| {
        // For each word, returns a mask of the bits below bit `at` of the line. The subtraction
        // saturates at zero, and a shift by 64 or more returns zero.
        let below = |at: u64| {
            let ends = _mm256_add_epi64(starts, each(64));
            _mm256_srlv_epi64(each(u64::MAX), _mm256_subs_epu16(ends, each(at)))
        };
        let upto = below(last + 1);
        let shifted = _mm256_or_si256(
            _mm256_sllv_epi64(words, each(by)),
            _mm256_srlv_epi64(before, each(64 - by)),
        );
        let moved = _mm256_andnot_si256(below(first + by), _mm256_and_si256(shifted, upto));
        // A negative difference wraps to a large number here, so its shift returns zero.
        let value = _mm256_or_si256(
            _mm256_sllv_epi64(each(value), _mm256_sub_epi64(each(first), starts)),
            _mm256_srlv_epi64(each(value), _mm256_sub_epi64(starts, each(first))),
        );
        let stays = _mm256_andnot_si256(_mm256_andnot_si256(below(first), upto), words);
        _mm256_or_si256(_mm256_or_si256(stays, moved), value)
    };
    let [low, high] = [load(line.first_chunk()), load(line.last_chunk())];
    // The word before the first one doesn't matter, because its bits never move into the range.
    let before_low = _mm256_permute4x64_epi64::<0b10_01_00_00>(low);
    let before_high = load(line[24..].first_chunk());
    let [f0, f1, f2] = flips;
    let low = push(low, before_low, four(0, 64, 128, 192));
    let low = _mm256_xor_si256(low, four(f0, f1, f2, 0));
    let high = push(high, before_high, four(256, 320, 384, 448));
    *line.first_chunk_mut().expect("half a line") = bytes_of(low);
    *line.last_chunk_mut().expect("half a line") = bytes_of(high);
}

#[inline]
#[target_feature(enable = "avx2")]
fn each(number: u64) -> __m256i {
    _mm256_set1_epi64x(number.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn four(a: u64, b: u64, c: u64, d: u64) -> __m256i {
    _mm256_setr_epi64x(a.cast_signed(), b.cast_signed(), c.cast_signed(), d.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: Option<&[u8; 32]>) -> __m256i {
    // SAFETY: both types have 32 bytes, and every bit pattern is valid.
    unsafe { core::mem::transmute::<[u8; 32], __m256i>(*bytes.expect("half a line")) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(vector: __m256i) -> [u8; 32] {
    // SAFETY: both types have 32 bytes, and every bit pattern is valid.
    unsafe { core::mem::transmute::<__m256i, [u8; 32]>(vector) }
}
