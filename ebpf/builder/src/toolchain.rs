//! The compilers, and an environment that the outer cargo does not leak into.

use std::{env, process::Command};

/// Debian's cargo (package cargo-web).
pub const CARGO: &str = "/usr/bin/cargo";
/// Debian's rustc (package rustc-web).
pub const RUSTC: &str = "/usr/bin/rustc";
/// Where package llvm-22-dev puts LLVM.
pub const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
/// LLVM's strip (package llvm-22).
pub const LLVM_STRIP: &str = "/usr/bin/llvm-strip-22";

/// Variables that configure the source of crates. All other variables of cargo and rustc would
/// change the build.
const KEPT: [&str; 5] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_SOURCE_",
];

/// A cargo command of that toolchain.
pub fn cargo() -> Command {
    let mut command = Command::new(CARGO);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let of_cargo =
            name.starts_with("CARGO") || name.starts_with("RUST") || name == "LD_LIBRARY_PATH";
        if of_cargo && !KEPT.iter().any(|kept| name.starts_with(kept)) {
            command.env_remove(&*name);
        }
    }
    command.env("RUSTC", RUSTC);
    command
}

/// Returns the version lines of the compiler and LLVM, one line each.
pub fn versions() -> Result<String, String> {
    let rustc = first_line_with(RUSTC, "rustc")?;
    let llvm = first_line_with(LLVM_STRIP, "LLVM version")?;
    Ok(format!("{rustc}\n{llvm}"))
}

fn first_line_with(program: &str, word: &str) -> Result<String, String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .map_err(|error| format!("{program} --version: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains(word));
    line.map(|line| line.trim().to_owned())
        .ok_or_else(|| format!("{program} --version does not print {word}"))
}
