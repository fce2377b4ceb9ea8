//! Figures of several repeats.

use serde::{Deserialize, Serialize};

/// The middle and the ends of some figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle one; of an even number, the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// All, in the order in which they were measured.
    pub repeats: Vec<f64>,
}

impl Summary {
    /// Of at least one figure; `None` of nothing.
    pub fn of(repeats: Vec<f64>) -> Option<Self> {
        let mut sorted = repeats.clone();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Self {
            median,
            min,
            max,
            repeats,
        })
    }

    /// Returns the uncertainty of the median: the width of an interval that contains the true
    /// median in at least 93 of 100 runs, divided by the median. It assumes no distribution, and
    /// shrinks with more figures. For fewer than five figures it is their full range, which is less
    /// certain.
    pub fn spread(&self) -> f64 {
        let mut sorted = self.repeats.clone();
        sorted.sort_by(f64::total_cmp);
        let outside = outside_of_the_interval(sorted.len());
        let width = sorted[sorted.len() - 1 - outside] - sorted[outside];
        width / self.median.abs().max(f64::MIN_POSITIVE)
    }
}

/// Returns how many of `count` sorted figures may be omitted at either end, so that the rest spans
/// the true median in 93 of 100 runs.
fn outside_of_the_interval(count: usize) -> usize {
    // A binomial tail: each figure is below the true median with probability 1/2. Five figures miss
    // it in 6.25 of 100 runs, the second to the seventh of eight in 7.03.
    const MISSED: f64 = 0.0704;
    let (mut chance, mut tail, mut outside) = (0.5_f64.powi(count as i32), 0.0, 0);
    for k in 0..count / 2 {
        tail += chance;
        if 2.0 * tail > MISSED {
            break;
        }
        outside = k;
        chance *= (count - k) as f64 / (k + 1) as f64;
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(Summary::of(vec![]), None);
        let odd = Summary::of(vec![3.0, 1.0, 9.0]).expect("figures");
        assert_eq!((odd.median, odd.min, odd.max), (3.0, 1.0, 9.0));
        assert_eq!(odd.repeats, [3.0, 1.0, 9.0]);
        assert_eq!(Summary::of(vec![4.0, 1.0]).expect("figures").median, 2.5);
    }

    #[test]
    fn more_figures_leave_more_out_at_the_ends() {
        // From tables of the sign test: the median lies between the second and seventh of 8, and
        // the sixth and fifteenth of 20.
        let outside = [1, 2, 5, 7, 8, 11, 20].map(outside_of_the_interval);
        assert_eq!(outside, [0, 0, 0, 0, 1, 2, 5]);
    }

    #[test]
    fn the_spread_is_of_the_median_and_shrinks_with_repeats() {
        let spread = |figures: &[f64]| Summary::of(figures.to_vec()).expect("figures").spread();
        assert!((spread(&[10.0, 11.0, 9.0]) - 0.2).abs() < 1e-9);
        assert_eq!(spread(&[10.0; 5]), 0.0);
        let some = [9.0, 9.5, 10.0, 10.5, 11.0];
        assert!((spread(&some) - 0.2).abs() < 1e-9);
        let many: Vec<f64> = some.iter().copied().cycle().take(40).collect();
        assert!(spread(&many) <= 0.1, "{}", spread(&many));
        // One that is far off does not count once there are eight.
        assert!((spread(&[9.0, 10.0, 10.0, 10.0, 10.0, 10.0, 11.0, 500.0]) - 0.1).abs() < 1e-9);
    }
}
