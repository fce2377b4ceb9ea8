//! The files in `configs/` that other programs read.

use std::{fs, path::PathBuf, process::Command};

use covalent_config::{ControlConfig, NodeConfig};

fn shipped(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../configs")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

const UNITS: [&str; 2] = ["covalentd.service", "covalent-control.service"];

const SOCKET: &str = "covalentd.socket";

const TARGET: &str = "covalent.target";

/// The units in a test directory, with existing programs. `None` without systemd.
fn installed() -> Option<tempfile::TempDir> {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("there is no systemd-analyze");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for unit in UNITS.into_iter().chain([SOCKET, TARGET]) {
        let text = shipped(unit)
            .replace("/usr/bin/covalentd ", "/bin/true ")
            .replace("/usr/bin/covalent-control ", "/bin/true ")
            .replace("/usr/bin/covalent ", "/bin/true ");
        fs::write(directory.path().join(unit), text).expect("written");
    }
    Some(directory)
}

#[expect(
    clippy::print_stderr,
    reason = "the test's output must show what was not tested"
)]
fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

#[test]
fn systemd_finds_nothing_to_complain_about() {
    let Some(directory) = installed() else { return };
    let units = UNITS.into_iter().chain([SOCKET, TARGET]);
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .args(units.map(|unit| directory.path().join(unit)))
        .output()
        .expect("runs");
    let error_output = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && error_output.is_empty(),
        "{error_output}"
    );
}

#[test]
fn the_units_confine_their_processes() {
    let Some(directory) = installed() else { return };
    // In tenths: systemd's own measure of exposure, 0 for a perfect prison.
    for (unit, limit) in [
        ("covalentd.service", "19"),
        ("covalent-control.service", "16"),
    ] {
        let output = Command::new("systemd-analyze")
            .args([
                "security",
                "--offline=true",
                "--no-pager",
                &format!("--threshold={limit}"),
            ])
            .arg(directory.path().join(unit))
            .output()
            .expect("runs");
        assert!(
            output.status.success(),
            "{unit}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn the_units_start_the_installed_programs_and_wait_for_readiness() {
    for (unit, program) in UNITS.iter().zip(["covalentd", "covalent-control"]) {
        let text = shipped(unit);
        for line in [
            "Type=notify".to_owned(),
            format!("ExecStart=/usr/bin/{program} --config /etc/covalent/covalent.toml"),
            "Restart=on-failure".to_owned(),
            "RuntimeDirectoryPreserve=yes".to_owned(),
            "PartOf=covalent.target".to_owned(),
            "WantedBy=covalent.target".to_owned(),
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "{unit} has no line `{line}`"
            );
        }
        for key in [
            "LimitMEMLOCK=",
            "WatchdogSec=",
            "CapabilityBoundingSet=",
            "NoNewPrivileges=",
            "SystemCallFilter=",
        ] {
            assert!(
                text.lines().any(|it| it.starts_with(key)),
                "{unit} has no `{key}`"
            );
        }
    }
}

/// The values of a key, in the order of the file.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let of_key = lines.filter(|(name, _)| *name == key);
    of_key.flat_map(|(_, value)| value.split(' ')).collect()
}

#[test]
fn the_units_run_as_the_user_that_is_made_for_them() {
    let made = shipped("covalent.sysusers");
    assert!(made.lines().any(|line| line.starts_with("u covalent - ")));
    for unit in UNITS {
        let text = shipped(unit);
        for key in ["User", "Group"] {
            assert_eq!(values(&text, key), ["covalent"], "{unit}");
        }
        // No capability beyond the granted ones is available.
        let capabilities = values(&text, "AmbientCapabilities");
        assert_eq!(
            capabilities,
            values(&text, "CapabilityBoundingSet"),
            "{unit}"
        );
        assert!(
            capabilities.contains(&"CAP_NET_ADMIN"),
            "{unit}: {capabilities:?}"
        );
        let hidden = values(&text, "InaccessiblePaths");
        assert!(hidden.contains(&"-/etc/shadow"), "{unit}: {hidden:?}");
    }
    // The identity, the secret and the journals of the node.
    let control = shipped("covalent-control.service");
    assert!(values(&control, "InaccessiblePaths").contains(&"-/var/lib/covalent"));
}

#[test]
fn the_units_let_their_processes_close_a_sandbox() {
    for unit in UNITS {
        let text = shipped(unit);
        // None of systemd's permitted sets contains this call. Without it neither process starts.
        let mut filters = text
            .lines()
            .filter_map(|it| it.strip_prefix("SystemCallFilter="));
        assert!(
            filters.any(|calls| calls.split(' ').any(|call| call == "seccomp")),
            "{unit}"
        );
    }
}

#[test]
fn the_socket_is_the_one_that_the_daemon_would_make() {
    let node = NodeConfig::default();
    let text = shipped(SOCKET);
    let listens = format!(
        "ListenSequentialPacket={}/covalentd.sock",
        node.runtime_dir.display()
    );
    for line in [&listens, "SocketMode=0660", "PartOf=covalent.target"] {
        assert!(text.lines().any(|it| it == line), "no `{line}` in\n{text}");
    }
    let service = shipped("covalentd.service");
    for key in ["Wants", "After"] {
        let line = format!("{key}={SOCKET}");
        assert!(service.lines().any(|it| it == line), "no `{line}`");
    }
}

#[test]
fn the_target_wants_them_all() {
    let text = shipped(TARGET);
    let line = format!("Wants={SOCKET} {}", UNITS.join(" "));
    assert!(text.lines().any(|it| it == line), "no `{line}` in\n{text}");
}

#[test]
fn the_scrape_example_scrapes_where_control_serves() {
    let text = shipped("prometheus.yml");
    let target = format!("          - {}", ControlConfig::default().metrics_listen);
    assert!(
        text.lines().any(|line| line == target),
        "no target `{target}` in\n{text}"
    );
}
