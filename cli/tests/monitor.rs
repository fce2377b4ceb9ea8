//! `covalent monitor` on a terminal that tmux plays.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use support::{
    node::{Node, PATIENCE},
    terminal::Terminal,
    wait_until,
};

/// The terminal's escape sequence for green: the second of its 256 colors.
const GREEN: &str = "\u{1b}[38;5;2m";

fn monitor(node: &Node) -> String {
    format!(
        "{} monitor --interval 0.1 --socket {}",
        env!("CARGO_BIN_EXE_covalent"),
        node.socket().display()
    )
}

#[test]
fn a_node_is_shown_with_its_rates_and_keys_choose_the_part() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let [a, b] = Node::pair(place.path());
    terminal.run(&format!("{}; echo status-$?", monitor(&a)));
    for wanted in [
        "node a (",
        " lanes ",
        " ports ",
        " links ",
        " pipes ",
        " drops",
        " q  leave",
    ] {
        terminal.wait_for(wanted);
    }
    // An active link sends a record from time to time, so its port and its lane have a rate.
    terminal.wait_for("█");
    let colored = terminal.colors();
    assert!(
        colored.contains(GREEN),
        "the link is up, and green: {colored}"
    );

    terminal.send(&["3"]);
    wait_until("the links alone", PATIENCE, || {
        let screen = terminal.screen();
        screen.contains(" links ") && !screen.contains(" lanes ")
    });
    terminal.send(&["0"]);
    terminal.wait_for(" lanes ");
    drop(b);
    wait_until("the link is not up any more", PATIENCE, || {
        let screen = terminal.screen();
        let link = screen
            .lines()
            .skip_while(|line| !line.contains(" links "))
            .nth(2);
        link.is_some_and(|line| line.contains("p0") && !line.contains(" up "))
    });
    drop(a);
    terminal.wait_for("showing the last values; waiting for it");
    terminal.send(&["q"]);
    terminal.wait_for("status-0");
    terminal.wait_until_restored("left");
}

#[test]
fn the_first_picture_has_rates() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let [a, _b] = Node::pair(place.path());
    // The sample after the first picture takes a minute.
    terminal.run(&monitor(&a).replace("--interval 0.1", "--interval 60"));
    terminal.wait_for(" q  leave");
    let screen = terminal.screen();
    let lane = screen
        .lines()
        .skip_while(|line| !line.contains(" lanes "))
        .nth(2);
    assert!(
        lane.is_some_and(|lane| lane.matches(" %").count() == 2),
        "{screen}"
    );
    terminal.send(&["q"]);
}

#[test]
fn the_terminal_is_restored_at_every_end() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), "");
    let line = monitor(&node);

    terminal.run(&format!("{line}; echo status-$?"));
    terminal.wait_for("node a (");
    terminal.send(&["C-c"]);
    terminal.wait_for("status-130");
    terminal.wait_until_restored("interrupted");

    let pid = place.path().join("pid");
    terminal.run(&format!(
        "clear; sh -c 'echo $$ >{}; exec {line}'; echo status-$?",
        pid.display()
    ));
    terminal.wait_for("node a (");
    let number = std::fs::read_to_string(&pid).unwrap();
    let number = nix::unistd::Pid::from_raw(number.trim().parse().unwrap());
    nix::sys::signal::kill(number, nix::sys::signal::Signal::SIGTERM).unwrap();
    terminal.wait_for("status-143");
    terminal.wait_until_restored("terminated");

    // Without colors on request.
    terminal.run(&format!("clear; NO_COLOR=1 {line}; echo status-$?"));
    terminal.wait_for("node a (");
    terminal.wait_for("█");
    let colored = terminal.colors();
    assert!(!colored.contains("\u{1b}[38;5;"), "{colored}");
    terminal.send(&["q"]);
    terminal.wait_for("status-0");
    terminal.wait_until_restored("plain");
}

/// The unit tests of the command have one that takes the terminal and panics; it runs here.
#[test]
fn the_terminal_is_restored_by_a_panic() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    let Some(tests) = unit_tests() else {
        eprintln!("skipped: the unit tests of covalent are not built");
        return;
    };
    terminal.run(&format!(
        "{} --exact --ignored --nocapture monitor::screen::tests::panics_on_a_terminal 2>&1; echo \
         status-$?",
        tests.display()
    ));
    terminal.wait_for("status-101");
    let screen = terminal.screen();
    assert!(
        screen.contains("on purpose"),
        "the panic can be read: {screen}"
    );
    terminal.wait_until_restored("panicked");
}

/// The newest program of the unit tests beside the command's, if it was built.
fn unit_tests() -> Option<std::path::PathBuf> {
    let deps = Path::new(env!("CARGO_BIN_EXE_covalent")).with_file_name("deps");
    let mut found: Vec<_> = support::entries(&deps)
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.strip_prefix("covalent-").is_some_and(|hash| {
                hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        })
        .filter(|path| has_test(path))
        .collect();
    found.sort_by_key(|path| path.metadata().and_then(|it| it.modified()).ok());
    found.pop()
}

/// Whether a program is the unit tests: the command itself lies there under such a name too.
fn has_test(program: &Path) -> bool {
    let Ok(child) = Command::new(program)
        .args(["--list", "--ignored"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
    else {
        return false;
    };
    let output = child.wait_with_output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).contains("panics_on_a_terminal")
    })
}

/// Without a terminal, the command prints which command to use instead.
#[test]
fn without_a_terminal_monitor_names_the_command_for_programs() {
    let place = tempfile::tempdir().unwrap();
    let output = support::covalent(place.path())
        .args(["monitor", "--socket", "/nowhere"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && printed.contains("status --format json"),
        "{printed}"
    );
}
