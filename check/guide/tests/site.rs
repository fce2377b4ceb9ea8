//! Every link of every page leads somewhere, in the repository and on the built site.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use covalent_guide::{book, pages, site};
use serde_json::{Value, json};

#[test]
fn every_link_leads_to_a_file() {
    let root = pages::root();
    let chapters: Vec<Value> = pages::pages(&root)
        .unwrap()
        .into_iter()
        .map(|page| {
            let own = std::fs::read_to_string(root.join("docs").join(&page.chapter)).unwrap();
            json!({
                "Chapter": {
                    "name": "",
                    "content": own,
                    "path": page.chapter,
                    "sub_items": [],
                },
            })
        })
        .collect();
    let message = json!([{ "root": root.join("docs") }, { "items": chapters }]).to_string();
    let book: Value = serde_json::from_str(&book::preprocess(&message).unwrap()).unwrap();
    let files = book["items"].as_array().unwrap().iter().find_map(|item| {
        let chapter = &item["Chapter"];
        (chapter["path"] == "files.md").then(|| chapter["sub_items"].as_array().unwrap().len())
    });
    assert!(files.unwrap() > 10, "files that are named are pages");

    let dead = json!([
        { "root": root.join("docs") },
        { "items": [{ "Chapter": {
            "name": "", "content": "{{#include ../README.md}}", "path": "start.md", "sub_items": []
        } }, { "Chapter": { "name": "", "content": "", "path": "nowhere.md", "sub_items": [] } }] }
    ]);
    assert!(
        book::preprocess(&dead.to_string()).is_err(),
        "a chapter without a file"
    );
}

#[test]
fn the_site_is_built_and_whole() {
    let root = pages::root();
    let tools = std::fs::read_dir(root.join("target/doc-tools"));
    let mdbook = tools.ok().and_then(|entries| {
        let found = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path().join("bin/mdbook"));
        found.filter(|program| program.exists()).max()
    });
    let Some(mdbook) = mdbook else {
        eprintln!("skipped: there is no mdBook, which `make docs` brings");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_covalent-guide");
    let output = Command::new(mdbook)
        .arg("build")
        .arg(root.join("docs"))
        .arg("--dest-dir")
        .arg(place.path().join("site"))
        .env(
            "MDBOOK_PREPROCESSOR__REPOSITORY__COMMAND",
            format!("{program} preprocess"),
        )
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !message.contains("ERROR"),
        "{message}"
    );
    let looked = site::check(&place.path().join("site")).unwrap();
    assert!(looked.pages > 30 && looked.links > 1000, "{looked:?}");
    let page = std::fs::read_to_string(place.path().join("site/program/verbs.html")).unwrap();
    for word in ["fn host(", "static int host(", "name=\"viewport\""] {
        assert!(page.contains(word), "{word}");
    }
    assert!(!page.contains("ANCHOR"), "marks are left out");

    // From a folder, without a server.
    match shown_by_a_browser(&place.path().join("site/program/verbs.html")) {
        Some(shown) => assert!(
            shown.contains("protocol/frames.html"),
            "the script that makes the list of pages ran"
        ),
        None => eprintln!("skipped: there is no chromium"),
    }
}

/// Returns a page in a folder as a browser renders it, with its scripts run.
fn shown_by_a_browser(page: &std::path::Path) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=390,844",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", place.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
