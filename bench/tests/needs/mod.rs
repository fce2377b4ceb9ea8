//! The requirements of a measurement on a wire.

use std::{path::Path, process::Command};

/// Returns whether it can run here, and prints the reason if not. `nft` is whether it drops frames.
///
/// # Panics
/// There is no covalentd beside covalent-bench.
pub fn wire(nft: bool) -> bool {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: making network namespaces needs root");
        return false;
    }
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        eprintln!("skipped: two polling sides need two cores");
        return false;
    }
    if nft && Command::new("nft").arg("--version").output().is_err() {
        eprintln!("skipped: there is no nft (Debian package nftables)");
        return false;
    }
    let daemon = Path::new(env!("CARGO_BIN_EXE_covalent-bench")).with_file_name("covalentd");
    assert!(
        daemon.exists(),
        "{} is not there: run `cargo build --workspace` first (`make test` does)",
        daemon.display()
    );
    true
}
