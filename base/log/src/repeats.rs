//! Recently written lines, and how often they were repeated.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How long a line stands for those that are equal to it.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Most different lines that are distinguished at a time.
const LINES_MAX: usize = 256;

/// Remembers the lines of the last [`WINDOW`].
#[derive(Debug, Default)]
pub struct Repeats {
    lines: HashMap<String, Line>,
}

#[derive(Debug)]
struct Line {
    until: Instant,
    repeats: u64,
}

impl Repeats {
    /// Whether to write `line` now. If not, it is counted, and [`Repeats::take_due`] returns the
    /// count.
    pub fn admit(&mut self, line: &str, now: Instant) -> bool {
        // Those that did not come again are of no more use.
        self.lines
            .retain(|_, line| line.repeats > 0 || line.until > now);
        // Beyond the bound all other lines share one entry, so that a flood of different lines is
        // bounded too.
        let key = if self.lines.len() < LINES_MAX || self.lines.contains_key(line) {
            line
        } else {
            "other lines"
        };
        if let Some(known) = self.lines.get_mut(key) {
            known.repeats += 1;
            return false;
        }
        self.lines.insert(
            key.to_owned(),
            Line {
                until: now + WINDOW,
                repeats: 0,
            },
        );
        true
    }

    /// When the next count is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let repeated = self.lines.values().filter(|line| line.repeats > 0);
        repeated.map(|line| line.until).min()
    }

    /// Removes the lines whose window has ended. Returns the repeated ones with their counts.
    pub fn take_due(&mut self, now: Instant) -> Vec<(String, u64)> {
        let mut due = Vec::new();
        self.lines.retain(|text, line| {
            if line.until > now {
                return true;
            }
            if line.repeats > 0 {
                due.push((text.clone(), line.repeats));
            }
            false
        });
        due.sort();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_written_and_the_rest_is_counted() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        assert!(repeats.admit("down", start));
        assert!(repeats.admit("up", start));
        assert_eq!(repeats.next_due(), None, "nothing was repeated");
        assert!(!repeats.admit("down", start));
        assert!(!repeats.admit("down", start + WINDOW / 2));
        assert_eq!(repeats.take_due(start + WINDOW / 2), []);
        assert_eq!(repeats.next_due(), Some(start + WINDOW));
        assert_eq!(repeats.take_due(start + WINDOW), [("down".to_owned(), 2)]);
        assert_eq!(repeats.next_due(), None);
        assert!(repeats.admit("down", start + WINDOW), "a new window begins");
    }

    #[test]
    fn a_flood_of_different_lines_is_bounded() {
        let now = Instant::now();
        let mut repeats = Repeats::default();
        let written = (0..10_000)
            .filter(|index| repeats.admit(&index.to_string(), now))
            .count();
        assert!(written <= LINES_MAX + 1, "{written}");
        let counted: u64 = repeats
            .take_due(now + WINDOW)
            .iter()
            .map(|(_, count)| count)
            .sum();
        assert_eq!(written as u64 + counted, 10_000);
    }
}
