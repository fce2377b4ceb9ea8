//! The pages of the site, as `docs/SUMMARY.md` lists them.
//!
//! A page may come from elsewhere in the repository. Then its file in `docs/` is one line,
//! `{{#include ../README.md}}`.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::links::links;

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its file on the site, below `docs/`.
    pub chapter: PathBuf,
    /// Where its text is, below the repository's root.
    pub source: PathBuf,
    /// Its text.
    pub text: String,
}

/// The repository that this crate belongs to.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .components()
        .fold(PathBuf::new(), step)
}

/// All pages, in the order of the summary.
///
/// # Errors
/// The file that cannot be read.
pub fn pages(root: &Path) -> Result<Vec<Page>> {
    let summary = read(&root.join("docs/SUMMARY.md"))?;
    let mut pages = Vec::new();
    for link in links(&summary) {
        let chapter = PathBuf::from(link.target);
        let own = read(&root.join("docs").join(&chapter))?;
        let source = taken_in(&own).map_or_else(
            || Path::new("docs").join(&chapter),
            |target| resolve(&Path::new("docs").join(&chapter), target),
        );
        let text = read(&root.join(&source))?;
        pages.push(Page {
            chapter,
            source,
            text,
        });
    }
    Ok(pages)
}

/// The file that a page consists of, if it is nothing but taken in.
#[must_use]
pub fn taken_in(text: &str) -> Option<&str> {
    let target = text
        .trim()
        .strip_prefix("{{#include ")?
        .strip_suffix("}}")?;
    (Path::new(target).extension()? == "md").then_some(target)
}

/// The file to which `target` leads from the file `from`, both below the same root.
#[must_use]
pub fn resolve(from: &Path, target: &str) -> PathBuf {
    from.parent()
        .unwrap_or(Path::new(""))
        .join(target)
        .components()
        .fold(PathBuf::new(), step)
}

fn step(mut path: PathBuf, part: Component<'_>) -> PathBuf {
    match part {
        Component::ParentDir => {
            path.pop();
        }
        Component::CurDir => {}
        part => path.push(part),
    }
    path
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_taken_in_whole_or_not_at_all() {
        assert_eq!(
            taken_in("{{#include ../README.md}}\n"),
            Some("../README.md")
        );
        assert_eq!(taken_in("# A\n{{#include ../README.md}}\n"), None);
        assert_eq!(taken_in("{{#include a.rs:here}}\n"), None);
        assert_eq!(
            resolve(Path::new("docs/a/b.md"), "../../c.md"),
            Path::new("c.md")
        );
    }
}
