//! The site as it was built: no link of it leads nowhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    links::{is_elsewhere, split_fragment},
    pages::resolve,
};

/// Numbers of checked items.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Pages.
    pub pages: usize,
    /// Links within the site.
    pub links: usize,
}

/// Checks every link of every page below `site`.
///
/// # Errors
/// Returns the links without a target, and the images, styles and scripts that a page would fetch
/// from elsewhere.
pub fn check(site: &Path) -> Result<Looked> {
    let mut pages = BTreeMap::new();
    collect(site, Path::new(""), &mut pages)?;
    if pages.is_empty() {
        bail!("there is no page below {}", site.display());
    }
    let mut looked = Looked::default();
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        looked.pages += 1;
        let fetched = page.sources.iter().filter(|target| is_elsewhere(target));
        for target in fetched.filter(|target| !target.starts_with("data:")) {
            wrong.push(format!("  {} fetches {target}", path.display()));
        }
        for target in page.targets.iter().chain(&page.sources) {
            if is_elsewhere(target) {
                continue;
            }
            looked.links += 1;
            let (file, fragment) = split_fragment(target);
            let file = file.split('?').next().unwrap_or_default();
            let mut there = match file {
                "" => path.clone(),
                file => resolve(path, file),
            };
            if site.join(&there).is_dir() {
                there.push("index.html");
            }
            let id = fragment.trim_start_matches('#');
            let is_there = match pages.get(&there) {
                Some(page) => id.is_empty() || page.ids.contains(id),
                None => site.join(&there).is_file(),
            };
            if !is_there {
                wrong.push(format!("  {} leads to {target}", path.display()));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("broken references of the site:\n{}", wrong.join("\n"));
    }
    Ok(looked)
}

#[derive(Debug, Default)]
struct Html {
    ids: BTreeSet<String>,
    targets: Vec<String>,
    sources: Vec<String>,
}

fn collect(site: &Path, below: &Path, pages: &mut BTreeMap<PathBuf, Html>) -> Result<()> {
    let folder = site.join(below);
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(site, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html")
            // These are parts of pages in other folders, and one for a server.
            && !["toc.html", "404.html", "print.html"].contains(
                &&*entry.file_name().to_string_lossy(),
            )
        {
            let html = fs::read_to_string(entry.path())?;
            pages.insert(path, read(&html));
        }
    }
    Ok(())
}

fn read(html: &str) -> Html {
    let mut page = Html::default();
    for tag in tags(html) {
        page.ids.extend(attribute(tag, "id"));
        let target = attribute(tag, "href");
        if tag.starts_with("link") {
            page.sources.extend(target);
        } else {
            page.targets.extend(target);
        }
        page.sources.extend(attribute(tag, "src"));
    }
    page
}

/// Returns the text between `<` and `>`. mdBook escapes these characters in text. Comments and
/// scripts contain nothing relevant.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    html.split('<').skip(1).filter_map(|rest| {
        let tag = rest.split('>').next()?;
        let is_opening = tag.starts_with(|c: char| c.is_ascii_alphabetic());
        is_opening.then_some(tag)
    })
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(pages: &[(&str, &str)]) -> Result<Looked> {
        let place = tempfile::tempdir().expect("a directory");
        for (name, html) in pages {
            let file = place.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            fs::write(file, html).expect("written");
        }
        check(place.path())
    }

    #[test]
    fn every_link_leads_somewhere_and_nothing_is_fetched() {
        let there = "<h1 id=\"x\">X</h1><a href=\"../a.html#y\">y</a><a href=\"https://e/\">e</a>";
        let looked = site(&[
            (
                "a.html",
                "<p id=\"y\"></p><a href=\"b/c.html#x\">x</a><a href=\"b/\">b</a>",
            ),
            ("b/c.html", there),
            ("b/index.html", "<img src=\"../d.svg\">"),
            ("d.svg", ""),
        ]);
        assert_eq!(looked.expect("sound"), Looked { pages: 3, links: 4 });
        for (html, word) in [
            ("<a href=\"b.html\">b</a>", "b.html"),
            ("<a href=\"#z\">z</a>", "#z"),
            ("<img src=\"e.svg\">", "e.svg"),
            ("<script src=\"https://cdn/x.js\"></script>", "fetches"),
            (
                "<link rel=\"stylesheet\" href=\"https://cdn/x.css\">",
                "fetches",
            ),
        ] {
            let error = site(&[("a.html", html)]).expect_err(html).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
