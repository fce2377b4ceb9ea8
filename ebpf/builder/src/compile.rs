//! The three steps: linker, program, strip.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::toolchain::{self, LLVM_PREFIX, LLVM_STRIP};

const TARGET: &str = "bpfel-unknown-none";

/// Builds the linker that rustc calls for the BPF target; about a minute the first time.
pub fn linker(builder: &Path) -> Result<PathBuf, String> {
    let target = builder.join("target/linker");
    let mut command = toolchain::cargo();
    command
        .current_dir(builder.join("linker"))
        .args(["build", "--locked", "--quiet", "--target-dir"])
        .arg(&target)
        .env("LLVM_PREFIX", LLVM_PREFIX);
    run(&mut command)?;
    Ok(target.join("debug/covalent-bpf-linker"))
}

/// Compiles the program and returns the path of the object, debug information included.
pub fn program(program: &Path, target: &Path, linker: &Path) -> Result<PathBuf, String> {
    let mut command = toolchain::cargo();
    command
        .current_dir(program)
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(target)
        // aya-ebpf's inline assembly for the BPF target is behind a feature gate of the compiler.
        .env("RUSTC_BOOTSTRAP", "aya_ebpf")
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", linker)
        .env("CARGO_ENCODED_RUSTFLAGS", flags(program)?.join("\u{1f}"));
    run(&mut command)?;
    Ok(target.join(TARGET).join("release/steer"))
}

/// Compiler flags. BTF is made from debug information and names source files. Machine-dependent
/// paths are replaced, so that the object does not depend on the machine.
fn flags(program: &Path) -> Result<Vec<String>, String> {
    let mut flags = vec!["-Cdebuginfo=2".to_owned(), remap(program, "program")];
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
        .ok_or("neither CARGO_HOME nor HOME is set")?;
    // The directories below are named after the registry's address.
    let sources = home.join("registry/src");
    for entry in fs::read_dir(&sources).into_iter().flatten() {
        let entry = entry.map_err(|error| format!("{}: {error}", sources.display()))?;
        flags.push(remap(&entry.path(), "crates"));
    }
    Ok(flags)
}

fn remap(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", from.display())
}

/// Returns the object without DWARF. It keeps BTF, which the kernel and bpftool read.
pub fn strip(object: &Path) -> Result<Vec<u8>, String> {
    let stripped = object.with_extension("stripped");
    run(Command::new(LLVM_STRIP)
        .arg("--strip-debug")
        .arg("-o")
        .arg(&stripped)
        .arg(object))?;
    fs::read(&stripped).map_err(|error| format!("{}: {error}", stripped.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} failed ({status})"))
    }
}
