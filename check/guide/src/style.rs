//! Check of the text in the repository: line lengths, spelling and the word list.
//!
//! The spelling is that of the crate `typos` with American variants. A list has words of this
//! project for which the field has other terms. Both apply to identifiers, split into their words.

use std::{borrow::Cow, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use typos::{
    Dictionary, Status, check_str,
    tokens::{Identifier, Tokenizer, Word},
};
use typos_vars::Category;
use unicase::UniCase;

/// Most columns of a line.
const COLUMNS: usize = 100;

/// Words of this project's past, and the field's terms for them.
const WORDS: &[(&str, &str)] = &[
    ("ball", "keepalive"),
    ("balls", "keepalives"),
    ("berth", "neighbor index"),
    ("hear", "receive"),
    ("heard", "received"),
    ("hears", "receives"),
    ("nobody", "no user, no node, …"),
    ("outpaced", "peer_rtt_exceeded"),
    ("rider", "piggybacked acknowledgment"),
    ("riders", "piggybacked acknowledgments"),
    ("said", "sent, reported"),
    ("say", "send, report"),
    ("saying", "sending, reporting"),
    ("says", "sends, reports"),
    ("seeks", "searches"),
    ("somebody", "a user, a node, …"),
    ("tell", "report, notify, complete"),
    ("telling", "reporting"),
    ("tells", "reports, notifies, completes"),
    ("told", "reported, notified, completed"),
    ("vain", "without result"),
    ("virgin", "empty"),
    ("whoever", "the user that, the node that, …"),
];

/// Words that the dictionary takes for errors of spelling: abbreviations, and typing errors that
/// tests make on purpose.
const SPELLINGS: &[&str] = &[
    "ands", "ba", "dorp", "idel", "inh", "naem", "ratatui", "rto", "ser",
];

/// Words of other programs' interfaces, each with the only file that uses it.
const FOREIGN: &[(&str, &str)] = &[
    ("cli/src/demo/veth.rs", "neighbour"),
    ("bench/src/streams/testpmd/output.rs", "telling"),
];

/// Files with other words than the project's: recorded data, releases before the word list, and
/// generated files, whose sources are checked.
const OTHERS_WORDS: &[&str] = &[
    "Cargo.lock",
    "LICENSE-APACHE",
    "base/api/tests/version_5/",
    "bench/results/",
    "configs/grafana.json",
    "docs/performance/",
    "ebpf/builder/Cargo.lock",
    "check/guide/src/style.rs",
    "base/grpc-schema/generated/",
];

/// Sources of the committed XDP object, which records their hash. No documentation is made of them.
const HASHED: &str = "ebpf/program/";

/// Returns one line for each finding in the files that git tracks below `root`.
///
/// # Errors
/// If git does not list the files, or if a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    ensure!(listed.status.success(), "git ls-files failed: run it here");
    let names = String::from_utf8(listed.stdout).context("git lists a name that is not UTF-8")?;
    let tokenizer = Tokenizer::new();
    let mut found = Vec::new();
    for name in names.split_terminator('\0') {
        if OTHERS_WORDS.iter().any(|other| name.starts_with(other))
            || name.ends_with(".proptest-regressions")
        {
            continue;
        }
        let path = root.join(name);
        // Its target is in the repository too.
        if path.is_symlink() {
            continue;
        }
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            // Deleted, but not yet in a commit.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        };
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            let mut report = |finding: String| found.push(format!("{name}:{number}: {finding}"));
            if is_too_long(name, line) {
                report(format!(
                    "{} columns: break the line after at most {COLUMNS}",
                    line.chars().count()
                ));
            }
            if name.ends_with(".rs") && !name.starts_with(HASHED) && shows_a_path(line) {
                report("a link shows the path `crate::…`: write [`Name`](crate::…)".to_owned());
            }
            misspelled(&tokenizer, line)
                .filter(|finding| !is_foreign(name, finding))
                .for_each(&mut report);
        }
    }
    Ok(found)
}

/// Returns whether a comment links to an item by its path alone. Readers of a crate that exports
/// the item again would see a path that their program does not have.
fn shows_a_path(line: &str) -> bool {
    line.trim_start().starts_with("//") && line.contains("[`crate::")
}

/// Returns whether a finding is a word of another program's interface.
fn is_foreign(name: &str, finding: &str) -> bool {
    FOREIGN.iter().any(|(file, word)| {
        *file == name
            && finding
                .to_ascii_lowercase()
                .starts_with(&format!("`{word}"))
    })
}

/// Returns whether a line of a file is longer than allowed.
///
/// Rust code and the comments of all languages are limited. A line that is long because of a string
/// literal is not: breaking data makes it harder to read.
fn is_too_long(name: &str, line: &str) -> bool {
    if line.chars().count() <= COLUMNS {
        return false;
    }
    let trimmed = line.trim_start();
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str());
    let is_comment = |starts: &[&str]| starts.iter().any(|start| trimmed.starts_with(start));
    match extension {
        Some("rs") => is_comment(&["//"]) || without_literals(line) > COLUMNS,
        Some("c" | "h" | "pml" | "js" | "proto") => is_comment(&["//", "/*", "* "]),
        Some("lua") => is_comment(&["--"]),
        Some("toml" | "yml" | "service" | "socket" | "py" | "in") => is_comment(&["#"]),
        None => name.starts_with("scripts/") && is_comment(&["#"]),
        _ => false,
    }
}

/// Returns the columns of a line without the contents of its string literals.
fn without_literals(line: &str) -> usize {
    if let Some((before, after)) = line.split_once("r#\"") {
        let rest = after.rsplit_once("\"#").map_or("", |(_, rest)| rest);
        return without_literals(before) + without_literals(rest);
    }
    let mut columns = 0;
    let mut inside = false;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '"' => inside = !inside,
            _ if inside => {}
            _ => columns += 1,
        }
    }
    columns
}

/// Returns the misspelled and replaced words of a line.
fn misspelled<'a>(tokenizer: &'a Tokenizer, line: &'a str) -> impl Iterator<Item = String> + 'a {
    check_str(line, tokenizer, &American).map(|typo| match &typo.corrections {
        Status::Corrections(instead) => {
            format!("`{}`: write {}", typo.typo, instead.join(" or "))
        }
        Status::Valid | Status::Invalid => format!("`{}` is no word", typo.typo),
    })
}

/// The dictionary: [`SPELLINGS`], then [`WORDS`], then that of `typos` in American English.
struct American;

impl Dictionary for American {
    fn correct_ident<'s>(&'s self, _: Identifier<'_>) -> Option<Status<'s>> {
        None
    }

    fn correct_word<'s>(&'s self, word: Word<'_>) -> Option<Status<'s>> {
        let token = word.token();
        let is_it = |other: &str| other.eq_ignore_ascii_case(token);
        if SPELLINGS.iter().copied().any(is_it) {
            return Some(Status::Valid);
        }
        if let Some((_, instead)) = WORDS.iter().find(|(word, _)| is_it(word)) {
            return Some(Status::Corrections(vec![Cow::Borrowed(*instead)]));
        }
        let key = UniCase::new(token);
        if let Some(corrections) = typos_dict::WORD.find(&key) {
            let instead = corrections.iter().copied().map(Cow::Borrowed);
            return Some(Status::Corrections(instead.collect()));
        }
        let (_, variants) = typos_vars::VARS.find(&key)?.iter().find(|(set, _)| {
            !typos_vars::CategorySet::from_bits_truncate(*set).contains(Category::American)
        })?;
        let instead = typos_vars::corrections(Category::American, **variants);
        Some(Status::Corrections(
            instead.iter().copied().map(Cow::Borrowed).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(line: &str) -> Vec<String> {
        misspelled(&Tokenizer::new(), line).collect()
    }

    #[test]
    fn errors_of_spelling_are_found_in_text_and_in_identifiers() {
        assert_eq!(
            findings("// It recieves a frame."),
            ["`recieves`: write receives"]
        );
        assert_eq!(
            findings("let frame_recieved = 1;"),
            ["`recieved`: write received"]
        );
        assert_eq!(
            findings("struct NeighbourIndex;"),
            ["`Neighbour`: write neighbor"]
        );
        assert!(findings("/// The neighbor receives 0x7e11 of a color.").is_empty());
    }

    #[test]
    fn replaced_words_are_found_whole_and_with_their_replacement() {
        assert_eq!(
            findings("fn told_once() {}"),
            ["`told`: write reported, notified, completed"]
        );
        assert_eq!(findings("enum BallKind {}"), ["`Ball`: write keepalive"]);
        assert!(findings("a footballer satellite-linked a teller").is_empty());
    }

    #[test]
    fn links_by_a_path_alone_are_found() {
        assert!(shows_a_path("    /// See [`crate::app::RxPipe`]."));
        assert!(!shows_a_path("/// See [`RxPipe`](crate::app::RxPipe)."));
        assert!(!shows_a_path("let text = \"[`crate::\";"));
    }

    #[test]
    fn long_lines_are_found_unless_a_literal_makes_them_long() {
        let code = format!("    let x = {};", "a + ".repeat(25));
        let literal = format!("    let x = \"{}\";", "a \\\" b".repeat(25));
        let comment = format!("    // \"{}\"", "a ".repeat(50));
        assert!(is_too_long("a/b.rs", &code));
        assert!(!is_too_long("a/b.rs", &literal));
        let raw = format!("    let x = r#\"{}\"#;", "{\"a\":1}".repeat(20));
        assert!(!is_too_long("a/b.rs", &raw));
        assert!(is_too_long("a/b.rs", &comment));
        assert!(is_too_long("scripts/a", &format!("# {}", "a ".repeat(50))));
        assert!(!is_too_long(
            "scripts/a",
            &format!("echo {}", "a ".repeat(50))
        ));
        assert!(!is_too_long("a/b.rs", &"é".repeat(COLUMNS)));
    }
}
