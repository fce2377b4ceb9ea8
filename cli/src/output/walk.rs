//! Records the tables that a test prints, and has the widest names that occur.

use std::cell::RefCell;

use super::{Table, table::columns_of};

/// The longest name of a node, a port, a region or a group.
pub const NAME: &str = "rack-07.left_side-of.the-hal.255";

/// The longest name of an interface.
pub const INTERFACE: &str = "enp175s0f1np127";

/// A printed table.
pub struct Printed {
    /// File and line of the code that made it.
    pub made_at: String,
    pub longest_line: usize,
    /// Words of its titles and cells that are in no line.
    pub split: Vec<String>,
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

/// Runs `print`, and returns the tables that it printed, and its result.
pub fn printed_by<T>(print: impl FnOnce() -> T) -> (Vec<Printed>, T) {
    PRINTED.with_borrow_mut(Vec::clear);
    let result = print();
    (PRINTED.with_borrow_mut(std::mem::take), result)
}
