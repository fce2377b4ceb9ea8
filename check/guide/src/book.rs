//! mdBook's chapters, with links that match the layout of the site.
//!
//! Pages link to each other, and to other files of the repository, by their paths in the
//! repository, so that the links work there too. On the site a page may be elsewhere
//! ([`taken_in`]). A linked file becomes a page of its own, below `files/`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    links::{links, split_fragment},
    pages::{resolve, taken_in},
};

/// The chapter under which the files are that pages name.
const FILES: &str = "files.md";

/// Returns the rewritten chapters: the preprocessor's reply to the book that mdBook writes to its
/// standard input.
///
/// # Errors
/// The input is not from mdBook, or a link has no target.
pub fn preprocess(input: &str) -> Result<String> {
    let (context, mut book): (Value, Value) =
        serde_json::from_str(input).context("this is called by mdBook")?;
    let book_root = context["root"].as_str().context("mdBook names its root")?;
    let root = Path::new(book_root)
        .parent()
        .context("the book is in the repository")?;
    let items = book["items"].as_array_mut().context("a book has items")?;

    let mut places = BTreeMap::new();
    for_each(items, &mut |chapter| {
        let path = own_path(chapter)?;
        places.insert(source_of(chapter, &path), path);
        Ok(())
    })?;
    let mut rewriter = Rewriter {
        root,
        places: &places,
        files: BTreeSet::new(),
        dead: Vec::new(),
    };
    for_each(items, &mut |chapter| rewriter.rewrite(chapter))?;
    if !rewriter.dead.is_empty() {
        bail!("these links lead nowhere:\n{}", rewriter.dead.join("\n"));
    }
    let files = rewriter.files;
    for_each(items, &mut |chapter| {
        if own_path(chapter)? == Path::new(FILES) {
            chapter["sub_items"] = files
                .iter()
                .map(|file| file_chapter(root, file))
                .collect::<Result<Vec<_>>>()?
                .into();
        }
        Ok(())
    })?;
    Ok(book.to_string())
}

fn for_each(items: &mut [Value], work: &mut impl FnMut(&mut Value) -> Result<()>) -> Result<()> {
    for item in items {
        let Some(chapter) = item.get_mut("Chapter") else {
            continue;
        };
        work(chapter)?;
        if let Some(below) = chapter["sub_items"].as_array_mut() {
            for_each(below, work)?;
        }
    }
    Ok(())
}

fn own_path(chapter: &Value) -> Result<PathBuf> {
    let path = chapter["source_path"]
        .as_str()
        .or_else(|| chapter["path"].as_str());
    path.map(PathBuf::from)
        .with_context(|| format!("the chapter {} has no file", chapter["name"]))
}

/// Where the text of a chapter is in the repository.
fn source_of(chapter: &Value, path: &Path) -> PathBuf {
    let own = Path::new("docs").join(path);
    let content = chapter["content"].as_str().unwrap_or_default();
    taken_in(content).map_or_else(|| own.clone(), |target| resolve(&own, target))
}

struct Rewriter<'a> {
    root: &'a Path,
    /// The chapters, by where their text is.
    places: &'a BTreeMap<PathBuf, PathBuf>,
    /// Files that pages name.
    files: BTreeSet<PathBuf>,
    dead: Vec<String>,
}

impl Rewriter<'_> {
    fn rewrite(&mut self, chapter: &mut Value) -> Result<()> {
        let path = own_path(chapter)?;
        let source = source_of(chapter, &path);
        let mut text = fs::read_to_string(self.root.join(&source))
            .with_context(|| format!("cannot read {}", source.display()))?;
        // Start at the end, so that earlier positions stay valid.
        for link in links(&text).iter().rev() {
            let (file, fragment) = split_fragment(&link.target);
            match self.place_of(&path, &source, file) {
                Some(place) => text.replace_range(link.at.clone(), &(place + fragment)),
                None => self
                    .dead
                    .push(format!("  {}: {}", source.display(), link.target)),
            }
        }
        chapter["content"] = text.into();
        Ok(())
    }

    /// Where `target`, named in `source`, is seen from the chapter `path`.
    fn place_of(&mut self, path: &Path, source: &Path, target: &str) -> Option<String> {
        let target = resolve(source, target);
        let there = self.root.join(&target);
        if let Some(chapter) = self.places.get(&target) {
            return Some(relative_path(path, chapter));
        }
        // The README of a folder describes it.
        if let Some(chapter) = self.places.get(&target.join("README.md")) {
            return Some(relative_path(path, chapter));
        }
        // Reject a file that only includes another one: its reader in the repository would find one
        // line.
        let text = fs::read_to_string(&there).unwrap_or_default();
        if !there.exists() || taken_in(&text).is_some() {
            return None;
        }
        if let Ok(asset) = target.strip_prefix("docs")
            && there.is_file()
            && target.extension().is_none_or(|extension| extension != "md")
        {
            // mdBook copies it beside the pages.
            return Some(relative_path(path, asset));
        }
        let place = file_place(&target);
        self.files.insert(target);
        Some(relative_path(path, &place))
    }
}

/// The page of a file that is named.
fn file_place(file: &Path) -> PathBuf {
    let mut name = Path::new("files").join(file).into_os_string();
    name.push(".md");
    name.into()
}

/// The link from one page to another.
fn relative_path(from: &Path, to: &Path) -> String {
    let up = from.components().count() - 1;
    // As mdBook calls it.
    let to = if to.file_name().is_some_and(|name| name == "README.md") {
        to.with_file_name("index.md")
    } else {
        to.to_owned()
    };
    format!("{}{}", "../".repeat(up), to.display())
}

/// Returns a file, or the listing of a folder, as a page.
fn file_chapter(root: &Path, file: &Path) -> Result<Value> {
    let place = file_place(file);
    let there = root.join(file);
    let content = if there.is_dir() {
        let mut names = fs::read_dir(&there)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<Vec<_>>>()?;
        names.sort();
        names.iter().map(|name| format!("- `{name}`\n")).collect()
    } else {
        let text = fs::read_to_string(&there)
            .with_context(|| format!("{} is named by a page and no text", file.display()))?;
        // mdBook interprets `{{#` in its input.
        let text = text.replace("{{#", "\\{{#");
        format!("`````{}\n{text}\n`````\n", language(file))
    };
    Ok(json!({ "Chapter": {
        "name": file.display().to_string(),
        "content": format!("# `{}`\n\n{content}", file.display()),
        "number": null,
        "sub_items": [],
        "path": place,
        "source_path": null,
        "parent_names": ["Files"],
    }}))
}

fn language(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => "rust,ignore",
        Some("c" | "h") => "c",
        Some("md") => "markdown",
        Some("toml") => "toml",
        Some("lua") => "lua",
        Some("json") => "json",
        Some("yml") => "yaml",
        _ => "text",
    }
}
