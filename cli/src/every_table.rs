//! Every table of every command, with the widest contents that occur: a test.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    configure, counters, demo, doctor, events,
    output::{
        Theme,
        walk::{Printed, printed_by},
    },
    sim, status, steer, watch,
};

/// Prints all tables of all commands.
fn walk(theme: Theme) -> (Vec<Printed>, String) {
    let (printed, texts) = printed_by(|| {
        [
            configure::widest(theme),
            counters::widest(theme),
            demo::widest(theme),
            doctor::widest(theme),
            events::widest(theme),
            sim::widest(theme),
            status::widest(theme),
            steer::widest(theme),
            watch::widest(theme),
        ]
    });
    (printed, texts.join("\n"))
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
