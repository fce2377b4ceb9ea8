//! Each test that `PROMISES.md` names exists, each promise names one, and each has its adversary.

use std::{
    fs,
    path::{Path, PathBuf},
};

struct Source {
    /// The path without the extension, by its parts.
    parts: Vec<String>,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of the sources can be read") {
        let path = entry.expect("an entry of it can be read").path();
        let name = path
            .file_name()
            .map_or("", |name| name.to_str().expect("UTF-8"));
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut stem = path.with_extension("");
            if name == "tests.rs" {
                // The unit tests of the module beside it.
                stem.pop();
            }
            let parts = stem
                .iter()
                .map(|part| part.to_str().expect("UTF-8").to_owned());
            found.push(Source {
                parts: parts
                    .filter(|part| part != "mod" && part != "main")
                    .collect(),
                text: fs::read_to_string(&path).expect("a source can be read"),
            });
        }
    }
}

/// `a::{b,c}` is `a::b` and `a::c`.
fn spelled_out(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (choices, after) = rest.split_once('}').expect("a brace that closes");
    let choices = choices.split(',');
    choices
        .map(|choice| format!("{before}{choice}{after}"))
        .collect()
}

/// Whether a source has a test of this name; one that ends in … is the beginning of one.
fn has_test(source: &Source, name: &str) -> bool {
    let wanted = name.strip_suffix('…').map_or_else(
        || format!("fn {name}("),
        |beginning| format!("fn {beginning}"),
    );
    let lines: Vec<_> = source.text.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        line.starts_with(&wanted)
            && lines[..at]
                .iter()
                .rev()
                .take_while(|above| above.starts_with('#') || above.starts_with("//"))
                .any(|above| *above == "#[test]")
    })
}

/// Whether a name in code type exists: a test, with or without its modules; a file or a directory
/// of tests; or a formula of the model.
fn exists(sources: &[Source], model: &str, name: &str) -> bool {
    let mut modules: Vec<_> = name.split("::").collect();
    let is_in = |source: &Source, modules: &[&str]| {
        let is_module = |at: usize| source.parts[at..].iter().eq(modules);
        let ends = source.parts.len().checked_sub(modules.len());
        ends.is_some_and(is_module)
    };
    if modules.last() == Some(&"tests") {
        modules.pop();
        return sources
            .iter()
            .any(|source| is_in(source, &modules) && source.text.contains("#[test]"));
    }
    let test = modules.pop().unwrap_or_default();
    modules.retain(|&module| module != "tests");
    let named = sources
        .iter()
        .any(|source| is_in(source, &modules) && has_test(source, test));
    let is_file_of_tests = |source: &Source| {
        let mut parts = source.parts.iter().skip_while(|part| *part != "tests");
        parts.any(|part| part == test)
    };
    named
        || modules.is_empty() && sources.iter().any(is_file_of_tests)
        || modules.first() == Some(&"loom")
            && sources.iter().any(|source| is_in(source, &["loom", test]))
        || model.contains(&format!("ltl {test} "))
}

/// Returns the names in code type of one promise, without those that are no names of tests: files,
/// options, commands.
fn names(promise: &str) -> Vec<String> {
    let spans = promise.split('`').skip(1).step_by(2);
    let is_name = |span: &&str| {
        span.chars().all(|letter| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_:{},…".contains(letter)
        })
    };
    spans.filter(is_name).flat_map(spelled_out).collect()
}

#[test]
fn every_promise_names_tests_that_exist() {
    let mut all = Vec::new();
    sources(&root(), &mut all);
    let read = |file: &str| fs::read_to_string(root().join("check/spec").join(file)).expect(file);
    let (promises, model) = (read("PROMISES.md"), read("link.pml"));
    let (promised, _) = promises
        .split_once("\n## Not promised")
        .expect("\"Not promised\" is a section of its own");
    let mut number = 0;
    let mut missing = Vec::new();
    for promise in promised
        .split("\n\n")
        .flat_map(|block| block.split('\n'))
        .fold(Vec::<String>::new(), |mut items, line| {
            let starts = line.split_once(". ").is_some_and(|(number, _)| {
                !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
            });
            if starts {
                items.push(line.to_owned());
            } else if let Some(item) = items.last_mut().filter(|_| line.starts_with(' ')) {
                item.push('\n');
                item.push_str(line);
            }
            items
        })
    {
        number += 1;
        assert!(
            promise.starts_with(&format!("{number}. ")),
            "numbers are stable: {promise}"
        );
        let names = names(&promise);
        let excused = ["**Unmet:**", "**No order** is promised", "compile_fail"];
        if names.is_empty() && !excused.iter().any(|words| promise.contains(words)) {
            missing.push(format!("{number}: names no test, and is not marked unmet"));
        }
        for name in names {
            let doc_test = || {
                name == "compile_fail"
                    && all
                        .iter()
                        .any(|source| source.text.contains("```compile_fail"))
            };
            if !exists(&all, &model, &name) && !doc_test() {
                missing.push(format!("{number}: there is no test `{name}`"));
            }
        }
    }
    assert!(number > 40, "{number} promises were read");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The numbers of a cell such as `1, 3–5`.
fn numbers(cell: &str) -> Vec<u32> {
    let number = |text: &str| text.trim().parse::<u32>().expect("a number of a promise");
    let ranges = cell.split(',').map(|range| match range.split_once('–') {
        Some((first, last)) => number(first)..=number(last),
        None => number(range)..=number(range),
    });
    ranges.flatten().collect()
}

#[test]
fn every_promise_names_the_adversary_that_it_assumes() {
    let page = fs::read_to_string(root().join("check/spec/PROMISES.md")).expect("PROMISES.md");
    let (_, after) = page
        .split_once("\n## Adversaries\n")
        .expect("adversaries have a part of their own");
    let (adversaries, promises) = after
        .split_once("\n## ")
        .expect("promises follow the adversaries");
    let rows = adversaries
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2);
    let mut named: Vec<_> = rows
        .flat_map(|row| {
            let cell = row.trim_end_matches('|').rsplit('|').next();
            numbers(cell.expect("a row has a last cell"))
        })
        .collect();
    named.sort_unstable();
    let promised = promises.lines().filter_map(|line| {
        let (number, _) = line.split_once(". ")?;
        number.parse::<u32>().ok()
    });
    assert_eq!(named, promised.collect::<Vec<_>>(), "each promise once");
}
