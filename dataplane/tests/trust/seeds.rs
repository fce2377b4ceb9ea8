//! Seeds, and for how long to go on drawing them.

use std::{
    env,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::noise::Noise;

/// Seeds for as long as a test is to last. Each is printed, and can be given in `COVALENT_SEED` to begin with it.
pub struct Seeds {
    noise: Noise,
    given: Option<u64>,
    end: Instant,
}

impl Seeds {
    /// Seeds for `usual`, or for `SOAK_SECONDS`.
    pub fn for_about(usual: Duration) -> Self {
        let soak = soak();
        let first = if soak.is_some() {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |now| now.as_nanos() as u64)
        } else {
            1
        };
        let given = env::var("COVALENT_SEED").ok().map(|text| {
            let digits = text.trim_start_matches("0x");
            u64::from_str_radix(digits, 16).expect("COVALENT_SEED is hexadecimal")
        });
        Self {
            noise: Noise::new(first),
            given,
            end: Instant::now() + soak.unwrap_or(usual),
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

/// How long a soak lasts, if this is one.
fn soak() -> Option<Duration> {
    let text = env::var("SOAK_SECONDS").ok()?;
    let seconds = text.parse().expect("SOAK_SECONDS is a number of seconds");
    Some(Duration::from_secs(seconds))
}
