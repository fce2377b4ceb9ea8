//! How long something took, often.

use std::{collections::BTreeMap, fmt};

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::time::ROUND_TRIP_UNITS;

/// How long something took, each time that it did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread(BTreeMap<u64, u64>);

impl Spread {
    pub(super) fn add(&mut self, units: u64) {
        *self.0.entry(units).or_default() += 1;
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for (units, times) in &other.0 {
            *self.0.entry(*units).or_default() += times;
        }
    }

    /// How often.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Round trips of a link that `thousandths` in a thousand cases did not exceed; 0 without any
    /// case.
    #[must_use]
    pub fn within_rt(&self, thousandths: u64) -> f64 {
        let wanted = (self.count() * thousandths).div_ceil(1000);
        let mut seen = 0;
        let reached = self.0.iter().find(|(_, times)| {
            seen += **times;
            seen >= wanted
        });
        reached.map_or(0.0, |(units, _)| *units as f64 / ROUND_TRIP_UNITS as f64)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, most] = [500, 990, 1000].map(|thousandths| self.within_rt(thousandths));
        write!(
            f,
            "{}: p50 {p50:.1}, p99 {p99:.1}, most {most:.1}",
            self.count()
        )
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut spread = serializer.serialize_struct("Spread", 4)?;
        spread.serialize_field("count", &self.count())?;
        spread.serialize_field("p50_rt", &self.within_rt(500))?;
        spread.serialize_field("p99_rt", &self.within_rt(990))?;
        spread.serialize_field("most_rt", &self.within_rt(1000))?;
        spread.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_counts_values_by_duration() {
        let mut spread = Spread::default();
        assert_eq!(spread.to_string(), "0: p50 0.0, p99 0.0, most 0.0");
        for units in [0, 32, 32, 64] {
            spread.add(units);
        }
        let mut late = Spread::default();
        late.add(320);
        spread.add_all(&late);
        assert_eq!(spread.to_string(), "5: p50 1.0, p99 10.0, most 10.0");
        assert!((spread.within_rt(200) - 0.0).abs() < f64::EPSILON);
        assert!((spread.within_rt(800) - 2.0).abs() < f64::EPSILON);
    }
}
