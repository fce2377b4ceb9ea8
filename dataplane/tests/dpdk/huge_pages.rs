//! DPDK on huge pages, which it takes from the whole host.

use std::{env, process::Command};

use covalent_config::HugePages;

use crate::{
    devices::{self, number, open_with},
    reserved::Reserved,
};

/// Memory for one port, and for pages that other processes take meanwhile.
const MEMORY_MIB: u32 = 64;
const PAGES: u64 = 96;

/// DPDK would wait for that lock, and every user can hold it.
#[test]
fn a_locked_directory_of_huge_pages_delays_no_process() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: reserving and mounting huge pages needs root");
        return;
    }
    let _reserved = Reserved::more(PAGES);
    let folder = tempfile::tempdir().unwrap();
    // In a separate process, because DPDK is set up once per process. `flock` holds the lock while
    // it runs.
    let child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(r#"mount -t hugetlbfs none "$0" && exec flock "$0" timeout 60 "$@""#)
        .arg(folder.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", "huge_pages::a_port_on_huge_pages_opens"])
        .args(["--ignored", "--nocapture"])
        .output()
        .unwrap();
    let stdout_text = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(
        child.status.success(),
        "{}: {stdout_text}{errors}",
        child.status
    );
    assert!(stdout_text.contains("1 passed"), "{stdout_text}");
}

#[test]
#[ignore = "the body of a child process"]
fn a_port_on_huge_pages_opens() {
    let port = devices::port(&format!("net_null{}", number()));
    assert_eq!(
        open_with(&[port], HugePages::Require, MEMORY_MIB)
            .unwrap()
            .len(),
        1
    );
}
