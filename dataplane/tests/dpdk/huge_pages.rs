//! DPDK on huge pages, which it takes from the whole host.

use std::{env, process::Command};

use covalent_api::config::HugePages;

use crate::{
    devices::{self, number, open_with},
    reserved::Reserved,
};

/// Memory for one port, and for what others take of the pages meanwhile.
const MEMORY_MIB: u32 = 64;
const PAGES: u64 = 96;

/// DPDK would wait for that lock, and every user can hold it.
#[test]
fn whoever_locks_a_folder_of_huge_pages_holds_nobody_up() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: reserving and mounting huge pages needs root");
        return;
    }
    let _reserved = Reserved::more(PAGES);
    let folder = tempfile::tempdir().unwrap();
    // In a process of its own, for DPDK is set up once; `flock` holds the lock as long as that runs.
    let child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(r#"mount -t hugetlbfs none "$0" && exec flock "$0" timeout 60 "$@""#)
        .arg(folder.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", "huge_pages::a_port_on_huge_pages_opens"])
        .args(["--ignored", "--nocapture"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}: {told}{errors}", child.status);
    assert!(told.contains("1 passed"), "{told}");
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
