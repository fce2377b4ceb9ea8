//! The steps of `make docs` besides mdBook, and the check of the style in `make lint`.
//!
//! ```text
//! covalent-guide preprocess    mdBook's preprocessor: rewrites links for the site
//! covalent-guide check SITE    checks that every link of the built site has a target
//! covalent-guide style         checks lines, spelling and words of all files that git tracks
//! ```

use std::{
    env,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Result, bail, ensure};
use covalent_guide::{book, site, style};

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
        _ => bail!("usage: covalent-guide preprocess | check SITE | style"),
    };
    io::stdout().write_all(output.as_bytes())?;
    Ok(())
}
