//! What `make docs` asks besides mdBook.
//!
//! ```text
//! covalent-guide preprocess    mdBook's preprocessor: links that lead to where things are on the site
//! covalent-guide check SITE    whether every link of the built site leads somewhere
//! ```

use std::{
    env,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Result, bail};
use covalent_guide::{book, site};

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
    let said = match words.as_slice() {
        // mdBook asks whether the renderer is known. Links are links in all of them.
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
        _ => bail!("usage: covalent-guide preprocess | covalent-guide check SITE"),
    };
    io::stdout().write_all(said.as_bytes())?;
    Ok(())
}
