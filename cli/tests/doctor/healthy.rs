//! Sound hosts: nothing is found on them.

use std::fs;

use crate::{
    broken::{Expected, MadeOf},
    hosts,
    support::node::Node,
    ward::{self, Ward, command},
};

/// Checks that the doctor reports each of these as fine: an empty report would have no findings
/// either.
fn expect_fine(ward: &Ward, checks: &[&str]) {
    let (report, _) = ward.examine();
    let findings = report["findings"].as_array().unwrap();
    for check in checks {
        let of_it = |finding: &&serde_json::Value| finding["check"].as_str().unwrap() == *check;
        let finding = findings.iter().find(of_it);
        let level = finding.map(|finding| &finding["level"]);
        assert_eq!(level, Some(&"fine".into()), "{check}: {report:#}");
    }
}

#[test]
fn a_sound_host_has_no_findings_before_its_node_is_up() {
    ward::with(MadeOf::Interface, |ward| {
        ward.finds(&[]);
        expect_fine(
            ward,
            &[
                "privilege",
                "locked memory",
                "huge pages",
                "memory",
                "port p0: interface",
                "port p0: queues",
                "port p0: MTU",
                "port p0: offloads",
                "node.runtime_dir",
                "covalentd",
            ],
        );
    });
}

#[test]
fn a_sound_af_xdp_node_has_no_findings_and_its_modes_are_shown() {
    ward::with(MadeOf::InterfaceAndNode, |ward| {
        ward.finds(&[]);
        expect_fine(
            ward,
            &[
                "port p0: mode in effect",
                "port p0: pages in effect",
                "port p0: opened",
                "port p0: XDP program",
                "lane 0: at rest",
                "covalent-control",
            ],
        );
    });
}

#[test]
fn nothing_is_found_on_a_sound_pair_of_nodes() {
    ward::with(MadeOf::Node, |ward| {
        let other = Node::up(ward.place(), "other", &ward.at("cable.sock"), "");
        ward.kept.push(Box::new(other));
        ward.finds(&[]);
        expect_fine(ward, &["names", "pipes", "port p0: misses", "link p0"]);
    });
}

#[test]
fn a_link_without_a_neighbor_is_a_warning() {
    ward::with(MadeOf::Interface, |ward| {
        ward.up();
        ward.finds(&[Expected {
            check: "link p0",
            level: "warning",
            found: &["init, ", " sent, none received: no Covalent node answers"],
            cure: "start the other node",
        }]);
    });
}

#[test]
fn a_node_in_another_network_namespace_is_the_only_finding() {
    ward::with(MadeOf::InterfaceAndNode, |ward| {
        let pid = ward.pid("covalentd").to_string();
        let elsewhere = Expected {
            check: "network namespace",
            level: "failed",
            found: &["runs in another network namespace"],
            cure: "`nsenter -n -t ",
        };
        ward.before = ["unshare", "-n"].map(str::to_owned).to_vec();
        let cures = ward.finds(&[elsewhere]);
        assert!(cures[0].contains(&format!("-t {pid} covalent doctor --config ")));
        ward.before = ["nsenter", "-n", "-t", &pid].map(str::to_owned).to_vec();
        ward.finds(&[]);
    });
}

#[test]
fn a_node_that_was_stopped_is_a_warning_with_its_start() {
    ward::with(MadeOf::Node, |ward| {
        ward.finds(&[]);
        ward.run(&["down"]);
        let cures = ward.finds(&[Expected {
            check: "covalentd",
            level: "warning",
            found: &["does not run, although the node was started before"],
            cure: "covalent up --config PLACE/covalent.toml",
        }]);
        ward.type_in(&cures[0]);
        ward.finds(&[]);
    });
}

#[test]
fn a_file_from_which_the_node_does_not_run_is_a_failure() {
    ward::with(MadeOf::InterfaceAndNode, |ward| {
        let other = ward.at("other.toml");
        let text = fs::read_to_string(ward.file()).unwrap();
        fs::write(&other, text.replace("\"p0\"", "\"p1\"")).unwrap();
        let mut doctor = ward.covalent(&["doctor", "--format", "json"]);
        let output = doctor.env("COVALENT_CONFIG", &other).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let of = |check: &str| {
            let finding = findings.iter().find(|finding| finding["check"] == check);
            finding.unwrap_or_else(|| panic!("{check}: {report:#}"))
        };
        let node = of("node ward");
        assert_eq!(node["level"], "failed", "{report:#}");
        let found = node["found"].as_str().unwrap();
        let (own, given) = (ward.file(), other.display());
        assert!(
            found.contains(&format!("runs from {}", own.display())),
            "{found}"
        );
        assert!(found.contains(&format!("not from {given}")), "{found}");
        assert!(
            node["cure"]
                .as_str()
                .unwrap()
                .contains("covalent reload --config")
        );
        assert_eq!(of("port p0: mode in effect")["level"], "fine", "{report:#}");
    });
}

/// Nothing of a node lies there: its memory has no name, and all of it is there from the start.
#[test]
fn a_full_dev_shm_does_no_harm() {
    ward::with(MadeOf::NodeAlone, |ward| {
        command("mount -t tmpfs -o size=4k none /dev/shm");
        fs::write("/dev/shm/filler", [0; 4096]).unwrap();
        ward.run(&["down"]);
        ward.up();
        let device = covalent::Device::attach(ward.socket(), "reader").unwrap();
        device.rx_pipe(1 << 20).unwrap();
        ward.finds(&[]);
    });
}

#[test]
fn under_strict_a_warning_counts() {
    ward::with(MadeOf::File, |ward| {
        let code = |arguments: &[&str]| ward.covalent(arguments).output().unwrap().status.code();
        assert_eq!(code(&["doctor", "--strict"]), Some(0));
        ward.edit("[dataplane]\n", "[dataplane]\nidle = \"poll\"\n");
        assert_eq!(code(&["doctor"]), Some(0));
        assert_eq!(code(&["doctor", "--strict"]), Some(1));
        assert_eq!(code(&["doctor", "--no-such-option"]), Some(2));
    });
}

/// A file that the table does not name is not compiled, so its host is not judged.
#[test]
fn every_broken_host_stands_in_the_table() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doctor/hosts");
    let mut files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .filter(|name| name != "mod")
        .collect();
    files.sort();
    assert_eq!(files, hosts::NAMES);
    assert!(files.len() >= 10);
}

#[test]
fn a_user_that_may_not_connect_reads_who_may() {
    ward::with(MadeOf::NodeAlone, |ward| {
        let stranger = ["--reuid", "54321", "--regid", "54321", "--clear-groups"];
        let socket = ward.socket();
        let programs = std::path::Path::new(env!("CARGO_BIN_EXE_covalent"))
            .parent()
            .unwrap();
        let echo = programs.join("covalent-echo");
        for (program, words) in [
            (programs.join("covalent"), ["status", "--socket"].as_slice()),
            (echo, &["--port", "p0", "--socket"]),
        ] {
            let output = std::process::Command::new("setpriv")
                .args(stranger)
                .arg(&program)
                .args(words)
                .arg(&socket)
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&output.stderr);
            assert!(
                printed.contains("Permission denied") && printed.contains("node.group"),
                "{printed}"
            );
        }
    });
}
