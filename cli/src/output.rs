//! Output: whole lines to standard output, colored only on request.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use anyhow::Result;
use covalent_api::causes::in_one_line;
use ratatui::crossterm::terminal;
use serde::Serialize;

use self::table::Column;
pub use self::table::{Cell, Table, column, wide};
pub use comfy_table::Color;

mod table;
#[cfg(test)]
pub mod walk;

/// Writes a line to standard output.
///
/// # Errors
/// Fails if the reader of standard output is gone.
pub fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// A number with its noun: `1 queue`, `2 queues`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// Prints an error on standard error.
pub fn complain(error: &anyhow::Error) {
    // Ignore a failed write: the exit status reports the error too.
    let _ = writeln!(io::stderr(), "covalent: {}", in_one_line(error.as_ref()));
}

/// Writes `value` as indented JSON.
///
/// # Errors
/// Fails if the reader of standard output is gone.
pub fn json(value: &impl Serialize) -> Result<()> {
    line(&serde_json::to_string_pretty(value)?)
}

/// Longest line of a table that goes into a file or a pipe, in columns.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// The appearance of tables: colored on a terminal unless `NO_COLOR` is set
/// (<https://no-color.org>), plain elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    color: bool,
    /// Longest line of a table, in columns.
    width: usize,
    /// All columns of all tables, each as wide as its contents.
    shows_all: bool,
}

impl Theme {
    /// The theme that suits standard output.
    pub fn of_stdout() -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let terminal = || terminal::size().ok().map(|(columns, _)| columns.into());
        Self {
            color: is_terminal && !refused,
            width: width(
                env::var("COLUMNS").ok().as_deref(),
                is_terminal.then(terminal).flatten(),
            ),
            shows_all: false,
        }
    }

    /// Without colors, with all columns and broken nowhere.
    #[cfg(test)]
    pub const PLAIN: Self = Self {
        color: false,
        width: WIDTH_WITHOUT_TERMINAL,
        shows_all: true,
    };

    /// As a pipe of so many columns receives it.
    #[cfg(test)]
    pub const fn of_width(width: usize) -> Self {
        Self {
            color: false,
            width,
            shows_all: false,
        }
    }

    /// With all columns and without a limit of the width, if `shows_all`: for `--wide`.
    pub const fn showing_all(self, shows_all: bool) -> Self {
        Self { shows_all, ..self }
    }

    /// An empty table with these columns.
    #[cfg_attr(test, track_caller)]
    pub fn new_table<'a, C: Into<Column<'a>>>(self, columns: impl IntoIterator<Item = C>) -> Table {
        let width = (!self.shows_all).then_some(self.width);
        Table::new(columns, self.shows_all, width)
    }

    /// Returns whether output is colored.
    pub const fn is_colored(self) -> bool {
        self.color
    }

    /// Text in a color, outside tables.
    pub fn text(self, text: &str, color: Option<Color>) -> String {
        match color.filter(|_| self.color) {
            Some(color) => format!("{}{text}\x1b[0m", begins(color)),
            None => text.to_owned(),
        }
    }

    /// A cell in a color.
    pub fn cell(self, text: impl ToString, color: Color) -> Cell {
        Cell::new(text).in_color(self.color.then_some(color))
    }
}

/// The longest line of a table: the value of `COLUMNS` if it is a number, else the terminal's
/// width, else [`WIDTH_WITHOUT_TERMINAL`].
fn width(columns: Option<&str>, terminal: Option<usize>) -> usize {
    let columns = columns.and_then(|text| text.trim().parse().ok());
    let known = [columns, terminal].into_iter().flatten();
    // 0 is a terminal without a size.
    let mut known = known.filter(|&width| width > 0);
    known.next().unwrap_or(WIDTH_WITHOUT_TERMINAL)
}

/// Returns the escape sequence that starts a color.
fn begins(color: Color) -> &'static str {
    match color {
        Color::Green => "\x1b[32m",
        Color::Yellow => "\x1b[33m",
        _ => "\x1b[31m",
    }
}

/// A count with its thousands set apart: `1 234 567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A duration in the unit that suits it: `850 ns`, `12.3 µs`, `4.6 ms`, `1.2 s`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.1} s", value / 1e9),
    }
}

/// Bytes in the unit that suits them: `512 B`, `1.5 KiB`, `2.0 MiB`.
pub fn bytes(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", value / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{:.1} GiB", value / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(duration(850), "850 ns");
        assert_eq!(duration(12_340), "12.3 µs");
        assert_eq!(duration(1_200_000_000), "1.2 s");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(3 << 20), "3.0 MiB");
    }

    #[test]
    fn the_width_is_that_of_the_environment_then_of_the_terminal() {
        assert_eq!(width(None, None), 100);
        assert_eq!(width(None, Some(132)), 132);
        assert_eq!(width(Some("80"), Some(132)), 80);
        assert_eq!(width(Some("wide"), Some(60)), 60);
        assert_eq!(width(Some("0"), Some(0)), 100);
        assert_eq!(width(Some(""), None), 100);
    }

    #[test]
    fn a_plain_table_has_no_escape_sequences() {
        let mut table = Theme::PLAIN.new_table(["check"]);
        table.add_row([Theme::PLAIN.cell("✓", Color::Green)]);
        assert!(!table.to_string().contains('\u{1b}'));
    }
}
