//! How large a filter two lists need.

use crate::error::BuildError;
use crate::quotient::{PLANNED_LOAD, expected_rate};
use crate::table::WIDTHS;
use crate::{AdaptiveQuotientFilter, HashScheme, Parameters};

/// What a filter takes in which every key of one list is "maybe", and none of another.
///
/// # How it is computed
/// Let there be n yes keys and m no keys in s slots, with digits of r bits. A no key shares d + 1
/// digits with a yes key, quotient included, with probability 2^-rd/s, and then the yes key needs
/// one more. So its extension has Σ 1 − exp(−m/s · 2^-rd) digits on average, over d ≥ 1, and
/// s = (n + extensions)/0.95. Of all r the one is taken whose table is smallest, and where an
/// unlisted key is "maybe" as seldom as was asked for.
///
/// No slot needs a tag that says whose it is: the lists themselves are kept in hash order beside the
/// filter, and say it. In the scheme of the *Adaptive Quotient Filters* paper (§4.3) there is such a
/// tag, a bit of every slot, and no keys are in the table, too, all of them:
/// s = (n + m + extensions of both)/0.95 slots of r + 1 bits, where r may be less, because so
/// many slots are somebody's who isn't on the yes list.
///
/// # Examples
/// Bits for each of a million yes keys, where one of 256 unlisted ones may be "maybe", without and
/// with tags, in the same table; a slot of it takes 9 bits and more, however narrow it is. For each
/// yes key there is a 64th of a no key, one, and 64:
///
/// ```
/// use twiceshy::YesNoPlan;
/// let mut table = Vec::new();
/// for no in [1 << 14, 1 << 20, 1 << 26] {
///     let plan = YesNoPlan::new(1 << 20, no, 1.0 / 256.0)?;
///     let per_key = |bytes: u64| format!("{:.1}", bytes as f64 * 8.0 / f64::from(1 << 20));
///     table.push([per_key(plan.bytes), per_key(plan.tagged_bytes)]);
/// }
/// assert_eq!(table, [["12.1", "13.1"], ["12.1", "24.2"], ["14.3", "626.5"]]);
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct YesNoPlan {
    /// Keys of the yes list.
    pub yes: usize,
    /// Keys of the no list.
    pub no: usize,
    /// Home slots of the table.
    pub slots: u64,
    /// Bits of a remainder, and of each digit of an extension.
    pub remainder_bits: u32,
    /// Slots that extensions take.
    pub extension_slots: u64,
    /// The probability that an unlisted key is "maybe".
    pub rate: f64,
    /// Bytes of memory that the filter takes.
    pub bytes: u64,
    /// What it would take with a tag for each slot, and both lists in the table.
    pub tagged_bytes: u64,
}

impl YesNoPlan {
    /// The smallest filter for so many keys, in which an unlisted one is "maybe" with no more than
    /// this probability.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn new(yes: usize, no: usize, rate: f64) -> Result<Self, BuildError> {
        let best = expected_rate(PLANNED_LOAD, *WIDTHS.end());
        if !(rate >= best && rate < 1.0) {
            return Err(BuildError::Rate(rate));
        }
        let [n, m] = [yes, no].map(|keys| keys as f64);
        let smallest = |tag: u32, extensions: &dyn Fn(f64, u32) -> f64, stored: f64| {
            // Of tables that take the same, the one with the longest remainders.
            let tables = WIDTHS.rev().filter_map(|bits| {
                let slots = slots(n, stored, rate, bits, |slots| extensions(slots, bits));
                let bytes = AdaptiveQuotientFilter::memory_for(slots, bits + tag)?;
                Some((bytes, slots, bits))
            });
            tables.min_by_key(|&(bytes, ..)| bytes).ok_or(BuildError::Capacity(yes))
        };
        let of_yes = |slots: f64, bits: u32| extension_digits(n, m, slots, bits);
        let of_both = |slots, bits| of_yes(slots, bits) + extension_digits(m, n, slots, bits);
        let (bytes, slots, remainder_bits) = smallest(0, &of_yes, n)?;
        let (tagged_bytes, ..) = smallest(1, &of_both, n + m)?;
        Ok(Self {
            yes,
            no,
            slots,
            remainder_bits,
            extension_slots: of_yes(slots as f64, remainder_bits).ceil() as u64,
            rate: expected_rate(n / slots as f64, remainder_bits),
            bytes,
            tagged_bytes,
        })
    }

    pub(super) fn parameters(&self) -> Parameters {
        Parameters {
            slots: self.slots,
            remainder_bits: self.remainder_bits,
            slot_bits: self.remainder_bits,
            value_bits: 0,
            hash: HashScheme::Aes128SipHash13,
        }
    }
}

/// The slots of a table of so many keys, n of which may be taken for an unlisted one's.
fn slots(n: f64, stored: f64, rate: f64, bits: u32, extension_digits: impl Fn(f64) -> f64) -> u64 {
    let by_rate = n / f64::from(bits).exp2() / -(-rate).ln_1p();
    let mut slots = (stored / PLANNED_LOAD).max(by_rate).max(1.0);
    // More slots need fewer digits: halfway to what would be needed it comes to rest.
    for _ in 0..16 {
        let needed = ((stored + extension_digits(slots)) / PLANNED_LOAD).max(by_rate);
        slots = slots.midpoint(needed).max(1.0);
    }
    slots.ceil() as u64
}

/// The digits that keys need besides their remainders, to be told from others.
fn extension_digits(keys: f64, others: f64, slots: f64, bits: u32) -> f64 {
    let colliding = |digits: u32| {
        let chance = (-f64::from(bits) * f64::from(digits)).exp2() / slots;
        -(-others * chance).exp_m1()
    };
    let most = 128 / bits + 1;
    keys * (1..=most).map(colliding).take_while(|&share| share > 1e-9).sum::<f64>()
}
