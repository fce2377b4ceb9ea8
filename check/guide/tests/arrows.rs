//! Modules import each other in one direction only: `docs/architecture.md`, Crates.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use covalent_guide::pages;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Crates whose modules, the top ones, form no cycle.
const CRATES: [&str; 8] = [
    "base/api",
    "base/config",
    "protocol",
    "dataplane",
    "control",
    "verbs",
    "cli",
    "bench",
];

/// Folders of crates, each with the folders that its crates may depend on besides their own. The
/// tests of a crate may use any other.
const FOLDERS: [(&str, &[&str]); 11] = [
    ("base", &[]),
    ("protocol", &[]),
    ("pipe", &["base"]),
    ("ebpf", &[]),
    ("dataplane", &["base", "protocol", "pipe", "ebpf"]),
    ("control", &["base", "protocol"]),
    ("verbs", &["base", "protocol", "pipe"]),
    ("apps", &["base", "verbs"]),
    ("check", &["protocol"]),
    ("cli", &["base", "ebpf", "verbs", "check"]),
    (
        "bench",
        &[
            "base",
            "protocol",
            "pipe",
            "ebpf",
            "dataplane",
            "verbs",
            "apps",
        ],
    ),
];

/// Imports that would point upward: crate, module, and the module that it must not import.
const UPWARD: [(&str, &str, &str); 6] = [
    ("protocol", "link", "node"),
    ("protocol", "latch", "link"),
    ("dataplane", "lane", "server"),
    ("dataplane", "port", "lane"),
    ("dataplane", "server", "daemon"),
    ("verbs", "device", "rx"),
];

/// The import of a top module in a file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Import {
    from: String,
    to: String,
    file: PathBuf,
}

/// Reads the paths of `code`, code of the module `at`, that begin at the crate's root or lead there
/// by `super`. They may be in a `use` or anywhere else, but not in comments or strings.
fn paths(code: TokenStream, at: &[String], found: &mut BTreeSet<Vec<String>>) {
    let trees: Vec<_> = code.into_iter().collect();
    let mut here = 0;
    while let Some(tree) = trees.get(here) {
        if let [
            TokenTree::Ident(word),
            TokenTree::Ident(name),
            TokenTree::Group(body),
            ..,
        ] = &trees[here..]
            && word == "mod"
        {
            let below = [at, &[name.to_string()]].concat();
            paths(body.stream(), &below, found);
            here += 3;
            continue;
        }
        match tree {
            // A group of a path is read with it.
            TokenTree::Group(_) if has_colons(&trees[..here], true) => {}
            TokenTree::Group(group) => paths(group.stream(), at, found),
            TokenTree::Ident(word) if !has_colons(&trees[..here], true) => {
                let base = match word.to_string().as_str() {
                    "crate" => Some(Vec::new()),
                    "super" => Some(at[..at.len().saturating_sub(1)].to_vec()),
                    _ => None,
                };
                if let Some(base) = base
                    && has_colons(&trees[here + 1..], false)
                {
                    path(&trees[here + 3..], base, found);
                }
            }
            _ => {}
        }
        here += 1;
    }
}

/// Whether `::` is at the end or at the beginning of `trees`.
fn has_colons(trees: &[TokenTree], at_end: bool) -> bool {
    let two = if at_end {
        trees.last_chunk()
    } else {
        trees.first_chunk()
    };
    let is_colon =
        |tree: &TokenTree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ':');
    two.is_some_and(|two: &[TokenTree; 2]| two.iter().all(is_colon))
}

/// Reads on from `base::`: a path, or the paths of a group.
fn path(trees: &[TokenTree], mut base: Vec<String>, found: &mut BTreeSet<Vec<String>>) {
    match trees.first() {
        Some(TokenTree::Ident(word)) => {
            match word.to_string().as_str() {
                "super" => drop(base.pop()),
                "self" => {}
                name => base.push(name.to_owned()),
            }
            if has_colons(&trees[1..], false) {
                path(&trees[3..], base, found);
            } else {
                found.insert(base);
            }
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let trees: Vec<_> = group.stream().into_iter().collect();
            let is_comma =
                |tree: &TokenTree| matches!(tree, TokenTree::Punct(it) if it.as_char() == ',');
            for part in trees.split(is_comma).filter(|part| !part.is_empty()) {
                path(part, base.clone(), found);
            }
        }
        // `base::*`, or a type's parameters.
        _ => drop(found.insert(base)),
    }
}

/// The names that a root exports to other crates. Reads `pub use …;`.
fn exports(code: TokenStream) -> BTreeSet<String> {
    let trees: Vec<_> = code.into_iter().collect();
    let is_word = |tree: &TokenTree, word| matches!(tree, TokenTree::Ident(it) if it == word);
    let mut found = BTreeSet::new();
    for (at, two) in trees.windows(2).enumerate() {
        if is_word(&two[0], "pub") && is_word(&two[1], "use") {
            path(&trees[at + 2..], Vec::new(), &mut found);
        }
    }
    let names = found.into_iter().filter_map(|mut path| path.pop());
    names.collect()
}

/// The names that a root re-exports, each with its module. Reads `use module::…;`.
fn reexports(code: TokenStream, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let trees: Vec<_> = code.into_iter().collect();
    let mut found = BTreeSet::new();
    for (at, tree) in trees.iter().enumerate() {
        if matches!(tree, TokenTree::Ident(word) if word == "use") {
            path(&trees[at + 1..], Vec::new(), &mut found);
        }
    }
    let of_module = found.into_iter().filter_map(|path| match &path[..] {
        [module, .., name] if modules.contains(module) => Some((name.clone(), module.clone())),
        _ => None,
    });
    of_module.collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// The imports between the top modules of the crate in `folder`.
fn imports(folder: &str) -> BTreeSet<Import> {
    let root = pages::root().join(folder).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    // Its module, as the path of a file gives it, and its code.
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let code: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let below = file.strip_prefix(&root).unwrap().with_extension("");
        let mut module: Vec<_> = below
            .iter()
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        if matches!(module.last().unwrap().as_str(), "mod" | "lib" | "main") {
            module.pop();
        }
        (file, module, code)
    };
    let files: Vec<_> = files.into_iter().map(read).collect();
    let modules: BTreeSet<_> = files
        .iter()
        .filter_map(|(_, module, _)| module.first().cloned())
        .collect();
    let reexports: BTreeMap<_, _> = files
        .iter()
        .filter(|(_, module, _)| module.is_empty())
        .flat_map(|(_, _, code)| reexports(code.clone(), &modules))
        .collect();
    let mut imports = BTreeSet::new();
    for (file, module, code) in files {
        // The root declares all modules, and only re-exports what they have.
        let Some(from) = module.first() else { continue };
        let mut found = BTreeSet::new();
        paths(code, &module, &mut found);
        for name in found.iter().filter_map(|path| path.first()) {
            let to = modules.get(name).or_else(|| reexports.get(name));
            if let Some(to) = to.filter(|to| *to != from) {
                imports.insert(Import {
                    from: from.clone(),
                    to: to.clone(),
                    file: file.strip_prefix(pages::root()).unwrap().to_owned(),
                });
            }
        }
    }
    imports
}

/// A cycle of `imports`, if there is one: each of its imports leads to the module of the next.
fn cycle(imports: &BTreeSet<Import>) -> Option<Vec<&Import>> {
    fn search<'a>(
        imports: &'a BTreeSet<Import>,
        from: &str,
        way: &mut Vec<&'a Import>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<&'a Import>> {
        for import in imports.iter().filter(|import| import.from == from) {
            way.push(import);
            if let Some(start) = way.iter().position(|it| it.from == import.to) {
                return Some(way.split_off(start));
            }
            if done.insert(&import.to)
                && let Some(cycle) = search(imports, &import.to, way, done)
            {
                return Some(cycle);
            }
            way.pop();
        }
        None
    }
    let mut done = BTreeSet::new();
    imports
        .iter()
        .find_map(|import| search(imports, &import.from, &mut Vec::new(), &mut done))
}

#[test]
fn no_modules_import_each_other() {
    for folder in CRATES {
        let imports = imports(folder);
        assert!(imports.len() > 20, "{folder}: the imports were not found");
        let cycle: Vec<_> = cycle(&imports)
            .unwrap_or_default()
            .iter()
            .map(|it| format!("`{}` imports `{}` in {}", it.from, it.to, it.file.display()))
            .collect();
        assert!(
            cycle.is_empty(),
            "{folder}: a cycle; move what both need into a lower module:\n{}",
            cycle.join("\n")
        );
    }
}

#[test]
fn no_module_imports_the_one_that_drives_it() {
    for (folder, from, to) in UPWARD {
        let imports = imports(folder);
        for module in [from, to] {
            assert!(
                imports
                    .iter()
                    .any(|it| [&it.from, &it.to].contains(&&module.to_owned())),
                "{folder}: no module `{module}`"
            );
        }
        let upward = imports.iter().find(|it| it.from == from && it.to == to);
        assert!(
            upward.is_none(),
            "{}: `{from}` imports `{to}`, which drives it",
            upward.unwrap().file.display()
        );
    }
}

/// Groups are a layer on what the client library exports. `verbs/tests/layer.rs` compiles them so:
/// that includes the methods that they call.
#[test]
fn groups_import_only_what_every_program_can() {
    let source = pages::root().join("verbs/src");
    let read = |file: &Path| -> TokenStream { fs::read_to_string(file).unwrap().parse().unwrap() };
    let exports = exports(read(&source.join("lib.rs")));
    assert!(
        exports.contains("Device") && exports.len() > 60,
        "{exports:?}"
    );
    let mut files = Vec::new();
    sources(&source.join("group"), &mut files);
    let mut count = 0;
    for file in files {
        let mut module = vec!["group".to_owned()];
        let name = file.file_stem().unwrap().to_str().unwrap();
        module.extend((name != "mod").then(|| name.to_owned()));
        let mut found = BTreeSet::new();
        paths(read(&file), &module, &mut found);
        let outside = found.iter().filter(|path| path.first() != Some(&module[0]));
        for path in outside {
            let name = path.first().map_or("*", String::as_str);
            assert!(
                exports.contains(name),
                "{}: `crate::{}` is private; add to the library what other programs want too",
                file.display(),
                path.join("::")
            );
            count += 1;
        }
    }
    assert!(count > 20, "{count} imports");
}

/// The root exports groups, `opening.rs` has the calls of a device that open them, and `tokio` the
/// one that waits for their events.
#[test]
fn only_what_is_above_groups_imports_them() {
    let imports = imports("verbs");
    let importers: BTreeSet<_> = (imports.iter().filter(|it| it.to == "group"))
        .map(|it| it.from.as_str())
        .collect();
    assert_eq!(importers, BTreeSet::from(["opening", "tokio"]));
}

/// Each command has its arguments beside it, and `command_line.rs` imports all commands.
#[test]
fn no_arguments_import_a_command() {
    let imports = imports("cli");
    let is_of_arguments = |it: &&Import| it.file.file_name().is_some_and(|name| name == "args.rs");
    let of_arguments: Vec<_> = imports.iter().filter(is_of_arguments).collect();
    assert!(of_arguments.len() > 3, "{of_arguments:?}");
    for Import { file, to, .. } in of_arguments {
        assert_eq!(to, "args", "{} imports `{to}`", file.display());
    }
}

#[test]
fn every_form_of_a_path_is_read() {
    let code = r#"
        //! [`Other`](crate::comment::Other)
        use std::{io, crate_name::self};
        use crate::{a, b::{self, C as D}, e::f::*};
        use super::super::g;
        pub(in crate::own) fn f(it: &crate::h::I) -> bool {
            matches!(it, crate::j::K::<u8> { .. }) && "crate::text".is_empty()
        }
        mod tests {
            use super::{super::l, m};
        }
    "#;
    let mut found = BTreeSet::new();
    let at = ["own".to_owned(), "file".to_owned()];
    paths(code.parse().unwrap(), &at, &mut found);
    let found: Vec<_> = found.iter().map(|path| path.join("::")).collect();
    let expected = [
        "a",
        "b",
        "b::C",
        "e::f",
        "g",
        "h::I",
        "j::K",
        "own",
        "own::file::m",
        "own::l",
    ];
    assert_eq!(found, expected);
}

#[test]
fn only_public_names_are_exports() {
    let code = "
        mod a;
        pub mod b;
        use a::Private;
        pub(crate) use a::Internal;
        pub use a::{One, two::Two, c::{self}};
    ";
    let expected = ["One", "Two", "c"].map(str::to_owned);
    assert_eq!(exports(code.parse().unwrap()), BTreeSet::from(expected));
}

#[test]
fn a_cycle_is_found_wherever_it_begins() {
    let import = |(from, to): (&str, &str)| Import {
        from: from.to_owned(),
        to: to.to_owned(),
        file: PathBuf::new(),
    };
    let down = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")];
    assert_eq!(cycle(&down.map(import).into()), None);
    for upward in [("c", "b"), ("d", "a"), ("d", "b")] {
        let mut imports: BTreeSet<_> = down.map(import).into();
        imports.insert(import(upward));
        let cycle = cycle(&imports).unwrap();
        assert!(cycle.contains(&&import(upward)), "{cycle:?}");
        for (at, it) in cycle.iter().enumerate() {
            assert_eq!(it.to, cycle[(at + 1) % cycle.len()].from, "{cycle:?}");
        }
    }
}

/// The crates of the workspace that the manifest lists for its product, not for its tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut is_product = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_product = line.ends_with("dependencies]") && !line.contains("dev-");
        }
        let end = line.find(|it: char| !it.is_ascii_alphanumeric() && it != '-');
        let name = &line[..end.unwrap_or(line.len())];
        if is_product && (name == "covalent" || name.starts_with("covalent-")) {
            found.push(name.to_owned());
        }
    }
    found
}

#[test]
fn crates_depend_on_lower_folders_only() {
    let root = pages::root();
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    // Its name here, and its place.
    let places: BTreeMap<_, _> = workspace
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(" = { path = \"")?;
            Some((name.to_owned(), rest.split('"').next()?.to_owned()))
        })
        .collect();
    let folder_of = |place: &str| place.split('/').next().unwrap().to_owned();
    let members = workspace.lines().filter_map(|line| {
        let place = line.strip_prefix("    \"")?.strip_suffix("\",")?;
        root.join(place)
            .join("Cargo.toml")
            .is_file()
            .then_some(place)
    });
    let members: Vec<_> = members.collect();
    assert!(members.len() > 20, "{members:?}");
    for place in members {
        let folder = folder_of(place);
        let (_, allowed) = FOLDERS
            .iter()
            .find(|(name, _)| *name == folder)
            .unwrap_or_else(|| panic!("{place}: its folder is not in the list"));
        let manifest = fs::read_to_string(root.join(place).join("Cargo.toml")).unwrap();
        for name in dependencies(&manifest) {
            let to = folder_of(&places[&name]);
            assert!(
                to == folder || allowed.contains(&to.as_str()),
                "{place} depends on {name}, which is not below it"
            );
        }
    }
}

#[test]
fn only_dependencies_of_the_product_are_arrows() {
    let manifest = "[dependencies]\ncovalent-a.workspace = true\nserde = \"1\"\n\
        [dev-dependencies]\ncovalent-b = { path = \"b\" }\n\
        [target.'cfg(loom)'.dependencies]\ncovalent = { workspace = true }\n\
        [features]\ncovalent-d = []\n";
    assert_eq!(dependencies(manifest), ["covalent-a", "covalent"]);
}
