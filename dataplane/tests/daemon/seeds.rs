//! Test durations and seeds.

use std::{
    env,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// `SOAK_SECONDS`, or as long as usual.
pub fn lasts(usual: Duration) -> Duration {
    soak_lasts().unwrap_or(usual)
}

/// `SOAK_SECONDS`, if that is given.
pub fn soak_lasts() -> Option<Duration> {
    let text = env::var("SOAK_SECONDS").ok()?;
    let seconds = text.parse().expect("SOAK_SECONDS is a number of seconds");
    Some(Duration::from_secs(seconds))
}

/// Returns the seed if none is given: a new one for a soak, else always the same.
pub fn usual_seed() -> u64 {
    if soak_lasts().is_none() {
        return 1;
    }
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |now| now.as_nanos() as u64)
}

/// The seed that `COVALENT_SEED` gives.
pub fn given_seed() -> Option<u64> {
    let text = env::var("COVALENT_SEED").ok()?;
    let digits = text.trim_start_matches("0x");
    Some(u64::from_str_radix(digits, 16).expect("COVALENT_SEED is hexadecimal"))
}

/// The seed that is given, or else the usual one. It is printed.
pub fn seed() -> u64 {
    let seed = given_seed().unwrap_or_else(usual_seed);
    eprintln!("COVALENT_SEED={seed:#x}");
    seed
}
