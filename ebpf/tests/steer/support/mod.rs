//! Support code of the tests.

pub mod capture_files;
pub mod frames;
pub mod namespace;
pub mod oracle;
pub mod rtnetlink;
pub mod socket;
pub mod test_run;
pub mod vlan_offload;
pub mod world;

/// Returns whether the test can run. Prints a message if not.
pub fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: loading a BPF program needs root ({test})");
    }
    root
}

/// Returns from the calling test, with the reason printed, if it does not run as root.
#[macro_export]
macro_rules! require_root {
    () => {
        if !$crate::support::is_root(module_path!()) {
            return;
        }
    };
}
