//! Seeds, and for how long to go on drawing them.

use std::time::{Duration, Instant};

use super::{
    environment::{given_seed, lasts, usual_seed},
    noise::Noise,
};

/// Seeds for as long as a test is to last. Each is printed, and can be given in `COVALENT_SEED` to begin with it.
pub struct Seeds {
    noise: Noise,
    given: Option<u64>,
    end: Instant,
}

impl Seeds {
    /// Seeds for `usual`, or for `SOAK_SECONDS`.
    pub fn for_about(usual: Duration) -> Self {
        Self {
            noise: Noise::new(usual_seed()),
            given: given_seed(),
            end: Instant::now() + lasts(usual),
        }
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// The next seed.
    pub fn draw(&mut self) -> u64 {
        let seed = self.given.take().unwrap_or_else(|| self.noise.next());
        eprintln!("COVALENT_SEED={seed:#x}");
        seed
    }
}
