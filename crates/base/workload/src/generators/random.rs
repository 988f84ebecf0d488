//! Seeded streams of random numbers, with the same values on every machine.
//!
//! Each use of random numbers has its own named stream, so that drawing more numbers for one use
//! does not change the numbers of another use. So runs with one seed and different policies have
//! the same workload. All arithmetic uses basic operations of IEEE 754 and `libm`, never the
//! mathematics library of the platform.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream of a seed for one use.
    pub fn new(seed: u64, name: &str) -> Self {
        let mut state = seed ^ fnv1a(name.as_bytes());
        let mut key = [0; 16];
        for half in key.chunks_exact_mut(8) {
            half.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Self(Pcg64Mcg::from_seed(key))
    }

    /// 64 uniformly distributed bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in the open interval (0, 1). Neither end is ever drawn.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform number in `0..limit`. The bias is below `limit` / 2^64.
    #[inline]
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u32
    }

    /// A standard normal number, by inversion. Each value uses exactly one uniform number.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        crate::generators::normal::quantile(self.uniform())
    }

    /// An exponential number with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }
}

/// FNV-1a, 64 bits: a hash of the stream's name.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014). It expands a seed into independent words.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Draws from a fixed discrete distribution in constant time (Vose's alias method, 1991).
#[derive(Clone, Debug)]
pub(crate) struct AliasTable {
    slots: Vec<Slot>,
}

/// A column of the table. A draw up to the threshold returns the column's own outcome. A draw above
/// the threshold returns the column's other outcome.
#[derive(Clone, Copy, Debug)]
struct Slot {
    threshold: u32,
    other: u32,
}

impl AliasTable {
    /// A table of the outcomes `0..weights.len()`. Weights must not be negative, and not all of
    /// them may be zero.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let scale = weights.len() as f64 / total;
        let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut slots: Vec<Slot> = (0..weights.len())
            .map(|own| Slot {
                threshold: u32::MAX,
                other: own as u32,
            })
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&outcome| left[outcome] < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            slots[poor] = Slot {
                threshold: (left[poor] * 4_294_967_296.0) as u32,
                other: rich as u32,
            };
            left[rich] -= 1.0 - left[poor];
            if left[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { slots }
    }

    /// The next outcome.
    #[inline]
    pub(crate) fn draw(&self, stream: &mut Stream) -> u32 {
        let product = u128::from(stream.bits()) * self.slots.len() as u128;
        let column = (product >> 64) as usize;
        let slot = self.slots[column];
        // Within a column, the low half of the product is uniform.
        if ((product as u64) >> 32) as u32 <= slot.threshold {
            column as u32
        } else {
            slot.other
        }
    }
}

/// The weights of Zipf's law: rank `r`, counted from 1, has the weight `r^-exponent`.
pub(crate) fn zipf_weights(ranks: u32, exponent: f64) -> Vec<f64> {
    (1..=ranks)
        .map(|rank| libm::pow(f64::from(rank), -exponent))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_by_name_and_repeat_by_seed() {
        let first = |seed, name| Stream::new(seed, name).bits();
        assert_eq!(first(1, "sizes"), first(1, "sizes"));
        assert_ne!(first(1, "sizes"), first(1, "clients"));
        assert_ne!(first(1, "sizes"), first(2, "sizes"));
    }

    #[test]
    fn the_first_draws_are_the_same_on_every_machine() {
        let mut stream = Stream::new(1, "sizes");
        let drawn = [(); 3].map(|()| stream.normal().to_bits());
        assert_eq!(
            drawn,
            [
                0xbfee_a7b4_30cb_7068,
                0x3fd6_8f5c_1783_ef1d,
                0xbfc5_0677_7613_affd
            ]
        );
    }

    #[test]
    fn an_alias_table_draws_its_weights() {
        let weights = [5.0, 0.0, 1.0, 4.0];
        let table = AliasTable::new(&weights);
        let mut stream = Stream::new(7, "test");
        let draws = 1_000_000;
        let mut counts = [0u32; 4];
        for _ in 0..draws {
            counts[table.draw(&mut stream) as usize] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            let share: f64 = weight / 10.0;
            let sigma = (share * (1.0 - share) * f64::from(draws)).sqrt();
            let off = (f64::from(*count) - share * f64::from(draws)).abs();
            assert!(off <= 4.0 * sigma, "{counts:?}");
        }
    }

    #[test]
    fn below_reaches_both_ends_and_never_the_limit() {
        let mut stream = Stream::new(3, "test");
        let mut seen = [false; 5];
        (0..1000).for_each(|_| seen[stream.below(5) as usize] = true);
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn exponential_draws_have_mean_one() {
        let mut stream = Stream::new(3, "test");
        let mean = (0..100_000).map(|_| stream.exponential()).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 4.0 / 1e5_f64.sqrt(), "{mean}");
    }
}
