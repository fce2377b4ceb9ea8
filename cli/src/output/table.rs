//! Tables, and the one rule for their width.

use std::fmt;

use comfy_table::{CellAlignment, Color, ContentArrangement, LineStyle, TableStyle};
use ratatui::text::Span;

/// Lines around the table and below its header, none between rows or columns.
const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('─', '─', '─', '─'))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .bottom_border(LineStyle::new('─', '─', '─', '─'));

/// A space at which no line is broken. It is printed as a space.
const FIRM_SPACE: char = '\u{a0}';

/// Begins the second and later lines of a labeled text, where it fits.
const HANGING: &str = "  ";

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    title: &'a str,
    only_wide: bool,
}

impl<'a> From<&'a str> for Column<'a> {
    fn from(title: &'a str) -> Self {
        column(title)
    }
}

/// A column that is always shown.
pub const fn column(title: &str) -> Column<'_> {
    Column {
        title,
        only_wide: false,
    }
}

/// A column that is shown with `--wide` only.
pub const fn wide(title: &str) -> Column<'_> {
    Column {
        title,
        only_wide: true,
    }
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    color: Option<Color>,
    is_right: bool,
}

impl Cell {
    /// Text. It may be broken at its spaces, but not within a number (`1 234 567`).
    pub fn new(text: impl ToString) -> Self {
        let text = text.to_string();
        let mut before = '\0';
        let mut after = text.chars().skip(1);
        let joined = text.chars().map(|here| {
            let next = after.next().unwrap_or('\0');
            let is_inner = here == ' ' && before.is_ascii_digit() && next.is_ascii_digit();
            before = here;
            if is_inner { FIRM_SPACE } else { here }
        });
        Self {
            text: joined.collect(),
            color: None,
            is_right: false,
        }
    }

    /// A value with its unit, or a number. It is never broken.
    pub fn whole(text: impl ToString) -> Self {
        Self::new(text.to_string().replace(' ', &FIRM_SPACE.to_string()))
    }

    /// As [`Cell::whole`], at the right of its column.
    pub fn right(text: impl ToString) -> Self {
        Self {
            is_right: true,
            ..Self::whole(text)
        }
    }

    /// In a color, where output is colored.
    pub(super) const fn in_color(mut self, color: Option<Color>) -> Self {
        self.color = color;
        self
    }
}

/// A table, which is laid out when it is printed:
///
/// - A line is at most as long as the table's width. A cell is broken at its spaces only.
/// - If a column's longest word leaves too little width for the others, the last columns become
///   labeled lines of one cell. If that is still too wide, all columns do.
/// - Without a width no cell is broken.
#[derive(Debug, Clone)]
pub struct Table {
    titles: Vec<String>,
    /// The place of each title among the cells of a row.
    places: Vec<usize>,
    rows: Vec<Vec<Cell>>,
    width: Option<usize>,
    is_ruled: bool,
    #[cfg(test)]
    pub(super) made_at: &'static std::panic::Location<'static>,
}

impl Table {
    /// An empty table. `width` is the longest line; `None` is no limit.
    #[cfg_attr(test, track_caller)]
    pub(super) fn new<'a, C: Into<Column<'a>>>(
        columns: impl IntoIterator<Item = C>,
        shows_all: bool,
        width: Option<usize>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).enumerate();
        let shown = columns.filter(|(_, column)| shows_all || !column.only_wide);
        let (places, titles) = shown
            .map(|(place, column)| (place, column.title.to_owned()))
            .unzip();
        Self {
            titles,
            places,
            rows: Vec::new(),
            width,
            is_ruled: true,
            #[cfg(test)]
            made_at: std::panic::Location::caller(),
        }
    }

    /// Without lines and titles: each row begins its line, for `grep` and `awk`.
    pub fn without_rules(mut self) -> Self {
        self.is_ruled = false;
        self
    }

    /// Adds a row: a cell for each column, shown or not.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<_> = cells.into_iter().map(Some).collect();
        let shown = self.places.iter();
        let shown = shown.map(|&place| cells.get_mut(place).and_then(Option::take));
        let shown = shown.map(|cell| cell.unwrap_or_else(|| Cell::new("")));
        self.rows.push(shown.collect());
    }

    /// Returns whether the table has no row.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The words of the shown titles and cells, those that may not be broken as one.
    #[cfg(test)]
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let cells = self.rows.iter().flatten().map(|cell| &cell.text);
        // A labeled line is left out if its cell is empty.
        let has_text = |place: &usize| self.rows.iter().any(|row| !row[*place].text.is_empty());
        let places = (0..self.titles.len()).filter(move |place| self.is_ruled && has_text(place));
        let titles = places.map(|place| &self.titles[place]);
        let texts = titles.chain(cells);
        let words = texts.flat_map(|text| text.split([' ', '\n']));
        words.map(|word| word.replace(FIRM_SPACE, " "))
    }

    /// The first `count` titles. They are empty without rules, and take no width.
    fn shown_titles(&self, count: usize) -> Vec<String> {
        let titles = self.titles.iter().take(count);
        titles
            .map(|title| match self.is_ruled {
                true => title.clone(),
                false => String::new(),
            })
            .collect()
    }

    /// Columns of a line that no cell can use.
    const fn overhead(&self, columns: usize) -> usize {
        match self.is_ruled {
            // A border or a separator at each side of a column, and a space at each of its sides.
            true => 3 * columns + 1,
            false => 2 * columns.saturating_sub(1),
        }
    }

    /// The layout that keeps most columns.
    fn layout(&self) -> Layout {
        let plain = Layout::plain(self);
        let count = self.titles.len();
        let Some(width) = self.width else {
            let widths = plain.widths(longest_line);
            return plain.wrapped(&widths);
        };
        let fits = |layout: &Layout| {
            let room = width.checked_sub(self.overhead(layout.titles.len()))?;
            widths(
                &layout.widths(longest_word),
                &layout.widths(longest_line),
                room,
            )
        };
        let folded = (2..=count).map(|last| Layout::folded(self, last));
        for layout in std::iter::once(plain).chain(folded) {
            if let Some(widths) = fits(&layout) {
                return layout.wrapped(&widths);
            }
        }
        // A word is longer than a line.
        let layout = Layout::folded(self, count);
        let room = width.saturating_sub(self.overhead(1));
        let widths: Vec<_> = layout.widths(longest_word);
        let widths: Vec<_> = widths.iter().map(|&word| word.max(room)).collect();
        layout.wrapped(&widths)
    }

    fn text(&self) -> String {
        let layout = self.layout();
        let mut table = comfy_table::Table::new();
        table.set_content_arrangement(ContentArrangement::Disabled);
        if self.is_ruled {
            table.load_style(RULED);
            if !layout.titles.iter().all(String::is_empty) {
                table.set_header(&layout.titles);
            }
        } else {
            table.load_style(TableStyle::new());
        }
        for row in &layout.rows {
            table.add_row(row.iter().map(|cell| {
                let made = comfy_table::Cell::new(&cell.text);
                let made = match cell.is_right {
                    true => made.set_alignment(CellAlignment::Right),
                    false => made,
                };
                match cell.color {
                    Some(color) => made.fg(color),
                    None => made,
                }
            }));
        }
        if !self.is_ruled {
            let last = layout.titles.len().saturating_sub(1);
            for (place, column) in table.column_iter_mut().enumerate() {
                column.set_padding((0, if place == last { 0 } else { 2 }));
            }
        }
        let text = table.to_string().replace(FIRM_SPACE, " ");
        if self.is_ruled {
            return text;
        }
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        lines.join("\n")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        #[cfg(test)]
        super::walk::printed(self, &text);
        f.write_str(&text)
    }
}

/// Titles and cells as they are printed.
#[derive(Debug)]
struct Layout {
    titles: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Whether the lines of the last column are labeled.
    is_folded: bool,
}

impl Layout {
    fn plain(table: &Table) -> Self {
        Self {
            titles: table.shown_titles(table.titles.len()),
            rows: table.rows.clone(),
            is_folded: false,
        }
    }

    /// The `last` columns are labeled lines of one cell.
    fn folded(table: &Table, last: usize) -> Self {
        let kept = table.titles.len() - last;
        let mut titles = table.shown_titles(kept);
        titles.push(String::new());
        let next = format!("\n{HANGING}");
        let fold = |row: &Vec<Cell>| {
            let labeled = table.titles[kept..].iter().zip(&row[kept..]);
            let lines: Vec<_> = labeled
                .filter(|(_, cell)| !cell.text.is_empty())
                .map(|(title, cell)| match title.as_str() {
                    "" => cell.text.clone(),
                    title => format!("{title}: {}", cell.text.replace('\n', &next)),
                })
                .collect();
            let mut cells = row[..kept].to_vec();
            cells.push(Cell::new(lines.join("\n")));
            cells
        };
        let mut rows: Vec<_> = table.rows.iter().map(fold).collect();
        if kept == 0 {
            // Nothing else shows where a row begins.
            let others = rows.len().saturating_sub(1);
            for cell in rows.iter_mut().take(others).flatten() {
                cell.text.push('\n');
            }
        }
        Self {
            titles,
            rows,
            is_folded: true,
        }
    }

    /// The largest `measure` in each column.
    fn widths(&self, measure: fn(&str) -> usize) -> Vec<usize> {
        let mut widths: Vec<_> = self.titles.iter().map(|title| measure(title)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = measure(&cell.text).max(*width);
            }
        }
        widths
    }

    fn wrapped(mut self, widths: &[usize]) -> Self {
        let last = self.titles.len().saturating_sub(1);
        for (title, &width) in self.titles.iter_mut().zip(widths) {
            *title = wrapped(title, width, "");
        }
        for row in &mut self.rows {
            for (place, (cell, &width)) in row.iter_mut().zip(widths).enumerate() {
                let is_labeled = self.is_folded && place == last;
                let hanging = if is_labeled { HANGING } else { "" };
                cell.text = wrapped(&cell.text, width, hanging);
            }
        }
        self
    }
}

/// Shares `room` between columns: each gets at least its `words`, the longest word, and needs at
/// most its `lines`, the longest line. `None`: the words do not fit.
fn widths(words: &[usize], lines: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut left = room.checked_sub(words.iter().sum())?;
    if left >= lines.iter().sum::<usize>() - words.iter().sum::<usize>() {
        return Some(lines.to_vec());
    }
    // Raise the narrowest columns together, so that short columns stay in one line.
    let mut widths = words.to_vec();
    while left > 0 {
        let columns = widths.iter_mut().zip(lines);
        let short = columns.filter(|(width, line)| **width < **line);
        let Some((width, _)) = short.min_by_key(|(width, _)| **width) else {
            break;
        };
        *width += 1;
        left -= 1;
    }
    Some(widths)
}

fn longest_line(text: &str) -> usize {
    text.lines().map(columns_of).max().unwrap_or_default()
}

fn longest_word(text: &str) -> usize {
    let lines = text.lines();
    let words = lines.flat_map(|line| line.split(' ')).map(columns_of);
    words.max().unwrap_or_default()
}

/// Terminal columns that `text` takes.
pub(super) fn columns_of(text: &str) -> usize {
    Span::raw(text).width()
}

/// Breaks the lines of `text` at spaces so that each takes at most `width` columns, if no word is
/// longer. Later lines begin with `hanging` if there is room.
fn wrapped(text: &str, width: usize, hanging: &str) -> String {
    let mut broken = Vec::new();
    for line in text.split('\n') {
        let words = line.trim_start_matches(' ');
        let mut current = line[..line.len() - words.len()].to_owned();
        let mut used = current.len();
        for (place, word) in words.split(' ').enumerate() {
            let wide = columns_of(word);
            if place > 0 && used + 1 + wide > width {
                broken.push(std::mem::take(&mut current));
                used = 0;
                if columns_of(hanging) + wide <= width {
                    current.push_str(hanging);
                    used = columns_of(hanging);
                }
            } else if place > 0 {
                current.push(' ');
                used += 1;
            }
            current.push_str(word);
            used += wide;
        }
        broken.push(current);
    }
    broken.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: usize) -> Table {
        let columns = [column("port"), wide("epoch"), column("bytes sent")];
        let mut table = Table::new(columns, false, Some(width));
        table.add_row([Cell::new("left port"), Cell::new(7), Cell::right("1 234")]);
        table.add_row([Cell::new("p1"), Cell::new(8), Cell::right("5")]);
        table
    }

    fn lines(table: &Table) -> Vec<String> {
        let text = table.to_string();
        let lines = text.lines().filter(|line| !line.contains('─'));
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_table_that_fits_is_as_wide_as_its_contents() {
        assert_eq!(
            lines(&table(26)),
            [
                "  port        bytes sent",
                "  left port        1 234",
                "  p1                   5"
            ]
        );
    }

    #[test]
    fn cells_are_broken_at_spaces_and_numbers_are_not() {
        assert_eq!(
            lines(&table(18)),
            [
                "  port   bytes",
                "         sent",
                "  left   1 234",
                "  port",
                "  p1         5"
            ]
        );
    }

    #[test]
    fn columns_become_labeled_lines_where_words_do_not_fit() {
        assert_eq!(
            lines(&table(13)),
            [
                "  port:",
                "    left",
                "    port",
                "  bytes",
                "    sent:",
                "    1 234",
                "",
                "  port: p1",
                "  bytes",
                "    sent: 5"
            ]
        );
        let mut three = Table::new(["a", "b", "c"], false, Some(20));
        three.add_row(["one", "twenty-two", "three"].map(Cell::new));
        assert_eq!(
            lines(&three),
            [
                "  a",
                "  one   b:",
                "        twenty-two",
                "        c: three"
            ]
        );
    }

    #[test]
    fn numbers_in_a_text_are_not_broken() {
        let mut table = Table::new(["what"], false, Some(22));
        table.add_row([Cell::new("received by 2 693 563 of 4")]);
        assert_eq!(
            lines(&table),
            ["  what", "  received by", "  2 693 563 of 4"]
        );
    }

    #[test]
    fn a_wide_table_has_all_columns() {
        let columns = [column("port"), wide("epoch")];
        let mut table = Table::new(columns, true, None);
        table.add_row(["a long name", "7"].map(Cell::new));
        assert_eq!(
            lines(&table),
            ["  port          epoch", "  a long name   7"]
        );
    }

    #[test]
    fn a_table_without_rules_has_one_line_for_each_row() {
        let table = table(26).without_rules();
        assert_eq!(table.to_string(), "left port  1 234\np1             5");
    }
}
