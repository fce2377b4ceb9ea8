//! The programs in the pages: each is a part of a file that the tests compile and run.
//!
//! A fence with `from=FILE:PART` shows that part of the file: the lines between the comments
//! `ANCHOR: PART` and `ANCHOR_END: PART`, without their common indentation. The page holds a copy,
//! so that it can be read in the repository too.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result, ensure};

use crate::{
    fence::fences,
    pages::{Page, pages, taken_in},
};

/// Returns one line for each fence that differs from the part of its file.
///
/// # Errors
/// If a page cannot be read, or if a fence names a file or a part that does not exist.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for page in pages(root)? {
        update(root, &page, &mut found)?;
    }
    Ok(found)
}

/// Copies the parts into the pages, and returns one line for each changed fence.
///
/// # Errors
/// Those of [`check`], and if a page cannot be written.
pub fn write(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut written = BTreeSet::new();
    for page in pages(root)? {
        let text = update(root, &page, &mut found)?;
        if text != page.text && written.insert(page.source.clone()) {
            fs::write(root.join(&page.source), text)
                .with_context(|| format!("cannot write {}", page.source.display()))?;
        }
    }
    Ok(found)
}

/// Returns the text of a page with its excerpts as they should be, and reports those that differ.
fn update(root: &Path, page: &Page, found: &mut Vec<String>) -> Result<String> {
    let place = page.source.display();
    if taken_in(&page.text).is_none() {
        for (number, line) in (1..).zip(page.text.lines()) {
            ensure!(
                !line.trim_start().starts_with("{{#include "),
                "{place}:{number}: an include cannot be read in the repository: use a fence with \
                 `from=FILE:PART`"
            );
        }
    }
    let mut lines: Vec<&str> = page.text.split_inclusive('\n').collect();
    let excerpts: Vec<_> = fences(&page.text)
        .into_iter()
        .filter_map(|fence| Some((fence.attribute("from")?.to_owned(), fence)))
        .map(|(from, fence)| {
            let part = read_part(root, &from).with_context(|| {
                format!("{place}:{}: the fence is from `{from}`", fence.line - 1)
            })?;
            Ok((from, fence, part))
        })
        .collect::<Result<_>>()?;
    // Start at the end, so that earlier lines keep their numbers.
    for (from, fence, part) in excerpts.iter().rev() {
        if fence.text == *part {
            continue;
        }
        found.push(format!(
            "{place}:{}: the text is not that of {from}",
            fence.line
        ));
        let first = fence.line - 1;
        lines.splice(first..first + fence.text.lines().count(), [part.as_str()]);
    }
    Ok(lines.concat())
}

fn read_part(root: &Path, from: &str) -> Result<String> {
    let (file, name) = from
        .split_once(':')
        .context("it names no part: write FILE:PART")?;
    let text =
        fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
    part(&text, name).with_context(|| {
        format!("{file} has no lines between `ANCHOR: {name}` and `ANCHOR_END: {name}`")
    })
}

/// Returns the lines between the marks of a part, without marks of other parts.
fn part(text: &str, name: &str) -> Option<String> {
    let (begin, end) = (format!("ANCHOR: {name}"), format!("ANCHOR_END: {name}"));
    let is = |line: &str, mark: &str| line.trim_end().ends_with(mark);
    let mut lines = text.lines().skip_while(|line| !is(line, &begin)).skip(1);
    let mut inside = Vec::new();
    loop {
        let line = lines.next()?;
        if is(line, &end) {
            break;
        }
        if !line.contains("ANCHOR") {
            inside.push(line);
        }
    }
    let indents = inside.iter().filter(|line| !line.trim().is_empty());
    let indent = indents
        .map(|line| line.len() - line.trim_start().len())
        .min()?;
    Some(
        inside
            .iter()
            .map(|line| format!("{}\n", line.get(indent..).unwrap_or_default()))
            .collect(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PROGRAM: &str = "\
fn main() {
    // ANCHOR: outer
    if it {

        // ANCHOR: inner
        print();
        // ANCHOR_END: inner
    }
    // ANCHOR_END: outer
}
";

    fn repository(page: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/SUMMARY.md"), "[a](a.md)\n").unwrap();
        fs::write(root.path().join("docs/a.md"), page).unwrap();
        fs::write(root.path().join("a.rs"), PROGRAM).unwrap();
        root
    }

    fn page(outer: &str, inner: &str) -> String {
        format!(
            "# A\n\n```rust,ignore from=a.rs:outer\n{outer}```\n\ntext\n\n```rust from=a.rs:inner\n\
             {inner}```\n\n```rust\nother();\n```\n"
        )
    }

    #[test]
    fn a_changed_excerpt_is_found_and_written_again() {
        let good = page("if it {\n\n    print();\n}\n", "print();\n");
        let root = repository(&good);
        assert!(check(root.path()).unwrap().is_empty());

        for (outer, inner, findings) in [
            ("if it {\n\n    print(1);\n}\n", "print();\n", 1),
            ("", "", 2),
            ("a\n", "b\n\nc\n", 2),
        ] {
            let bad = page(outer, inner);
            let root = repository(&bad);
            assert_eq!(check(root.path()).unwrap().len(), findings);
            let kept = fs::read_to_string(root.path().join("docs/a.md")).unwrap();
            assert_eq!(kept, bad, "a check writes nothing");
            assert_eq!(write(root.path()).unwrap().len(), findings);
            let written = fs::read_to_string(root.path().join("docs/a.md")).unwrap();
            assert_eq!(written, good);
        }
    }

    #[test]
    fn a_part_that_does_not_exist_and_an_include_are_errors() {
        for (page, reason) in [
            ("```rust from=a.rs:none\n```\n", "ANCHOR_END: none"),
            ("```rust from=b.rs:none\n```\n", "cannot read b.rs"),
            ("```rust from=a.rs\n```\n", "names no part"),
            ("# A\n{{#include ../a.rs:inner}}\n", "docs/a.md:2"),
        ] {
            let error = check(repository(page).path()).unwrap_err();
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
    }
}
