//! One model of a measured run: its envelope in JSON, its goals, and the tables, plots and facts
//! from which both the terminal's table and the section of the page are rendered.
//!
//! A suite declares its figures and implements [`Suite`]. All else is here.

use std::{fmt::Write as _, ops::Deref, path::Path};

use anyhow::Result;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{arguments::Output, cell, host::Host, kept::Kept, plot_files, repeats::Settled};

/// The name of the fact about the medians.
pub const MEDIANS: &str = "medians";

/// The figures of one suite, with their setup.
pub trait Suite: Serialize + DeserializeOwned {
    /// The suite's name on the command line, in results and in file names.
    const NAME: &'static str;

    /// The heading of its section.
    const TITLE: &'static str;

    /// What the section has without a result: the command that measures. If it is empty, there is
    /// no section.
    const MISSING: &'static str;

    /// Plots of the section that are removed if there is nothing to draw, by file name.
    const PLOTS: &'static [&'static str] = &[];

    /// Whether the result is too long to be read by people, and is stored on one line.
    const IS_LONG: bool = false;

    /// Returns the verdicts on the goals, as far as they were measured.
    fn judge(&self) -> Vec<Goal>;

    /// How well the medians are known, if the suite repeats.
    fn settled(&self) -> Option<Settled> {
        None
    }

    /// The contestants, those that took no part included, if the suite names them.
    fn contestants(&self) -> &[Entry] {
        &[]
    }

    /// Draws the plots of the section: file names and their content.
    ///
    /// # Errors
    /// A plot cannot be drawn.
    fn plots(_report: &Report<Self>) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// The content of the section, and of the table at a terminal.
    fn blocks(report: &Report<Self>) -> Vec<Block>;

    /// The whole run at a terminal. A suite overrides it if readers expect other columns there.
    fn terminal(report: &Report<Self>) -> String {
        let blocks = Self::blocks(report);
        let head = format!("{}: {}\n", Self::NAME, Self::TITLE);
        let table = blocks
            .iter()
            .fold(head, |out, block| out + &block.at_terminal());
        match report.settled() {
            Some(settled) => format!("{table}  {}\n", settled.words()),
            None => table,
        }
    }
}

/// A whole run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report<S> {
    /// The suite.
    pub name: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Where.
    pub host: Host,
    /// How, and the figures.
    #[serde(flatten)]
    pub run: S,
    /// The verdicts on the goals.
    pub goals: Vec<Goal>,
}

/// The verdict on one goal.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// The measured value: of a comparison, the ratio of both medians.
    pub measured: f64,
    /// The limit of the measured value.
    #[serde(flatten)]
    pub limit: Limit,
    /// The result relative to the goal: 1 is exactly the goal, less is a miss. `None` if the limit
    /// or the measured value is 0.
    pub margin: Option<f64>,
    /// Whether it is met.
    pub met: bool,
    /// The two sides of a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sides: Option<Sides>,
    /// A second comparison, which decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<Sides>,
}

/// The limit of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The limit itself meets the goal.
    AtLeast(f64),
    /// The limit itself meets the goal.
    AtMost(f64),
    /// The limit itself misses the goal.
    Below(f64),
}

/// The medians that a goal compares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sides {
    /// Ours.
    pub covalent: f64,
    /// The other system's, or the required one.
    pub beside: f64,
    /// The name of the other system.
    pub peer: String,
    /// Of both.
    pub unit: String,
    /// Of several cases, the one that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl Goal {
    /// Judges one measured value.
    pub fn of(goal: &str, target: impl Into<String>, measured: f64, limit: Limit) -> Self {
        let (met, of_goal, by) = match limit {
            Limit::AtLeast(least) => (measured >= least, measured, least),
            Limit::AtMost(most) => (measured <= most, most, measured),
            Limit::Below(bound) => (measured < bound, bound, measured),
        };
        Self {
            goal: goal.to_owned(),
            target: target.into(),
            measured,
            limit,
            margin: (of_goal != 0.0 && by != 0.0).then(|| of_goal / by),
            met,
            sides: None,
            aside: None,
        }
    }

    /// Judges the ratio of our median to that of another system.
    pub fn between(goal: &str, target: impl Into<String>, sides: Sides, limit: Limit) -> Self {
        Self {
            sides: Some(sides.clone()),
            ..Self::of(goal, target, sides.covalent / sides.beside, limit)
        }
    }
}

impl<S> Deref for Report<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.run
    }
}

impl<S: Suite> Report<S> {
    /// A run with its verdicts.
    pub fn new(began_unix_ms: u64, host: Host, run: S) -> Self {
        Self {
            name: S::NAME.to_owned(),
            began_unix_ms,
            host,
            goals: run.judge(),
            run,
        }
    }

    /// Prints and stores the run. Returns whether every goal is met and the medians are settled.
    ///
    /// # Errors
    /// The result cannot be written.
    pub fn finish(&self, output: &Output) -> Result<bool> {
        self.report(output)?;
        let is_settled = self.settled().is_none_or(|settled| settled.is_within());
        let is_met = self.goals.iter().all(|goal| goal.met);
        Ok(is_settled && is_met && ours_held(self.contestants()))
    }

    /// How well the medians are known, in words.
    pub fn medians(&self) -> String {
        self.settled()
            .map_or_else(|| "one repeat".to_owned(), |settled| settled.words())
    }

    /// The section; its plots lie in `folder`, those that were drawn.
    pub fn section(&self, folder: &str, drawn: &[&str]) -> String {
        let mut blocks = S::blocks(self);
        blocks.retain_mut(|block| match block {
            Block::Plots(plots) => {
                plots.retain(|(_, file)| drawn.contains(&file.as_str()));
                !plots.is_empty()
            }
            _ => true,
        });
        heading::<S>() + &on_page(&blocks, folder)
    }
}

/// Builds the section from the result in the folder `place`, and writes its plots to the plot
/// folder of `page`. The section states if there is no result.
///
/// # Errors
/// A result or a plot is unreadable or cannot be written.
pub fn section<S: Suite>(place: &Path, page: &Path) -> Result<String> {
    section_of(Report::<S>::read_from(place)?.as_ref(), page)
}

/// The same from this result.
///
/// # Errors
/// A plot cannot be drawn or written.
pub fn section_of<S: Suite>(last: Option<&Report<S>>, page: &Path) -> Result<String> {
    let folder = page.with_extension("");
    let drawn = last.map(S::plots).transpose()?.unwrap_or_default();
    for (file, svg) in &drawn {
        plot_files::write(&folder.join(file), svg)?;
    }
    let drawn: Vec<&str> = drawn.iter().map(|(file, _)| file.as_str()).collect();
    for file in S::PLOTS.iter().filter(|file| !drawn.contains(file)) {
        plot_files::keep(&folder.join(file), None)?;
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    Ok(match last {
        Some(report) => report.section(&name, &drawn),
        None if S::MISSING.is_empty() => String::new(),
        None => format!("{}\n{}\n", heading::<S>(), S::MISSING),
    })
}

/// Parts of a section; their plots lie in `folder`.
pub fn on_page(blocks: &[Block], folder: &str) -> String {
    blocks.iter().fold(String::new(), |out, block| {
        out + "\n" + &block.on_page(folder)
    })
}

/// The heading; a suite without a title continues the section before it.
fn heading<S: Suite>() -> String {
    if S::TITLE.is_empty() {
        return String::new();
    }
    format!("\n## {}\n", S::TITLE)
}

impl<S: Suite> Kept for Report<S> {
    const NAME: &'static str = S::NAME;

    fn table(&self) -> String {
        S::terminal(self)
    }

    fn text(&self) -> Result<String> {
        if S::IS_LONG {
            return self.line();
        }
        crate::kept::lines(self)
    }
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph or a list, on the page only.
    Text(String),
    /// Figures.
    Table(Table),
    /// Goals, with these columns beside each.
    Goals {
        /// The names of the columns, as those of a [`Table`].
        columns: Vec<String>,
        /// Whether the goal is met if it was measured, the goal in words, and its cells.
        rows: Vec<(Option<bool>, String, Vec<String>)>,
    },
    /// The contestants.
    Contestants {
        /// Their descriptions.
        page: String,
        /// Those that are absent or failed.
        terminal: String,
    },
    /// The setup: names and values.
    Facts(Vec<(String, String)>),
    /// Some of the plots of the suite: captions and files.
    Plots(Vec<(String, String)>),
}

/// The name of a column beside the goals, and its cell for a goal.
type Column<'a> = (&'a str, &'a dyn Fn(&Goal) -> String);

/// A table of figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The names of the columns; `>` before a name aligns its column to the right.
    columns: Vec<String>,
    /// The cells.
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[&str]) -> Self {
        Self::with_columns(columns.iter().map(|&name| name.to_owned()))
    }

    /// The same with as many columns as the result has cases.
    pub fn with_columns(columns: impl IntoIterator<Item = String>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn on_page(&self) -> String {
        let names = self.columns.iter().map(|name| name.trim_start_matches('>'));
        let mut out = line_of(names);
        for name in &self.columns {
            out += if name.starts_with('>') {
                "|---:"
            } else {
                "|---"
            };
        }
        out += "|\n";
        for row in &self.rows {
            out += &line_of(row.iter().map(String::as_str));
        }
        out
    }

    fn at_terminal(&self) -> String {
        let names = self.columns.iter().map(|name| name.trim_start_matches('>'));
        let mut lines: Vec<Vec<String>> = vec![names.map(plain).collect()];
        lines.extend(
            self.rows
                .iter()
                .map(|row| row.iter().map(|cell| plain(cell)).collect()),
        );
        let width = |at: usize| {
            let cells = lines.iter().filter_map(|line: &Vec<String>| line.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut out = String::new();
        for line in &lines {
            let mut text = String::new();
            for (at, cell) in line.iter().enumerate() {
                let width = width(at);
                let is_right = self
                    .columns
                    .get(at)
                    .is_some_and(|name| name.starts_with('>'));
                // Writing to a string cannot fail.
                let _ = if is_right {
                    write!(text, "  {cell:>width$}")
                } else {
                    write!(text, "  {cell:<width$}")
                };
            }
            out += text.trim_end();
            out.push('\n');
        }
        out
    }
}

impl Block {
    /// A paragraph or a list.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The goals, with columns of a name and a cell of each.
    pub fn goals(goals: &[Goal], columns: &[Column<'_>]) -> Self {
        let rows = goals.iter().map(|goal| {
            let cells = columns.iter().map(|(_, cell)| cell(goal)).collect();
            (Some(goal.met), goal.target.clone(), cells)
        });
        Self::Goals {
            columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            rows: rows.collect(),
        }
    }

    /// The setup, and then the commands, each a command of its side.
    pub fn facts<'a>(
        facts: impl IntoIterator<Item = (&'a str, String)>,
        commands: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let facts = facts.into_iter();
        let facts = facts.map(|(name, value)| (name.to_owned(), value));
        let commands = commands.into_iter();
        let commands = commands.map(|(name, command)| (name, format!("`{command}`")));
        Self::Facts(facts.chain(commands).collect())
    }

    /// A plot of the suite.
    pub fn plot(title: impl Into<String>, file: impl Into<String>) -> Self {
        Self::Plots(vec![(title.into(), file.into())])
    }

    /// The contestants in these words, each with its command lines and how many of its `parts`
    /// (such as repeats) failed.
    pub fn contestants(
        entries: &[Entry],
        absent: &str,
        words: impl Fn(&Description) -> String,
        parts: &'static str,
    ) -> Self {
        let entries = entries.iter().map(|entry| {
            let name = &entry.name;
            let text = match &entry.absent {
                Some(reason) => format!("- **{name}**{absent}: {reason}.\n"),
                None => {
                    let mut text = format!("- **{name}**: {}.\n", words(&entry.description));
                    entry.write_runs(&mut text, parts);
                    text
                }
            };
            let short = match (&entry.absent, entry.failures.first()) {
                (Some(reason), _) => format!("  {name} took no part: {reason}\n"),
                (None, Some(failure)) => format!(
                    "  {name}: {} {parts} failed, the first: {failure}\n",
                    entry.failures.len()
                ),
                (None, None) => String::new(),
            };
            (text, short)
        });
        let (page, terminal) = entries.unzip();
        Self::Contestants { page, terminal }
    }

    fn on_page(&self, folder: &str) -> String {
        match self {
            Self::Text(text) => format!("{}\n", text.trim_end()),
            Self::Table(table) => table.on_page(),
            Self::Contestants { page, .. } => page.clone(),
            Self::Goals { columns, rows } => {
                let head = ["goal", ""].map(str::to_owned);
                let rows = rows.iter().map(|(met, target, cells)| {
                    let met = met.map_or("not measured", cell::met_on_page);
                    let first = [target.clone(), met.to_owned()];
                    first.into_iter().chain(cells.clone()).collect()
                });
                Table {
                    columns: head.into_iter().chain(columns.clone()).collect(),
                    rows: rows.collect(),
                }
                .on_page()
            }
            Self::Facts(facts) => {
                let facts = facts.iter();
                Table {
                    columns: vec![String::new(); 2],
                    rows: facts
                        .map(|(name, value)| vec![name.clone(), value.clone()])
                        .collect(),
                }
                .on_page()
            }
            Self::Plots(plots) => plots.iter().fold(String::new(), |out, (title, file)| {
                out + &format!("![{title}]({folder}/{file})\n")
            }),
        }
    }

    fn at_terminal(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail, here and below.
        match self {
            Self::Text(_) | Self::Plots(_) => {}
            Self::Table(table) => out = table.at_terminal(),
            Self::Contestants { terminal, .. } => out = terminal.clone(),
            Self::Goals { columns, rows } => {
                for (met, target, cells) in rows {
                    let names = columns.iter().map(|name| name.trim_start_matches('>'));
                    let cells: Vec<String> = names
                        .zip(cells)
                        .map(|(name, cell)| format!("{name} {cell}"))
                        .collect();
                    let met = met.map_or("not measured", cell::met);
                    let cells = cells.join(", ");
                    let _ = writeln!(out, "  {met}: {target}: {cells}");
                }
            }
            // Command lines are in the result and on the page, and the table ends with the medians.
            Self::Facts(facts) => {
                for (name, value) in facts {
                    if name != MEDIANS && !value.starts_with('`') {
                        let _ = writeln!(out, "  {name}: {}", plain(value));
                    }
                }
            }
        }
        out
    }
}

fn line_of<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for cell in cells {
        out += "| ";
        out += cell;
        out += if cell.is_empty() { "" } else { " " };
    }
    out + "|\n"
}

/// A cell without the marks of the page.
fn plain(cell: &str) -> String {
    cell.replace("**", "").replace('`', "")
}

/// A contestant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: Description,
    /// Why it took no part, if so.
    pub absent: Option<String>,
    /// Repetitions that failed, and why.
    pub failures: Vec<String>,
}

impl Entry {
    /// Writes to the page, below the description, its command lines and how many of its `parts`
    /// (such as repeats) failed.
    pub fn write_runs(&self, out: &mut String, parts: &str) {
        // Writing to a string cannot fail.
        for command in &self.description.commands {
            let _ = writeln!(out, "  - `{}`", without_places(command));
        }
        if let Some(failure) = self.failures.first() {
            let count = self.failures.len();
            let failure = without_places(failure);
            let _ = writeln!(out, "  - {count} {parts} failed, the first: {failure}");
        }
    }
}

/// Returns whether our sides took part in all selected cases: a goal that is missing because our
/// side failed is not met.
pub fn ours_held(entries: &[Entry]) -> bool {
    entries
        .iter()
        .filter(|entry| entry.name.starts_with("covalent"))
        .all(|entry| entry.absent.is_none() && entry.failures.is_empty())
}

/// The description of a contestant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// In words.
    pub what: String,
    /// Its version.
    pub version: String,
    /// Everything that was set for it.
    pub tuning: String,
    /// The command lines of its processes, if they are other people's programs.
    pub commands: Vec<String>,
}

impl Description {
    /// All of it but the commands; the suites differ in the words before and after the version.
    pub fn words(&self, before: &str, after: &str) -> String {
        format!(
            "{}; {before}{}{after} {}",
            self.what, self.version, self.tuning
        )
    }
}

/// A command line without the folder and the process id of the run.
pub fn without_places(command: &str) -> String {
    command
        .split(' ')
        .map(without_place)
        .collect::<Vec<_>>()
        .join(" ")
}

fn without_place(word: &str) -> String {
    const FILE_PREFIX: &str = "--file-prefix=covalent-bench-";
    if let Some((before, after)) = word.split_once("/dev/shm/.tmp") {
        let after = after.split_once('/').map_or("", |(_, after)| after);
        return format!("{before}DIR/{after}");
    }
    if let Some(after) = word.strip_prefix(FILE_PREFIX) {
        let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
        return format!("{FILE_PREFIX}PID{rest}");
    }
    word.to_owned()
}

/// How a port moves frames, in the examples of the suites.
#[cfg(test)]
pub fn example_mode() -> covalent::status::PortMode {
    covalent::status::PortMode {
        xdp: "native".to_owned(),
        zero_copy: false,
        need_wakeup: true,
        page_bytes: 4096,
        queues: 1,
    }
}

#[cfg(test)]
impl<S> Report<S> {
    /// Each goal, its measured ratio, and whether it is met.
    pub fn judged(&self) -> Vec<(&str, f64, bool)> {
        self.goals
            .iter()
            .map(|goal| (goal.goal.as_str(), goal.measured, goal.met))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_decides_at_and_beside_itself() {
        let judged = |measured, limit| {
            let goal = Goal::of("x", "words", measured, limit);
            (goal.met, goal.margin)
        };
        assert_eq!(judged(4.0, Limit::AtLeast(4.0)), (true, Some(1.0)));
        assert_eq!(judged(2.0, Limit::AtLeast(4.0)), (false, Some(0.5)));
        assert_eq!(judged(4.0, Limit::AtMost(4.0)), (true, Some(1.0)));
        assert_eq!(judged(8.0, Limit::AtMost(4.0)), (false, Some(0.5)));
        assert_eq!(judged(4.0, Limit::Below(4.0)), (false, Some(1.0)));
        assert_eq!(judged(0.0, Limit::AtMost(0.0)), (true, None));
        assert_eq!(judged(1.0, Limit::AtMost(0.0)), (false, None));
        assert!(!judged(f64::NAN, Limit::Below(4.0)).0);
    }

    #[test]
    fn one_table_is_shown_at_a_terminal_and_on_the_page() {
        let mut table = Table::new(&["", ">M/s", "note"]);
        table.row(["**ours**", "10.00", "`x`"].map(str::to_owned));
        table.row(["a peer", "–", ""].map(str::to_owned));
        assert_eq!(
            table.on_page(),
            "| | M/s | note |\n|---|---:|---|\n| **ours** | 10.00 | `x` |\n| a peer | – | |\n"
        );
        assert_eq!(
            table.at_terminal(),
            "            M/s  note\n  ours    10.00  x\n  a peer      –\n"
        );
    }

    #[test]
    fn a_missed_goal_stands_out_in_both() {
        let goals = [Goal::of("g", "at least 4", 2.0, Limit::AtLeast(4.0))];
        let block = Block::goals(
            &goals,
            &[(">ratio", &|goal| format!("{:.2}", goal.measured))],
        );
        assert_eq!(
            block.on_page(""),
            "| goal | | ratio |\n|---|---|---:|\n| at least 4 | **missed** | 2.00 |\n"
        );
        assert_eq!(block.at_terminal(), "  NOT MET: at least 4: ratio 2.00\n");
    }

    #[test]
    fn places_of_the_run_are_left_out() {
        assert_eq!(
            without_places(
                "x --file-prefix=covalent-bench-13021-memif-true \
                 --vdev=a,socket=/dev/shm/.tmpAbC1/memif.sock,b=1 -i"
            ),
            "x --file-prefix=covalent-bench-PID-memif-true --vdev=a,socket=DIR/memif.sock,b=1 -i"
        );
        let command = ["/a/b/covalent-bench".to_owned(), "streams".to_owned()];
        assert_eq!(
            crate::host::printed_command(&command),
            "covalent-bench streams"
        );
    }
}
