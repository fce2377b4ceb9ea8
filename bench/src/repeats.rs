//! How often something is measured: a number of times, or until its median is known well enough.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::summary::Summary;

/// Figures from which on their spread holds the median in 93 of 100 runs.
const SPREAD_KNOWN_FROM: u32 = 5;

/// How often all sides take turns.
#[derive(Debug, Clone, Copy, Args)]
pub struct Repeats {
    /// How often all sides take turns at least.
    #[arg(
        long = "repeats",
        default_value_t = 5,
        env = "COVALENT_BENCH_REPEATS",
        value_parser = clap::value_parser!(u32).range(1..=100),
    )]
    pub least: u32,
    /// Repeats until the median of every side is known to within this fraction of itself (0.05: 5
    /// %). The output reports if this is not reached.
    #[arg(long, value_name = "PART", env = "COVALENT_BENCH_SPREAD_MAX", value_parser = part)]
    pub spread_max: Option<f64>,
    /// Maximum number of repeats, if --spread-max requires more.
    #[arg(
        long = "repeats-max",
        default_value_t = 50,
        env = "COVALENT_BENCH_REPEATS_MAX",
        value_parser = clap::value_parser!(u32).range(1..=1000),
    )]
    pub most: u32,
}

/// Whether the bound on the spread was kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// How often all sides took turns.
    pub repeats: u32,
    /// The bound, if there was one.
    pub spread_max: Option<f64>,
    /// The widest spread of a side.
    pub spread: f64,
}

impl Settled {
    /// Compares `figures` of `repeats` repeats with the bound.
    pub fn of<'a>(
        repeats: u32,
        spread_max: Option<f64>,
        figures: impl Iterator<Item = &'a Summary>,
    ) -> Self {
        Self {
            repeats,
            spread_max,
            spread: widest(figures),
        }
    }

    /// Whether the spread is within the bound, or none was given.
    pub fn is_within(&self) -> bool {
        self.spread_max.is_none_or(|most| self.spread <= most)
    }

    /// In words.
    pub fn words(&self) -> String {
        let Self {
            repeats,
            spread_max,
            spread,
        } = self;
        let spread = spread * 100.0;
        match spread_max {
            Some(most) if !self.is_within() => format!(
                "{repeats} repeats; NOT SETTLED: the widest spread is {spread:.1} % and not {:.1} \
                 %",
                most * 100.0
            ),
            Some(most) => format!(
                "{repeats} repeats; the widest spread is {spread:.1} %, within {:.1} %",
                most * 100.0
            ),
            None => format!("{repeats} repeats; the widest spread is {spread:.1} %"),
        }
    }
}

impl Repeats {
    /// Returns whether to run another repeat after `done` repeats with the compared `figures`.
    pub fn continues<'a>(&self, done: u32, figures: impl Iterator<Item = &'a Summary>) -> bool {
        if done < self.least {
            return true;
        }
        let Some(most) = self.spread_max else {
            return false;
        };
        // The spread of fewer repeats is not meaningful, and that of one is 0.
        done < self.most.max(self.least) && (done < SPREAD_KNOWN_FROM || widest(figures) > most)
    }

    /// Returns the final state of the repeats.
    pub fn settled<'a>(&self, repeats: u32, figures: impl Iterator<Item = &'a Summary>) -> Settled {
        Settled::of(repeats, self.spread_max, figures)
    }
}

fn widest<'a>(figures: impl Iterator<Item = &'a Summary>) -> f64 {
    figures.map(Summary::spread).fold(0.0, f64::max)
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.001..=10.0).contains(&part) => Ok(part),
        _ => Err("expected 0.001 to 10".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(spread_max: Option<f64>) -> Repeats {
        Repeats {
            least: 2,
            spread_max,
            most: 8,
        }
    }

    fn figures(of: &[f64]) -> [Summary; 2] {
        [
            Summary::of(vec![5.0; of.len()]).expect("figures"),
            Summary::of(of.to_vec()).expect("figures"),
        ]
    }

    #[test]
    fn without_a_bound_the_configured_number_is_run() {
        let wide = figures(&[1.0, 9.0]);
        assert!(repeats(None).continues(1, wide.iter()));
        assert!(!repeats(None).continues(2, wide.iter()));
        assert!(repeats(None).settled(2, wide.iter()).is_within());
    }

    #[test]
    fn a_bound_adds_repeats_until_it_is_met_or_the_limit_is_reached() {
        let (wide, narrow) = (figures(&[1.0, 9.0]), figures(&[5.0, 5.1]));
        let bound = repeats(Some(0.05));
        assert!(bound.continues(1, narrow.iter()));
        assert!(bound.continues(4, narrow.iter()));
        assert!(!bound.continues(5, narrow.iter()));
        assert!(bound.continues(7, wide.iter()));
        assert!(!bound.continues(8, wide.iter()));
        let settled = bound.settled(8, wide.iter());
        assert!(!settled.is_within());
        assert!(
            settled
                .words()
                .contains("NOT SETTLED: the widest spread is 160.0 %"),
            "{}",
            settled.words()
        );
        assert!(bound.settled(2, narrow.iter()).is_within());
    }
}
