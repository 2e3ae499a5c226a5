//! Where chance comes from.
//!
//! Job ids, member identities and jitter need random bits; tests and simulations need the same bits again. So
//! chance is a value: an [`Entropy`] seeded by the operating system in production and by a printed number in a
//! test. The generator is SplitMix64 (Steele, Lea, Flood 2014): one addition and three mixing steps, a period of
//! 2⁶⁴. It is fit for telling things apart and for spreading load, and must never be used for secrets.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of random numbers. May be shared between threads; each call takes the next number of one stream.
#[derive(Debug)]
pub struct Entropy {
    state: AtomicU64,
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Entropy {
    /// Seeds a stream from the operating system.
    pub fn from_system() -> Entropy {
        // The standard library keys every RandomState with bits of the operating system.
        Entropy::seeded(RandomState::new().build_hasher().finish())
    }

    /// Starts the stream that belongs to `seed`: the same seed gives the same numbers.
    pub fn seeded(seed: u64) -> Entropy {
        Entropy { state: AtomicU64::new(seed) }
    }

    /// The next 64 random bits.
    pub fn next_u64(&self) -> u64 {
        // ORDER: Relaxed; the counter publishes nothing, each caller only needs a number of its own.
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, but not including, `bound`; 0 when `bound` is 0. The bias is below 2⁻³² for bounds
    /// below 2³².
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A fraction in `0.0..1.0`.
    pub fn fraction(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Default for Entropy {
    fn default() -> Entropy {
        Entropy::from_system()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (a, b) = (Entropy::seeded(7), Entropy::seeded(7));

        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
    }

    #[test]
    fn two_streams_of_the_system_differ() {
        assert_ne!(Entropy::from_system().next_u64(), Entropy::from_system().next_u64());
    }

    #[test]
    fn a_bounded_number_stays_below_its_bound() {
        let entropy = Entropy::seeded(1);

        assert!((0..1_000).all(|_| entropy.below(10) < 10));
        assert_eq!(entropy.below(0), 0);
    }
}
