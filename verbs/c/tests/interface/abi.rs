//! The library's binary interface: the versions of its symbols, and the layouts of the header's
//! types. `abidiff` compares them with the committed ones.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::declared::{functions, name_of};

/// Set to write the committed description instead of comparing it.
const WRITE: &str = "COVALENT_WRITE_ABI";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program and returns its output.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}{errors}");
    text
}

#[test]
fn each_symbol_has_a_version_and_nothing_else_is_exported() {
    let directory = tempfile::tempdir().unwrap();
    // Cargo puts the library beside the test that depends on it.
    let test = env::current_exe().unwrap();
    let archive = test.parent().unwrap().join("libcovalent_c.a");
    run(Command::new(root().join("../../scripts/link-library"))
        .arg(&archive)
        .arg(env!("CARGO_PKG_VERSION"))
        .arg(directory.path()));
    let library = directory.path().join("libcovalent.so.0");
    let symbols = run(Command::new("readelf")
        .args(["--dyn-syms", "--wide"])
        .arg(&library));
    let exported: BTreeSet<&str> = symbols
        .lines()
        .filter(|line| line.contains(" FUNC ") || line.contains(" OBJECT "))
        .filter(|line| !line.contains(" UND ") && !line.contains(" ABS "))
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let functions = functions();
    let wanted: Vec<String> = functions
        .iter()
        .map(|function| format!("{}@@COVALENT_0", name_of(function)))
        .collect();
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let missing: Vec<_> = wanted.difference(&exported).collect();
    let unexpected: Vec<_> = exported.difference(&wanted).collect();
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "missing: {missing:?}, unexpected: {unexpected:?}"
    );
}

/// Compiles a library whose functions have the header's types and do nothing. `abidw` reads its
/// debug information: that of the real library is Rust's.
fn compile(directory: &Path) -> PathBuf {
    let mut source = "#include <covalent.h>\n".to_owned();
    for function in functions() {
        source += &format!("{function} {{ __builtin_trap(); }}\n");
    }
    let (file, library) = (
        directory.join("covalent.c"),
        directory.join("libcovalent.so"),
    );
    fs::write(&file, source).unwrap();
    run(Command::new("cc")
        .args(["-std=c11", "-g", "-shared", "-fPIC", "-w", "-I"])
        .arg(root().join("include"))
        .arg(&file)
        .arg("-o")
        .arg(&library));
    library
}

#[test]
fn the_binary_interface_is_the_committed_one() {
    if Command::new("abidiff").arg("--version").output().is_err() {
        eprintln!("skipped: there is no abidiff: install Debian's package abigail-tools");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let library = compile(directory.path());
    let committed = root().join("abi/libcovalent.abi");
    if env::var_os(WRITE).is_some() {
        run(Command::new("abidw")
            .args([
                "--no-show-locs",
                "--no-corpus-path",
                "--no-comp-dir-path",
                "--out-file",
            ])
            .arg(&committed)
            .arg(&library));
    }
    let output = Command::new("abidiff")
        .arg(&committed)
        .arg(&library)
        .output()
        .unwrap();
    let status = output.status.code().unwrap();
    // Bits of the status: 1 a failure, 2 misuse, 4 a change, 8 an incompatible change.
    let kind = match status {
        0 => return,
        4..8 => "changed, and programs that are linked with it go on working",
        8.. => "changed, and programs that are linked with it break: raise the soname (build.rs)",
        _ => "could not be compared",
    };
    panic!(
        "the library's binary interface {kind}. If that is wanted, run `{WRITE}=1 cargo test -p \
         covalent-c --test interface` and commit {}\n{}{}",
        committed.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
