//! How long a test goes on, and what it draws from.

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

/// The seed that `COVALENT_SEED` gives, a fresh one if this is a soak, else always the same. It is printed.
pub fn seed() -> u64 {
    let seed = match env::var("COVALENT_SEED") {
        Ok(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16)
            .expect("COVALENT_SEED is hexadecimal"),
        Err(_) if soak_lasts().is_some() => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |now| now.as_nanos() as u64),
        Err(_) => 1,
    };
    eprintln!("COVALENT_SEED={seed:#x}");
    seed
}
