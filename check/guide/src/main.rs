//! The steps of `make docs` besides mdBook, and the checks of the text in `make lint`.
//!
//! ```text
//! covalent-guide preprocess          mdBook's preprocessor: rewrites links for the site
//! covalent-guide check SITE          checks that every link of the built site has a target
//! covalent-guide style               checks lines, spelling and words of all files that git tracks
//! covalent-guide excerpts [--write]  checks that the programs in the pages equal their sources, or
//!                                    copies them into the pages
//! ```

use std::{
    env,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Result, bail, ensure};
use covalent_guide::{book, excerpts, site, style};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("covalent-guide: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = match words.as_slice() {
        // mdBook queries whether the renderer is supported. Links are the same in all renderers.
        ["preprocess", "supports", _] => String::new(),
        ["preprocess"] => {
            let mut input = String::new();
            io::stdin().read_to_string(&mut input)?;
            book::preprocess(&input)?
        }
        ["check", site] => {
            let looked = site::check(Path::new(site))?;
            format!(
                "{} pages, {} links: all lead somewhere\n",
                looked.pages, looked.links
            )
        }
        ["style"] => {
            let found = style::check(Path::new("."))?;
            for finding in &found {
                eprintln!("{finding}");
            }
            ensure!(
                found.is_empty(),
                "{} findings in the style of the text: fix the lines above",
                found.len()
            );
            String::new()
        }
        ["excerpts"] => {
            let found = excerpts::check(Path::new("."))?;
            for finding in &found {
                eprintln!("{finding}");
            }
            ensure!(
                found.is_empty(),
                "{} programs in the pages differ from their sources: run `cargo run -p \
                 covalent-guide -- excerpts --write`",
                found.len()
            );
            String::new()
        }
        ["excerpts", "--write"] => {
            let written = excerpts::write(Path::new("."))?;
            format!(
                "{} programs in the pages were copied again\n",
                written.len()
            )
        }
        _ => bail!("usage: covalent-guide preprocess | check SITE | style | excerpts [--write]"),
    };
    io::stdout().write_all(output.as_bytes())?;
    Ok(())
}
