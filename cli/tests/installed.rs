//! Files installed beside the programs: manual pages and completions.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use support::{covalent, entries};

/// Programs that `make install` requires, besides `covalent`.
const OTHERS: [&str; 9] = [
    "covalentd",
    "covalent-control",
    "covalent-echo",
    "covalent-replay",
    "covalent-bank",
    "covalent-registers",
    "covalent-bench",
    concat!("libcovalent.so.", env!("CARGO_PKG_VERSION")),
    "libcovalent.a",
];

fn output_text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// The pages, made below `directory`.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let output = covalent(directory)
        .arg("man")
        .arg(directory.join("man"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    ["man/man1", "man/man8"]
        .iter()
        .flat_map(|section| entries(&directory.join(section)))
        .collect()
}

fn completions(directory: &Path, shell: &str, program: &str) -> PathBuf {
    let output = covalent(directory)
        .args(["completions", shell, program])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let file = directory.join(format!("{program}.{shell}"));
    fs::write(&file, output.stdout).unwrap();
    file
}

#[test]
fn every_command_has_a_page_with_its_options_and_variables() {
    let place = tempfile::tempdir().unwrap();
    let pages = pages(place.path());
    let text = |name: &str| {
        let page = pages.iter().find(|page| page.ends_with(name));
        let page = page.unwrap_or_else(|| panic!("no page {name}: {pages:?}"));
        fs::read_to_string(page).unwrap().replace("\\-", "-")
    };
    for (page, wanted) in [
        ("man8/covalentd.8", "COVALENT_ALLOW_FAULTS"),
        ("man8/covalentd.8", "COVALENT_CONFIG"),
        ("man8/covalentd.8", "COVALENT_LOG_FORMAT"),
        ("man8/covalent-control.8", "COVALENT_LOG_LEVEL"),
        ("man1/covalent-up.1", "COVALENT_INTERFACES"),
        ("man1/covalent-up.1", "COVALENT_NAME"),
        ("man1/covalent-reload.1", "COVALENT_CONTROL_SOCKET"),
        ("man1/covalent-status.1", "COVALENT_SOCKET"),
        ("man1/covalent.1", "covalent-status(1)"),
    ] {
        let text = text(page);
        assert!(text.contains(wanted), "{page} without {wanted}:\n{text}");
    }
    // Lines of examples stay separate lines.
    let down = text("man1/covalent-down.1");
    assert!(
        down.contains(".SH EXAMPLES\n.nf\nsudo covalent down\n"),
        "{down}"
    );
}

#[test]
fn man_reports_no_errors() {
    if !is_there("man") {
        return skip("there is no man");
    }
    let place = tempfile::tempdir().unwrap();
    for page in pages(place.path()) {
        let output = Command::new("man")
            .args(["--warnings=all", "-l"])
            .arg(&page)
            .env("LC_ALL", "C.UTF-8")
            .env("MANWIDTH", "200")
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && complaint.is_empty(),
            "{}: {complaint}",
            page.display()
        );
    }
}

#[test]
fn bash_completes_commands_and_options() {
    if !is_there("bash") {
        return skip("there is no bash");
    }
    let place = tempfile::tempdir().unwrap();
    for (program, words, wanted) in [
        ("covalent", "covalent stat", "status"),
        ("covalent", "covalent status --no", "--nodes"),
        ("covalentd", "covalentd --log", "--log-format"),
        (
            "covalent-control",
            "covalent-control --log-l",
            "--log-level",
        ),
    ] {
        let file = completions(place.path(), "bash", program);
        let last = words.split(' ').next_back().unwrap();
        let before = words.split(' ').rev().nth(1).unwrap();
        let script = format!(
            "set -eu; source {}; it=$(complete -p {program}); it=${{it#*-F }}; \
             COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             ${{it%% *}} {program} {last} {before}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &script])
            .output()
            .unwrap();
        assert!(
            output.status.success() && String::from_utf8_lossy(&output.stdout).trim() == wanted,
            "{words}: {}",
            output_text(&output)
        );
    }
}

#[test]
fn zsh_and_fish_can_read_their_completions() {
    let place = tempfile::tempdir().unwrap();
    for (shell, names) in [
        ("zsh", "#compdef covalent"),
        ("fish", "complete -c covalent"),
    ] {
        let file = completions(place.path(), shell, "covalent");
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.contains(names) && text.contains("status"),
            "{shell}: {text}"
        );
        if !is_there(shell) {
            skip(&format!("there is no {shell} to read completions"));
            continue;
        }
        let output = Command::new(shell).arg("-n").arg(&file).output().unwrap();
        assert!(output.status.success(), "{shell}: {}", output_text(&output));
    }
}

#[test]
fn an_installation_is_removed_completely() {
    if !is_there("make") {
        return skip("there is no make");
    }
    let place = tempfile::tempdir().unwrap();
    let built = place.path().join("built");
    fs::create_dir(&built).unwrap();
    symlink(env!("CARGO_BIN_EXE_covalent"), built.join("covalent")).unwrap();
    for name in OTHERS {
        fs::write(built.join(name), "").unwrap();
    }
    let root = place.path().join("root");
    let make = |target: &str| {
        let output = Command::new("make")
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .arg(target)
            .arg(format!("BUILT={}", built.display()))
            .arg(format!("DESTDIR={}", root.display()))
            .env_remove("MAKEFLAGS")
            .env_remove("PREFIX")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", output_text(&output));
    };
    make("install");
    for file in [
        "man/man1/covalent.1",
        "man/man1/covalent-up.1",
        "man/man8/covalentd.8",
        "man/man8/covalent-control.8",
        "bash-completion/completions/covalentd",
        "zsh/vendor-completions/_covalent",
        "fish/vendor_completions.d/covalent-control.fish",
    ] {
        let path = root.join("usr/share").join(file);
        let metadata = path.metadata().unwrap_or_else(|_| panic!("no {file}"));
        assert!(metadata.len() > 100, "{file} is empty");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o644, "{file}");
    }
    make("uninstall");
    let mut left = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in entries(&directory) {
            if entry.is_dir() {
                directories.push(entry);
            } else {
                left.push(entry);
            }
        }
    }
    assert_eq!(left, [root.join("etc/covalent/covalent.toml")]);
}
