//! How far a run is.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// How far the run is: a bar on a terminal, now and then a line elsewhere.
pub struct Progress {
    bar: ProgressBar,
    on_terminal: bool,
}

/// Steps between two lines where there is no terminal.
const STEPS_PER_LINE: u64 = 50;

impl Progress {
    /// Of so many steps.
    pub fn new(steps: u64) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = if on_terminal {
            ProgressBar::new(steps)
        } else {
            ProgressBar::hidden()
        };
        bar.set_length(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta:>4} {msg}") {
            bar.set_style(style);
        }
        Self { bar, on_terminal }
    }

    /// Begins another step.
    pub fn step(&self, message: &str) {
        if !self.on_terminal && self.bar.position().is_multiple_of(STEPS_PER_LINE) {
            // Ignore the error: a closed stderr is no reason to stop.
            let _ = writeln!(
                std::io::stderr(),
                "{} of {}: {message}",
                self.bar.position(),
                self.bar.length().unwrap_or_default()
            );
        }
        self.bar.set_message(message.to_owned());
        self.bar.inc(1);
    }

    /// So many steps more than was thought.
    pub fn more(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    /// After the last step.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
