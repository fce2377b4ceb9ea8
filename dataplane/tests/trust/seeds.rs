//! Seeds, and for how long to go on drawing them.

use std::time::{Duration, Instant};

use super::{
    environment::{given_seed, lasts, usual_seed},
    noise::Noise,
};

/// Seeds for the duration of a test. Each is printed. `COVALENT_SEED` sets the first one.
pub struct Seeds {
    noise: Noise,
    first_seed: Option<u64>,
    end: Instant,
}

impl Seeds {
    /// Seeds for `usual`, or for `SOAK_SECONDS`.
    pub fn for_about(usual: Duration) -> Self {
        Self {
            noise: Noise::new(usual_seed()),
            first_seed: given_seed(),
            end: Instant::now() + lasts(usual),
        }
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// The next seed.
    pub fn draw(&mut self) -> u64 {
        let seed = self.first_seed.take().unwrap_or_else(|| self.noise.next());
        eprintln!("COVALENT_SEED={seed:#x}");
        seed
    }
}
