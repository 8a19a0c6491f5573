//! Compares the cost of our keyed hash with safe alternatives.
//!
//! `cargo bench -p twiceshy --bench hash` prints nanoseconds per key, the best of
//! several interleaved rounds: *batch* over independent keys, *chain* where each key
//! depends on the hash before it. Without `--bench`, as in a test, it runs one round.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use polyval::Polyval;
use polyval::universal_hash::UniversalHash;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::hint::black_box;
use std::time::Instant;
use twiceshy::{Secret, hash::KeyedHasher};

const ROUNDS: usize = 25;
const KEYS: usize = 20_000;
const LENGTHS: [usize; 6] = [8, 16, 20, 32, 64, 100];

fn nanoseconds<const CHAINED: bool>(
    hash: impl Fn(&[u8]) -> u128,
    pool: &[u8],
    length: usize,
) -> f64 {
    let start = Instant::now();
    let mut sum = 0u128;
    for i in 0..KEYS {
        let position = if CHAINED { (sum & 0xff) as usize } else { i % 256 };
        sum = sum.wrapping_add(hash(black_box(&pool[position..position + length])));
    }
    black_box(sum);
    start.elapsed().as_secs_f64() * 1e9 / KEYS as f64
}

fn main() {
    let pool: Vec<u8> = (0..1024u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let hasher = KeyedHasher::new(&Secret::from_bytes([1; 16]));
    let sip = SipHasher13::new_with_keys(1, 2);
    let aes = Aes128::new(&[1; 16].into());
    let universal = Polyval::new(&[2; 16].into());

    let ours = |key: &[u8]| hasher.hash_bytes(key).as_u128();
    let ours_u64 =
        |key: &[u8]| hasher.hash(&u64::from_le_bytes(key[..8].try_into().unwrap())).as_u128();
    let siphash = |key: &[u8]| {
        let mut state = sip;
        state.write(key);
        state.finish128().as_u128()
    };
    let polyval_aes = |key: &[u8]| {
        let mut state = universal.clone();
        state.update_padded(key);
        let mut length = [0u8; 16];
        length[..8].copy_from_slice(&(key.len() as u64).to_le_bytes());
        state.update(&[length.into()]);
        let mut block: aes::Block = <[u8; 16]>::from(state.finalize()).into();
        aes.encrypt_block(&mut block);
        u128::from_le_bytes(block.into())
    };

    let measuring = std::env::args().any(|argument| argument == "--bench");
    println!("{:>6} {:>26} {:>9} {:>9}", "bytes", "hash", "batch ns", "chain ns");
    for length in LENGTHS {
        let mut best = [[f64::MAX; 2]; 4];
        for _ in 0..if measuring { ROUNDS } else { 1 } {
            let as_u64 = length == 8;
            let times = [
                [
                    if as_u64 { nanoseconds::<false>(ours_u64, &pool, length) } else { f64::MAX },
                    if as_u64 { nanoseconds::<true>(ours_u64, &pool, length) } else { f64::MAX },
                ],
                [
                    nanoseconds::<false>(ours, &pool, length),
                    nanoseconds::<true>(ours, &pool, length),
                ],
                [
                    nanoseconds::<false>(siphash, &pool, length),
                    nanoseconds::<true>(siphash, &pool, length),
                ],
                [
                    nanoseconds::<false>(polyval_aes, &pool, length),
                    nanoseconds::<true>(polyval_aes, &pool, length),
                ],
            ];
            for (best, times) in best.iter_mut().zip(times) {
                *best = [best[0].min(times[0]), best[1].min(times[1])];
            }
        }
        let names = ["twiceshy, as u64", "twiceshy", "SipHash-1-3, 128 bits", "POLYVAL then AES"];
        for (name, [batch, chain]) in names.into_iter().zip(best) {
            if batch < f64::MAX {
                println!("{length:>6} {name:>26} {batch:>9.1} {chain:>9.1}");
            }
        }
    }
}
