//! Every list is a table as text or JSON, and has colors only on a terminal whose user wants them.
#![allow(clippy::unwrap_used)]

mod support;

use std::{collections::BTreeSet, fs, process::Output};

use serde_json::Value;
use support::{node::Node, terminal::Terminal};

/// The commands that print lists, each with arguments for the node of a test. The words before the
/// first option are the command.
const LISTS: &[&[&str]] = &[
    &["config", "auto"],
    &["configure", "check"],
    &["configure", "fini", "--dry-run"],
    &["configure", "init", "--dry-run"],
    &["counters"],
    &["doctor"],
    &["events"],
    &["groups"],
    &["links"],
    &["pipes"],
    &["sim", "--seed", "7"],
    &["sim", "--seeds", "0..3"],
    &["sim", "group", "--seeds", "0..2"],
    &["sim", "mesh", "--seeds", "0..2"],
    &["status"],
    &["status", "--nodes"],
    &["steer", "list"],
    &["watch", "--events", "--count", "2"],
    &["watch", "--count", "1"],
];

/// Lists that have something green or red on the node of the test.
const COLORED: &[&str] = &["doctor", "events", "links", "status"];

/// Commands that report one outcome, take over the whole terminal, or write a file.
const OTHERS: &[&str] = &[
    "bench",
    "capture",
    "completions",
    "config check",
    "config print-default",
    "demo",
    "down",
    "man",
    "monitor",
    "region delete",
    "reload",
    "sim hunt",
    "steer add",
    "steer del",
    "up",
    "verb",
];

fn command(list: &[&str]) -> String {
    let words = list.iter().take_while(|word| !word.starts_with('-'));
    words.copied().collect::<Vec<_>>().join(" ")
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the output. The exit status of `doctor` and `sim` may also report findings.
fn output(node: &Node, list: &[&str], format: &[&str]) -> String {
    // Without a terminal, requests for colors have no effect.
    let mut command = node.command(&[list, format].concat());
    let output = command
        .env("CLICOLOR_FORCE", "1")
        .env("FORCE_COLOR", "1")
        .output()
        .unwrap();
    assert!(
        output.status.code().is_some_and(|code| code <= 1) && !output.stdout.is_empty(),
        "{list:?}: {output:?}"
    );
    printed(&output)
}

#[test]
fn every_list_is_a_table_or_json() {
    let place = tempfile::tempdir().unwrap();
    let [node, _other] = Node::pair(place.path());
    support::wait_until("the rules are known", support::node::PATIENCE, || {
        node.run(&["steer", "list"]).0
    });
    for list in LISTS {
        let json = output(&node, list, &["--format", "json"]);
        let is_whole = serde_json::from_str::<Value>(&json).is_ok();
        let is_lines = || {
            json.lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
        };
        assert!(is_whole || is_lines(), "{list:?}: {json}");
        for format in [&["--format", "table"][..], &[]] {
            let table = output(&node, list, format);
            assert!(!table.contains('\u{1b}'), "{list:?}: {table}");
            assert!(
                serde_json::from_str::<Value>(&table).is_err(),
                "{list:?}: {table}"
            );
        }
        let (went, refused) = node.run(&[list, &["--format", "yaml"][..]].concat());
        assert!(
            !went && refused.contains("[possible values: table, json]"),
            "{refused}"
        );
    }
}

#[test]
fn colors_are_for_terminals_whose_user_does_not_refuse_them() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let [node, _other] = Node::pair(place.path());
    let program = env!("CARGO_BIN_EXE_covalent");
    terminal.run(&format!("export COVALENT_CONFIG={}", node.file().display()));
    let mut number = 0;
    let mut shown = |prefix: &str, list: &[&str]| {
        number += 1;
        // Lists are longer than the terminal. Read their last lines and the history above them.
        terminal.run(&format!(
            "clear; {prefix} {program} {}; echo done-$(({number} + 0))",
            list.join(" ")
        ));
        terminal.wait_for(&format!("done-{number}"));
        let all = terminal
            .tmux(&["capture-pane", "-p", "-e", "-S", "-500"])
            .unwrap();
        terminal.tmux(&["clear-history"]);
        all
    };
    // The start of a color's escape sequence.
    let is_colored = |text: &str| text.contains("\u{1b}[3");
    for list in LISTS {
        let plain = shown("NO_COLOR=1", list);
        assert!(!is_colored(&plain), "{list:?}: {plain}");
    }
    for list in COLORED {
        let text = shown("NO_COLOR=", &[list]);
        assert!(is_colored(&text), "{list}: {text}");
    }
}

#[test]
fn no_command_is_forgotten_here() {
    let place = tempfile::tempdir().unwrap();
    let manual = place.path().join("man");
    let made = support::covalent(place.path())
        .arg("man")
        .arg(&manual)
        .output()
        .unwrap();
    assert!(made.status.success());
    let lists: BTreeSet<String> = LISTS.iter().map(|list| command(list)).collect();
    let mut pages = 0;
    for page in fs::read_dir(manual.join("man1")).unwrap() {
        let path = page.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let of = |command: &str| name == format!("covalent-{}", command.replace(' ', "-"));
        let has_format = text.contains("\\-\\-format");
        if lists.iter().any(|command| of(command)) {
            assert!(has_format, "{name} prints a list, and has no --format");
        } else {
            let is_other = OTHERS.iter().any(|command| {
                of(command) || *command == "verb" && name.starts_with("covalent-verb")
            });
            // Groups of commands have pages too, and so has `covalent`.
            let is_group = text.contains(".SH SUBCOMMANDS");
            assert!(
                is_other || is_group,
                "{name} is in none of the lists of this test"
            );
        }
        pages += 1;
    }
    assert!(pages > 30, "{pages}");
}
