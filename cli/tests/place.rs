//! Commands whose configuration names the place of another node that runs.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use support::{covalent, is_root, node::Node};

/// Node `a`, and the file of a node `b` with the same runtime directory.
fn node_and_file(directory: &Path) -> (Node, PathBuf) {
    let node = Node::up(directory, "a", &directory.join("cable.sock"), "");
    let text = fs::read_to_string(node.file()).unwrap();
    let file = directory.join("b.toml");
    let other = text
        .replace("name = \"a\"", "name = \"b\"")
        .replace("name = \"p0\"", "name = \"q7\"");
    assert_ne!(text, other);
    fs::write(&file, other).unwrap();
    (node, file)
}

/// Asserts that the command fails and names both nodes, the place and the remedy.
fn is_refused(command: &mut Command, place: &Path, own: &Path) {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {printed}");
    assert!(output.stdout.is_empty(), "{command:?}: {output:?}");
    let socket = place.join("covalentd.sock");
    let runtime_dir = format!("runtime directory {}", place.display());
    for words in [
        &format!("node a answers at {}", socket.display()),
        &format!("runs from {}", own.display()),
        &format!("covalent down --config {}", own.display()),
        "node b has the same",
        &runtime_dir,
        "nothing was changed",
        "cure: ",
        "--config",
        "node.runtime_dir",
    ] {
        assert!(printed.contains(words), "{command:?}: {words}: {printed}");
    }
}

/// The processes that `covalent up` recorded, by the name of their record.
fn records(place: &Path) -> BTreeMap<&'static str, String> {
    ["covalentd.pid", "covalent-control.pid"]
        .into_iter()
        .map(|name| (name, fs::read_to_string(place.join(name)).unwrap()))
        .collect()
}

#[test]
fn up_and_down_leave_another_node_at_their_place_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (node, file) = node_and_file(directory.path());
    let place = node.socket().parent().unwrap().to_owned();
    let before = records(&place);
    for arguments in [&["up"] as &[_], &["up", "--foreground"], &["down"]] {
        let mut command = covalent(directory.path());
        let command = command.args(arguments).arg("--config").arg(&file);
        is_refused(command, &place, &node.file());
        assert_eq!(records(&place), before, "{arguments:?}");
        assert_eq!(node.json(&["status"])["node"], "a", "{arguments:?}");
    }
    let (again, printed) = node.run(&["up"]);
    assert!(
        again && printed.contains("node a is up already"),
        "{printed}"
    );
}

/// A node runs from one file: another file of the same name and place is not in force.
#[test]
fn up_names_the_file_from_which_its_node_runs() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::up(
        directory.path(),
        "a",
        &directory.path().join("cable.sock"),
        "",
    );
    let place = node.socket().parent().unwrap().to_owned();
    let before = records(&place);
    let other = directory.path().join("other.toml");
    fs::copy(node.file(), &other).unwrap();
    let (own, given) = (node.file().display().to_string(), other.display());
    for arguments in [&["up"] as &[_], &["up", "--foreground"]] {
        let mut command = covalent(directory.path());
        let output = command.args(arguments).arg("--config").arg(&other).output();
        let output = output.unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {printed}");
        for words in [
            &format!("node a runs from {own}") as &str,
            &format!("not from {given}"),
            "nothing was changed",
            &format!("covalent reload --config {own}"),
            &format!("covalent down --config {own}"),
            &format!("covalent up --config {given}"),
        ] {
            assert!(printed.contains(words), "{words}: {printed}");
        }
        assert_eq!(records(&place), before, "{arguments:?}");
    }
}

#[test]
fn up_writes_no_configuration_for_the_place_of_another_node() {
    if !is_root() {
        return;
    }
    let run = || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        for line in ["--make-rprivate /", "-t tmpfs tmpfs /run"] {
            let status = Command::new("mount").args(line.split(' ')).status();
            assert!(status.unwrap().success(), "mount {line}");
        }
        let directory = tempfile::tempdir().unwrap();
        let (node, _) = node_and_file(directory.path());
        // A configuration of names alone has this runtime directory.
        let place = Path::new("/run/covalent");
        std::os::unix::fs::symlink(node.socket().parent().unwrap(), place).unwrap();
        let file = directory.path().join("etc/b.toml");
        let mut command = covalent(directory.path());
        command
            .args(["up", "--name", "b", "--interfaces", "eth1", "--config"])
            .arg(&file);
        is_refused(&mut command, place, &node.file());
        assert!(!file.parent().unwrap().exists(), "nothing is written");
    };
    // A separate thread, whose namespace is released when it exits.
    thread::scope(|scope| scope.spawn(run).join()).unwrap();
}

#[test]
fn the_doctor_reports_nothing_of_another_node_as_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let (node, file) = node_and_file(directory.path());
    let place = node.socket().parent().unwrap().display().to_string();
    let output = covalent(directory.path())
        .args(["doctor", "--format", "json", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = &findings[0];
    assert_eq!(finding["check"], "node b", "{report:#}");
    assert_eq!(finding["level"], "failed", "{report:#}");
    let found = finding["found"].as_str().unwrap();
    assert!(found.contains("node a answers") && found.contains(&place));
    let cure = finding["cure"].as_str().unwrap();
    assert!(cure.contains("--config") && cure.contains("node.runtime_dir"));
    for finding in findings {
        let check = finding["check"].as_str().unwrap();
        let is_of_the_other = ["port p0", "covalent", "socket "]
            .iter()
            .any(|beginning| check.starts_with(beginning));
        assert!(!is_of_the_other, "{finding:#}");
    }
}
