//! `docs/program/names.md` lists every name of the library in Rust and in C. Every outcome and
//! every error has a number in C.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CStr, c_char},
    fs,
    path::{Path, PathBuf},
};

use syn::{ImplItem, Item, Type, UseTree, Visibility};

use crate::declared::{code, functions, name_of};

const PAGE: &str = "docs/program/names.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn parsed(file: &Path) -> syn::File {
    syn::parse_file(&text(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The Rust files of a folder and its subfolders.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.expect("a directory entry").path()) {
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The last names of a `use`.
fn names(tree: &UseTree, found: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => names(&path.tree, found),
        UseTree::Name(name) => drop(found.insert(name.ident.to_string())),
        UseTree::Rename(rename) => drop(found.insert(rename.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, found)),
        UseTree::Glob(_) => panic!("covalent exports each name by itself"),
    }
}

/// What `covalent` exports.
fn exports() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for item in parsed(&root().join("verbs/src/lib.rs")).items {
        if let Item::Use(item) = item
            && matches!(item.vis, Visibility::Public(_))
        {
            names(&item.tree, &mut found);
        }
    }
    found
}

/// The public methods of the exported types that the crate defines: `Type::method`.
fn methods(exports: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources(&root().join("verbs/src")) {
        for item in parsed(&file).items {
            let Item::Impl(item) = item else { continue };
            let Type::Path(owner) = &*item.self_ty else {
                continue;
            };
            let owner = owner
                .path
                .segments
                .last()
                .expect("a name")
                .ident
                .to_string();
            if item.trait_.is_some() || !exports.contains(&owner) {
                continue;
            }
            for method in item.items {
                if let ImplItem::Fn(method) = method
                    && matches!(method.vis, Visibility::Public(_))
                {
                    found.insert(format!("{owner}::{}", method.sig.ident));
                }
            }
        }
    }
    found
}

/// The functions and the types of the C header.
fn header() -> (BTreeSet<String>, BTreeSet<String>) {
    let (code, functions) = (code(), functions());
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = code.split(|c| !is_part(c));
    let mut types: BTreeSet<_> = names
        .filter(|name| name.starts_with("covalent_"))
        .map(ToOwned::to_owned)
        .collect();
    let functions: BTreeSet<_> = functions
        .iter()
        .map(|text| name_of(text).to_owned())
        .collect();
    types.retain(|name| !functions.contains(name));
    (functions, types)
}

/// A row of the page.
struct Row {
    line: usize,
    rust: Vec<String>,
    c: Vec<String>,
    remark: String,
}

fn rows() -> Vec<Row> {
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(ToOwned::to_owned)
            .collect()
    };
    let page = text(&root().join(PAGE));
    let rows = page.lines().enumerate().filter_map(|(at, line)| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells[..] {
            ["", rust, c, remark, ""] if rust != "Rust" && !rust.starts_with("---") => Some(Row {
                line: at + 1,
                rust: quoted(rust),
                c: quoted(c),
                remark: remark.to_owned(),
            }),
            _ => None,
        }
    });
    rows.collect()
}

#[test]
fn each_name_is_listed_in_both_languages() {
    let (rows, exports) = (rows(), exports());
    let (methods, (functions, types)) = (methods(&exports), header());
    assert!(rows.len() > 100 && methods.len() > 130);
    let mut problems = Vec::new();
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        for name in &row.rust {
            let is_other = exports.contains(name) || name.starts_with("framing::");
            if methods.contains(name) {
                if let Some(line) = listed.insert(name, row.line) {
                    problems.push(format!("line {}: {name} is in line {line} too", row.line));
                }
            } else if name != "Device::as_fd" && name != "TapHead::split" && !is_other {
                problems.push(format!("line {}: there is no {name}", row.line));
            }
        }
        for name in &row.c {
            listed.insert(name, row.line);
            let is_number = matches!(name.as_str(), "int64_t" | "uint64_t");
            if !functions.contains(name) && !types.contains(name) && !is_number {
                problems.push(format!("line {}: there is no {name}", row.line));
            }
            if !functions.contains(name) && row.remark.is_empty() {
                problems.push(format!(
                    "line {}: {name} is no function: give the reason",
                    row.line
                ));
            }
        }
        if row.c.is_empty() && row.remark.is_empty() {
            problems.push(format!("line {}: only in Rust, without a reason", row.line));
        }
    }
    for name in methods.iter().chain(&functions) {
        if !listed.contains_key(name.as_str()) {
            problems.push(format!("{name} is not listed"));
        }
    }
    assert!(problems.is_empty(), "{PAGE}:\n{}", problems.join("\n"));
}

#[test]
fn a_call_that_waits_takes_a_timeout_and_no_name_contains_how_it_waits() {
    let exports = exports();
    for name in methods(&exports) {
        let is_old = name.ends_with("_deadline") || name.ends_with("_blocking");
        assert!(
            !is_old,
            "{name}: `try_x` never waits, and `x` takes a timeout"
        );
    }
}

/// The variants of a public enumeration.
fn variants(file: &Path, name: &str) -> Vec<String> {
    let items = parsed(file).items.into_iter();
    let mut found = items.filter_map(|item| match item {
        Item::Enum(item) if item.ident == name => Some(item.variants),
        _ => None,
    });
    let variants = found.next().expect("the enumeration is in this file");
    variants.iter().map(|each| each.ident.to_string()).collect()
}

/// Names that a log prints are the enumerators of the header.
#[test]
fn each_outcome_and_refusal_has_its_name() {
    let source = root().join("verbs/c/src/verb.rs");
    let enumerations: [(&str, extern "C" fn(u32) -> *const c_char); 2] = [
        ("covalent_outcome", covalent_c::covalent_outcome_name),
        ("covalent_refusal", covalent_c::covalent_refusal_name),
    ];
    for (enumeration, name_of_number) in enumerations {
        // They are numbered from 0 in the order of the source.
        let enumerators = variants(&source, enumeration);
        let end = u32::try_from(enumerators.len()).unwrap();
        let names = (0..=end).map(|number| {
            // SAFETY: never null, ends in a zero.
            let name = unsafe { CStr::from_ptr(name_of_number(number)) };
            name.to_str().unwrap().to_owned()
        });
        let expected = enumerators.into_iter().chain(["unknown".to_owned()]);
        assert_eq!(names.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

/// The compiler does not find these: `covalent` may add variants, so each `match` has a `_`.
#[test]
fn each_outcome_and_error_is_converted_for_c() {
    let conversions = [
        ("verbs/src/verb.rs", "Outcome", "verbs/c/src/verb.rs"),
        ("verbs/src/error.rs", "Error", "verbs/c/src/status.rs"),
    ];
    for (source, name, conversion) in conversions {
        let converted = text(&root().join(conversion));
        for variant in variants(&root().join(source), name) {
            let path = format!("{name}::{variant}");
            let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
            assert!(
                converted
                    .match_indices(&path)
                    .any(|(at, _)| is_whole(&converted[at + path.len()..])),
                "{conversion} does not convert {path}"
            );
        }
    }
}
