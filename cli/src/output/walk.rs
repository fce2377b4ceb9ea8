//! Every table of the command, with the widest contents that occur.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{Table, Theme, table::columns_of};

/// The longest name of a node, a port, a region or a group.
pub const NAME: &str = "rack-07.left_side-of.the-hal.255";

/// The longest name of an interface.
pub const INTERFACE: &str = "enp175s0f1np127";

/// A printed table.
struct Printed {
    made_at: String,
    longest_line: usize,
    /// Words of its titles and cells that are in no line.
    split: Vec<String>,
}

thread_local! {
    static PRINTED: RefCell<Vec<Printed>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a table was printed as `text`.
pub(super) fn printed(table: &Table, text: &str) {
    let lines: Vec<_> = text.lines().collect();
    let split = table
        .words()
        .filter(|word| !lines.iter().any(|line| line.contains(word)));
    let printed = Printed {
        made_at: format!("{}:{}", table.made_at.file(), table.made_at.line()),
        longest_line: lines.iter().map(|line| columns_of(line)).max().unwrap_or(0),
        split: split.collect(),
    };
    PRINTED.with_borrow_mut(|all| all.push(printed));
}

/// Prints all tables of all commands.
fn walk(theme: Theme) -> (Vec<Printed>, String) {
    PRINTED.with_borrow_mut(Vec::clear);
    let texts = [
        crate::configure::widest(theme),
        crate::counters::widest(theme),
        crate::demo::widest(theme),
        crate::doctor::widest(theme),
        crate::events::widest(theme),
        crate::sim::widest(theme),
        crate::status::widest(theme),
        crate::steer::widest(theme),
        crate::watch::widest(theme),
    ];
    (PRINTED.with_borrow_mut(std::mem::take), texts.join("\n"))
}

/// Where the command's code makes a table: file and line.
fn places() -> BTreeSet<String> {
    fn search(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(directory).expect("a folder of the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                search(&path, found);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source");
            for (number, line) in text.lines().enumerate() {
                if line.contains("mod tests {") {
                    break;
                }
                let may = path.starts_with(source("output")) || path == source("output.rs");
                assert!(
                    may || !line.contains("comfy_table::"),
                    "{}: tables are made by `Theme::new_table`",
                    path.display()
                );
                if line.contains(".new_table(") {
                    found.insert(format!("{}:{}", path.display(), number + 1));
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    search(&source(""), &mut found);
    found
}

fn source(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(below)
}

#[test]
fn every_table_fits_100_columns_and_splits_no_word() {
    for columns in [100, 132, 80, 40] {
        let (printed, text) = walk(Theme::of_width(columns));
        for table in &printed {
            let Printed { made_at, split, .. } = table;
            assert!(split.is_empty(), "{made_at}: {split:?}\n{text}");
            assert!(
                columns < 100 || table.longest_line <= columns,
                "{made_at}: {} columns of {columns}\n{text}",
                table.longest_line
            );
        }
        for place in places() {
            let is_printed = printed.iter().any(|it| place.ends_with(&it.made_at));
            assert!(is_printed, "add the table of {place} to `walk`");
        }
    }
}

#[test]
fn a_wide_table_breaks_no_cell() {
    let (printed, text) = walk(Theme::PLAIN);
    assert!(printed.iter().all(|table| table.split.is_empty()), "{text}");
    let longest = printed.iter().map(|table| table.longest_line).max();
    assert!(longest > Some(132), "{text}");
    let counted = text.matches("18 446 744 073 709 551 615").count();
    assert!(counted > 40, "{counted}\n{text}");
}
