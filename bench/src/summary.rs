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
}
