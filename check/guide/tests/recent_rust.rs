//! `scripts/recent-rust` finds a recent cargo where it is, and otherwise installs Debian's.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use covalent_guide::pages;

/// A folder with the script, a workspace that needs Rust 9.20, and stand-ins for apt and dpkg.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(candidate: &str) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let script = fs::read_to_string(pages::root().join("scripts/recent-rust")).unwrap();
        machine.program("scripts/recent-rust", &script);
        machine.program(
            "scripts/install-packages",
            "#!/bin/sh\necho installs \"$@\"\n",
        );
        machine.program("bin/apt-get", "#!/bin/sh\necho apt-get \"$@\" >&2\n");
        machine.program("bin/dpkg-query", "#!/bin/sh\nexit 1\n");
        let policy = format!("#!/bin/sh\necho '  Candidate: {candidate}'\n");
        machine.program("bin/apt-cache", &policy);
        machine.program("bin/sudo", "#!/bin/sh\nexec \"$@\"\n");
        fs::write(
            machine.path().join("Cargo.toml"),
            "rust-version = \"9.20\"\n",
        )
        .unwrap();
        machine
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn program(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn rust(&self, folder: &str, cargo: &str, rustc: &str) {
        for (name, version) in [("cargo", cargo), ("rustc", rustc)] {
            let text = format!("#!/bin/sh\necho '{name} {version} (0 2026-01-01)'\n");
            self.program(&format!("{folder}/{name}"), &text);
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(self.path().join("scripts/recent-rust"))
            .args(arguments)
            .env("HOME", self.path())
            .env("PATH", self.search_path())
            .output()
            .unwrap()
    }

    fn search_path(&self) -> String {
        format!("{}/bin:/usr/bin:/bin", self.path().display())
    }

    /// Returns what is first on the printed PATH, before the rest that it was called with.
    fn found(&self) -> String {
        let output = String::from_utf8(self.run(&["--path"]).stdout).unwrap();
        let first = output.trim_end().strip_suffix(&self.search_path()).unwrap();
        first.replace(&self.path().display().to_string(), "")
    }
}

#[test]
fn a_recent_rust_is_used_where_it_is_and_nothing_is_installed() {
    let machine = Machine::new("9.30.0");
    machine.rust("bin", "9.20.0", "9.20.0");
    let output = machine.run(&[]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!(machine.found(), "");

    // Versions are numbers: 9.3 is older than 9.20, and 10.0 is newer. An old compiler counts too.
    machine.rust(".cargo/bin", "10.0.0-nightly", "10.0.0-nightly");
    for (cargo, rustc) in [("9.3.0", "9.3.0"), ("9.20.0", "9.3.0")] {
        machine.rust("bin", cargo, rustc);
        let output = machine.run(&[]);
        assert!(output.status.success() && output.stdout.is_empty());
        assert_eq!(machine.found(), "/.cargo/bin:");
    }
}

#[test]
fn an_old_rust_makes_the_packages_of_debian_installed_if_they_are_recent() {
    let machine = Machine::new("9.30.0+dfsg1-1");
    machine.rust("bin", "9.3.0", "9.3.0");
    assert_eq!(machine.found(), "/usr/bin:");
    let output = machine.run(&[]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("installs --upgrade rust"), "{printed}");
    // The stand-in installs nothing, and the script notices.
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn without_a_recent_package_nothing_is_installed_and_the_cure_is_printed() {
    let machine = Machine::new("9.3.0+dfsg1-1");
    let output = machine.run(&[]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!printed.contains("installs"), "{printed}");
    let message = String::from_utf8(output.stderr).unwrap();
    for word in ["apt-get update", "no Rust 9.20 or newer", "rustup.rs"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(output.status.code(), Some(1));

    // apt would remove a package that conflicts.
    let text = "#!/bin/sh\n[ \"$3\" = rustup ] && echo installed\n";
    machine.program("bin/dpkg-query", text);
    machine.program("bin/apt-cache", "#!/bin/sh\necho '  Candidate: 9.30.0'\n");
    let output = machine.run(&[]);
    assert!(output.stdout.is_empty());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("the package rustup is installed"),
        "{message}"
    );
    assert_eq!(output.status.code(), Some(1));
}
