//! Commands on names that do not exist, or that belong to another node.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use support::{
    covalent, is_root,
    node::{Node, PATIENCE},
    wait_until,
};

/// The file of a node whose paths are below `directory` and whose interfaces have these names. The
/// node is stopped at the end.
struct OnInterfaces(PathBuf);

impl OnInterfaces {
    fn new(directory: &Path, name: &str, interfaces: &[&str]) -> Self {
        let place = directory.join(name);
        fs::create_dir_all(&place).unwrap();
        let node = Self(place.join("covalent.toml"));
        node.write(interfaces);
        node
    }

    fn write(&self, interfaces: &[&str]) {
        let place = self.0.parent().unwrap();
        let (name, place) = (place.file_name().unwrap().display(), place.display());
        let text = format!(
            "[node]\nname = \"{name}\"\ninterfaces = {interfaces:?}\n\
             runtime_dir = \"{place}/run\"\nstate_dir = \"{place}/state\"\n\
             [dataplane]\nhuge_pages = \"never\"\nidle = \"interrupt\"\n\
             [control]\nmetrics_listen = \"127.0.0.1:0\"\n"
        );
        fs::write(&self.0, text).unwrap();
    }

    /// Returns the exit status and all output of a command on this node.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = covalent(self.0.parent().unwrap());
        output_of(command.args(arguments).arg("--config").arg(&self.0))
    }

    /// The doctor's finding about `check`.
    fn finding(&self, check: &str) -> Value {
        let (_, printed) = self.run(&["doctor", "--format", "json"]);
        let report: Value = serde_json::from_str(&printed).expect(&printed);
        let findings = report["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["check"] == check);
        found
            .unwrap_or_else(|| panic!("no {check}: {report:#}"))
            .clone()
    }
}

impl Drop for OnInterfaces {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

fn output_of(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let printed = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    (output.status.code(), printed.concat())
}

/// Runs `test` in a network namespace with the joined interfaces `near0` and `near1`, on a thread
/// of its own, at whose end the namespace is released.
fn in_namespace(test: impl FnOnce(&Path) + Send) {
    if !is_root() {
        return;
    }
    let run = || {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unwrap();
        for line in [
            "mount --make-rprivate /",
            "ip link set lo up",
            "ip link add near0 type veth peer name near1",
            "ip link set near0 up",
            "ip link set near1 up",
        ] {
            let mut words = line.split(' ');
            let status = Command::new(words.next().unwrap()).args(words).status();
            assert!(status.unwrap().success(), "{line}");
        }
        let directory = tempfile::tempdir().unwrap();
        test(directory.path());
    };
    if let Err(panic) = thread::scope(|scope| scope.spawn(run).join()) {
        resume_unwind(panic);
    }
}

#[test]
fn a_misspelt_interface_is_reported_before_the_start_and_by_up() {
    in_namespace(|directory| {
        let node = OnInterfaces::new(directory, "trc", &["naer0"]);
        let finding = node.finding("port naer0: interface");
        assert_eq!(finding["level"], "failed", "{finding}");
        let found = finding["found"].as_str().unwrap();
        assert!(found.contains("no interface `naer0`") && found.contains("`near0`, `near1`"));

        // The second time the node is up already.
        for words in ["node trc (", "node trc is up already"] {
            let (code, printed) = node.run(&["up"]);
            assert_eq!(code, Some(1), "{printed}");
            let file = node.0.display();
            for words in [
                words,
                "! port naer0: there is no interface `naer0`",
                &format!("correct it in {file}, then `covalent reload --config {file}`"),
                "there are `near0`, `near1`",
                "keeps running, but none of its ports is open",
                &format!("stop the node: `covalent down --config {file}`"),
            ] {
                assert!(printed.contains(words), "{words}: {printed}");
            }
            assert!(!printed.contains("KiB pages"), "{printed}");
        }

        // The remedy. One open port is enough.
        node.write(&["naer0", "near0"]);
        wait_until("the file is in force", PATIENCE, || {
            node.run(&["reload"]).0 == Some(0)
        });
        let (code, printed) = node.run(&["up"]);
        assert_eq!(code, Some(0), "{printed}");
        assert!(
            printed.contains("! port naer0") && !printed.contains("near0 ("),
            "{printed}"
        );
        let (_, printed) = node.run(&["down"]);
        let (code, up) = node.run(&["up"]);
        assert_eq!(code, Some(0), "{printed}{up}");
        for words in ["  port near0 on near0: ", "! port naer0: "] {
            assert!(up.contains(words), "{words}: {up}");
        }
    });
}

#[test]
fn a_second_node_on_an_interface_names_the_first() {
    in_namespace(|directory| {
        let first = OnInterfaces::new(directory, "a", &["near0"]);
        let second = OnInterfaces::new(directory, "b", &["near0"]);
        let (code, printed) = first.run(&["up"]);
        assert_eq!(code, Some(0), "{printed}");
        let (_, status) = first.run(&["status", "--format", "json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let place = directory.join("a");
        let words = [
            format!(
                "near0 belongs to another node: node a (covalentd, process {}",
                status["pid"]
            ),
            format!("socket {}", place.join("run/covalentd.sock").display()),
            format!(
                "covalent down --config {}",
                place.join("covalent.toml").display()
            ),
        ];
        let (code, printed) = second.run(&["up"]);
        assert_eq!(code, Some(1), "{printed}");
        for words in &words {
            assert_eq!(printed.matches(words).count(), 1, "{words}: {printed}");
        }
        assert!(!printed.contains("bpftool"), "{printed}");

        let check = "port near0: XDP program";
        assert_eq!(first.finding(check)["level"], "fine");
        let finding = second.finding(check);
        assert_eq!(finding["level"], "failed", "{finding}");
        let text = format!("{} {}", finding["found"], finding["cure"]);
        assert!(words.iter().all(|words| text.contains(words)), "{text}");
    });
}

#[test]
fn reload_names_the_file_it_read_and_refuses_another() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::up(directory.path(), "a", &directory.path().join("cable"), "");
    let own = node.file();
    let other = directory.path().join("other.toml");
    let text = fs::read_to_string(&own).unwrap();
    fs::write(&other, text.replace("\"interrupt\"", "\"adaptive\"")).unwrap();
    let reload = |file: &Path| {
        let mut command = covalent(directory.path());
        output_of(command.args(["reload", "--config"]).arg(file))
    };
    let (own_name, other_name) = (own.display(), other.display());
    wait_until("control has a daemon", PATIENCE, || {
        reload(&own).0 == Some(0)
    });
    let (code, printed) = reload(&own);
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains(&format!("nothing to change: {own_name} equals")),
        "{printed}"
    );
    let (code, printed) = reload(&other);
    assert_eq!(code, Some(1), "{printed}");
    for words in [
        "nothing was changed",
        "node a",
        &format!("runs from {own_name}"),
        &format!("not from {other_name}"),
        &format!("covalent reload --config {own_name}"),
        &format!("covalent down --config {own_name}"),
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    // The same file under another name is that file.
    let link = directory.path().join("link.toml");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    assert_eq!(reload(&link).0, Some(0));
}

#[test]
fn a_named_file_that_does_not_exist_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nofile.toml");
    for command in [
        &["status"] as &[_],
        &["links"],
        &["groups"],
        &["pipes"],
        &["events"],
        &["counters"],
        &["capture", "p0"],
        &["region", "delete", "r"],
        &["verb", "lookup", "a", "r"],
        &["watch"],
        &["reload"],
        &["steer", "list"],
        &["up"],
        &["down"],
        &["doctor"],
    ] {
        let mut command_line = covalent(directory.path());
        let command_line = command_line.args(command).arg("--config").arg(&file);
        let (code, printed) = output_of(command_line);
        assert_ne!(code, Some(0), "{command:?}: {printed}");
        let words = format!("{}: there is no such file", file.display());
        assert!(printed.contains(&words), "{command:?}: {printed}");
        assert!(
            printed.contains("`covalent up --name NAME --interfaces IF`"),
            "{printed}"
        );
    }
}
