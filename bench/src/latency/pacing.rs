//! When requests leave.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// At fixed times, at a given rate, regardless of replies.
    Open {
        /// Requests a second.
        rate_per_s: f64,
    },
    /// The next leaves when the answer is there, as perftest does it.
    PingPong,
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { rate_per_s } => write!(
                f,
                "open loop, {rate_per_s} requests/s, each counted from when it was due"
            ),
            Self::PingPong => {
                f.write_str("ping-pong, the next leaves when the answer is there, as in perftest")
            }
        }
    }
}

/// Times at which requests are due: evenly spaced, from a begin to an end, in nanoseconds of one
/// clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    begin_ns: u64,
    interval_ns: f64,
    count: u64,
}

impl Schedule {
    /// So many requests a second (more than 0) in `length_ns` from `begin_ns` on: at least one.
    pub fn new(begin_ns: u64, length_ns: u64, rate_per_s: f64) -> Self {
        let interval_ns = 1e9 / rate_per_s;
        Self {
            begin_ns,
            interval_ns,
            count: ((length_ns as f64 / interval_ns) as u64).max(1),
        }
    }

    /// How many requests there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// When request `number` is due, counted from 0; `None` if there is none of that number.
    pub fn due_ns(&self, number: u64) -> Option<u64> {
        // Computed from the number, not from the previous time: rounding errors do not accumulate.
        (number < self.count)
            .then(|| self.begin_ns + (number as f64 * self.interval_ns).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_thousand_a_second_are_a_tenth_of_a_millisecond_apart() {
        let schedule = Schedule::new(7, 1_000_000, 10_000.0);
        assert_eq!(schedule.count(), 10);
        let due: Vec<_> = (0..11).map(|number| schedule.due_ns(number)).collect();
        assert_eq!(due[..2], [Some(7), Some(100_007)]);
        assert_eq!(due[9..], [Some(900_007), None]);
    }

    proptest! {
        #[test]
        fn no_rate_drifts(
            rate in 0.5_f64..5e6,
            length_ns in 1_u64..100_000_000_000,
            begin_ns in 0_u64..1 << 50,
        ) {
            let schedule = Schedule::new(begin_ns, length_ns, rate);
            let count = schedule.count();
            let last = schedule.due_ns(count - 1).expect("there is a last one");
            // Half a nanosecond of rounding, and the precision of a float of this size.
            let exact = (count - 1) as f64 * 1e9 / rate;
            prop_assert!(((last - begin_ns) as f64 - exact).abs() <= 1.0 + exact * 1e-12);
            prop_assert!(count == 1 || last < begin_ns + length_ns);
            prop_assert_eq!(schedule.due_ns(count), None);
            let middle = count / 2;
            prop_assert!(schedule.due_ns(middle) <= schedule.due_ns(count - 1));
        }
    }
}
