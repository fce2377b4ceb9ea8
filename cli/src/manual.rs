//! `covalent man`: manual pages, from the definitions that the programs read their arguments with.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{definitions::Program, output};

/// `covalent man`
#[derive(Debug, Args)]
#[command(
    after_help = "`make install` installs them where man finds them. Each command has its own \
    page: `man covalent-status`.\n\n\
    Examples:\n  \
    covalent man /tmp/man && man -l /tmp/man/man1/covalent.1\n  \
    covalent man /usr/local/share/man"
)]
pub struct ManArgs {
    /// The directory, in which `man1` and `man8` are created.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Related manual pages.
const SEE_ALSO: &str = "covalent(1), covalentd(8), covalent-control(8)";

/// Runs `covalent man`, where `covalent` makes the command line of this program.
///
/// # Errors
/// When a page cannot be written.
pub fn run(args: &ManArgs, covalent: fn() -> Command) -> Result<ExitCode> {
    let mut pages = 0_u32;
    for program in Program::ALL {
        let section = program.section();
        let directory = args.directory.join(format!("man{section}"));
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        // Every command's options name its own page, and `help` needs none.
        let mut definition = program.definition(covalent).disable_help_subcommand(true);
        definition.build();
        pages += write_pages(&definition, section, &directory)?;
    }
    output::line(&format!("{pages} pages in {}", args.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of `command` and those of its subcommands. Returns their number.
fn write_pages(command: &Command, section: &str, directory: &Path) -> Result<u32> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = directory.join(format!("{name}.{section}"));
    let page = page(command, name, section).context("a manual page")?;
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    let mut pages = 1;
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        pages += write_pages(below, section, directory)?;
    }
    Ok(pages)
}

fn page(command: &Command, name: &str, section: &str) -> io::Result<Vec<u8>> {
    let after = command.get_after_help().map(ToString::to_string);
    // Its examples are lines, which a paragraph would fill up.
    let without = command.clone().after_help(None::<&str>);
    let mut page = Vec::new();
    Man::new(without)
        .title(name)
        .section(section)
        .source(concat!("covalent ", env!("CARGO_PKG_VERSION")))
        .manual("Covalent")
        // None, in a way that is a word of its own: an empty one would leave its place to the next.
        .date(" ")
        .render(&mut page)?;
    let mut rest = Roff::new();
    after_help(&mut rest, after.as_deref().unwrap_or_default());
    rest.control("SH", ["SEE ALSO"]).text([roman(SEE_ALSO)]);
    page.extend(rest.to_roff().into_bytes());
    Ok(page)
}

/// Converts the text below a command's help. Paragraphs become notes. A line that ends in a colon
/// becomes the heading of the indented lines below, which stay verbatim.
fn after_help(roff: &mut Roff, text: &str) {
    let mut notes = false;
    for block in text.split("\n\n") {
        match block.split_once(":\n  ") {
            Some((heading, lines)) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                roff.control("nf", []);
                for line in lines.lines() {
                    roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
                }
                roff.control("fi", []);
                notes = false;
            }
            None if block.is_empty() => {}
            None => {
                if !std::mem::replace(&mut notes, true) {
                    roff.control("SH", ["NOTES"]);
                } else {
                    roff.control("PP", []);
                }
                roff.text([roman(block)]);
            }
        }
    }
}
