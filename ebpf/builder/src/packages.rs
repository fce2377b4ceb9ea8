//! The Debian packages that a rebuild needs.

use std::path::Path;

use crate::toolchain::{CARGO, LLVM_PREFIX, LLVM_STRIP, RUSTC};

/// A file that proves the presence of a package, and the package.
fn needed() -> [(String, &'static str); 5] {
    [
        (CARGO.to_owned(), "cargo-web"),
        (RUSTC.to_owned(), "rustc-web"),
        (
            "/usr/lib/rustlib/bpfel-unknown-none".to_owned(),
            "libstd-rust-web-dev-bpf",
        ),
        (LLVM_STRIP.to_owned(), "llvm-22"),
        (format!("{LLVM_PREFIX}/lib/libLLVM.so"), "llvm-22-dev"),
    ]
}

/// Fails with the command that installs the missing packages.
pub fn require() -> Result<(), String> {
    let missing: Vec<&str> = needed()
        .iter()
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|&(_, package)| package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "rebuilding the XDP program needs Debian packages that are not installed:\n    apt-get \
         install {}\n(Debian 12: \
         from the security archive. Nothing else of Covalent needs them: the built object is \
         committed.)",
        missing.join(" ")
    ))
}
