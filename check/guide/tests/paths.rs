//! `docs/paths.md` names files and functions in the order in which a frame or a verb passes them.
//! `docs/architecture.md` names files by their whole paths.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs};

use covalent_guide::pages;

const PAGE: &str = "docs/paths.md";

/// Most distinct files on the way of a verb: the number that a reader can keep in mind.
const VERB_FILES_MAX: usize = 18;

/// Most files that a frame crosses from the lane's round to the notification of the application.
const FRAME_FILES_MAX: usize = 10;

/// A row: the file, and the function in it.
struct Step {
    line: usize,
    file: String,
    function: String,
}

/// The tables of a page: rows `| file | function | … |`, both in backquotes.
fn tables(page: &str) -> Vec<Vec<Step>> {
    let mut tables = vec![Vec::new()];
    for (at, row) in page.lines().enumerate() {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let quoted = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
        match cells[..] {
            ["", file, function, _, ""] => {
                if let (Some(file), Some(function)) = (quoted(file), quoted(function)) {
                    tables.last_mut().unwrap().push(Step {
                        line: at + 1,
                        file,
                        function,
                    });
                }
            }
            _ => tables.push(Vec::new()),
        }
    }
    tables.retain(|table| !table.is_empty());
    tables
}

/// Whether `word` occurs in `code` between characters that no name contains, followed by `after`.
fn has_word(code: &str, before: &str, word: &str, after: &[char]) -> bool {
    code.match_indices(&format!("{before}{word}"))
        .any(|(at, found)| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let start = code[..at].chars().next_back();
            let end = code[at + found.len()..].chars().next();
            !start.is_some_and(is_part) && end.is_some_and(|c| after.contains(&c))
        })
}

/// The code of a file, without its comments and tests.
fn code(file: &str) -> String {
    let text = fs::read_to_string(pages::root().join(file))
        .unwrap_or_else(|error| panic!("{PAGE} names `{file}`: {error}"));
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn wrong(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for table in tables(page) {
        for (at, step) in table.iter().enumerate() {
            let Step {
                line,
                file,
                function,
            } = step;
            if !has_word(&code(file), "fn ", function, &['(', '<']) {
                wrong.push(format!(
                    "{PAGE}:{line}: `{file}` has no function `{function}`"
                ));
            }
            let is_called = |earlier: &Step| {
                let code = code(&earlier.file).replace(&format!("fn {function}"), "");
                has_word(&code, "", function, &['('])
            };
            if at > 0 && !table[..at].iter().any(is_called) {
                wrong.push(format!("{PAGE}:{line}: no file above calls `{function}`"));
            }
        }
    }
    wrong
}

/// The Rust files between backquotes that do not exist.
fn missing_files(page: &str) -> Vec<&str> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| name.ends_with(".rs") && !pages::root().join(name).is_file())
        .collect()
}

#[test]
fn every_rust_file_of_the_architecture_exists_under_its_whole_path() {
    let page = fs::read_to_string(pages::root().join("docs/architecture.md")).unwrap();
    assert!(
        page.matches(".rs`").count() > 50,
        "the files were not found"
    );
    assert_eq!(missing_files(&page), Vec::<&str>::new());
    assert_eq!(missing_files("`lane/leave.rs`, `x`"), ["lane/leave.rs"]);
}

#[test]
fn every_step_is_a_function_that_a_file_above_it_calls() {
    let page = fs::read_to_string(pages::root().join(PAGE)).unwrap();
    let steps = tables(&page);
    assert!(
        steps.iter().map(Vec::len).sum::<usize>() > 40,
        "the tables were not found"
    );
    let wrong = wrong(&page);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_verb_crosses_few_files() {
    let page = fs::read_to_string(pages::root().join(PAGE)).unwrap();
    let (_, verb) = page.split_once("\n## A verb's path\n").unwrap();
    let steps = tables(verb).into_iter().flatten();
    let files: BTreeSet<_> = steps.map(|step| step.file).collect();
    assert!(files.len() > 10, "the tables were not found");
    assert!(
        files.len() <= VERB_FILES_MAX,
        "a verb crosses {} files, more than {VERB_FILES_MAX}: merge what is one object: {files:#?}",
        files.len()
    );
}

#[test]
fn a_frame_crosses_few_files_on_its_way_to_a_pipe() {
    let page = fs::read_to_string(pages::root().join(PAGE)).unwrap();
    let frames = tables(&page).into_iter().find(|table| {
        let ends = [table.first(), table.last()].map(|step| step.unwrap().function.clone());
        ends == ["round", "notify"]
    });
    let frames = frames.expect("a table from the lane's round to the notification");
    let files: BTreeSet<_> = frames.iter().map(|step| &step.file).collect();
    assert!(
        files.len() <= FRAME_FILES_MAX,
        "{} files, at most {FRAME_FILES_MAX}: {files:#?}",
        files.len()
    );
}

#[test]
fn a_step_out_of_order_or_of_another_name_is_found() {
    let page = "| file | function | what |\n|---|---|---|\n\
        | `protocol/src/node/mod.rs` | `on_frame` | |\n\
        | `protocol/src/node/exchanges/responder.rs` | `on_request` | |\n\
        | `protocol/src/node/exchanges/responder.rs` | `on_requests` | |\n\
        | `verbs/src/blocking.rs` | `fetch_add` | |\n";
    let found = wrong(page);
    let ends = [
        ":5: `protocol/src/node/exchanges/responder.rs` has no function `on_requests`",
        ":5: no file above calls `on_requests`",
        ":6: no file above calls `fetch_add`",
    ];
    assert_eq!(found.len(), ends.len(), "{found:?}");
    for (found, end) in found.iter().zip(ends) {
        assert!(found.ends_with(end), "{found}");
    }
}
