//! `covalent-guest`: stock Debian kernels under QEMU that run Covalent's host-built programs on the
//! drivers of real NICs.
//!
//! ```text
//!   apt ─► kernels, QEMU, tools in target/guest ─► a machine for each job ─► facts
//!   facts ─► check/guest/results ─► docs/supported-kernels.md
//! ```
//! A guest sees the host's own root, read-only, below an in-memory overlay. Host-built programs
//! therefore run unchanged on another kernel and on NICs that the host does not have. A guest
//! changes nothing on the host except its job's folder.

mod apt;
mod books;
mod command;
mod job;
mod kernel;
mod machine;
mod monitor;
mod netem;
mod nic;
mod outcome;
mod page;
mod place;
mod programs;
mod retry;
mod roce;
mod run;
mod stock;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use comfy_table::{Table, TableStyle};

use self::{job::Job, outcome::Outcome, place::Place, stock::Stock};

/// Runs Covalent on stock Debian kernels under QEMU.
#[derive(Debug, Parser)]
#[command(name = "covalent-guest", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetches QEMU, tools and kernels by package name, after printing their sizes
    Fetch {
        /// Looks for newer packages than those that are here
        #[arg(long)]
        renew: bool,
    },
    /// Lists the jobs
    List,
    /// Runs jobs, one guest after the other, and stores their results
    Run(RunArgs),
    /// Compares a bank's books with its clients' reports, in a guest
    #[command(hide = true)]
    Books {
        /// Output of the bank
        bank: PathBuf,
        /// Output of each client
        #[arg(required = true)]
        clients: Vec<PathBuf>,
    },
    /// Converts the output of a demonstration to facts, in a guest
    #[command(hide = true)]
    Demo {
        /// Its summary
        summary: PathBuf,
    },
    /// Converts the measurements of soft-RoCE and Covalent to facts, in a guest
    #[command(hide = true)]
    Roce {
        /// Output of `covalent-bench latency`
        latency: PathBuf,
        /// Output of `covalent-bench perftest`
        perftest: PathBuf,
        /// Output of `covalent-bench atomics`
        atomics: PathBuf,
    },
    /// Converts the output of `covalent-bench loss` to facts, in a guest
    #[command(hide = true)]
    Retry {
        /// Its output
        results: PathBuf,
    },
    /// Makes docs/supported-kernels.md from the results that are kept
    Page,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: covalent-guest run conformance igb --programs target/debug")]
struct RunArgs {
    /// Words that the name of a job must have, each of them; without any, all jobs
    words: Vec<String>,
    /// Folder with Covalent's programs
    #[arg(long, default_value = "target/release", value_name = "DIR")]
    programs: PathBuf,
    /// Keeps no results
    #[arg(long)]
    try_only: bool,
}

#[allow(clippy::print_stderr, reason = "a command's last words")]
fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("covalent-guest: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[allow(clippy::print_stdout, reason = "a command's output")]
fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Books { bank, clients } => {
            books::check(bank, clients)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Demo { summary } => {
            print!("{}", books::demonstration(summary)?);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Roce {
            latency,
            perftest,
            atomics,
        } => {
            print!("{}", roce::fact([latency, perftest, atomics])?);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Retry { results } => {
            print!("{}", retry::fact(results)?);
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let place = Place::find()?;
    match command {
        Command::Fetch { renew } => {
            let stock = Stock::open(&place, *renew)?;
            for line in stock::Line::ALL {
                println!("{}: {}", line.name(), stock.kernel(line)?.release());
            }
        }
        Command::List => {
            for job in job::all() {
                println!("{}", job.name());
            }
        }
        Command::Run(arguments) => return run_jobs(&place, arguments),
        Command::Page => {
            let page = page::of(&outcome::kept(&place.results())?)?;
            fs::write(place.page(), page)
                .with_context(|| format!("cannot write {}", place.page().display()))?;
        }
        Command::Books { .. }
        | Command::Demo { .. }
        | Command::Roce { .. }
        | Command::Retry { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

#[allow(clippy::print_stdout, reason = "a command's output")]
fn run_jobs(place: &Place, arguments: &RunArgs) -> Result<ExitCode> {
    let jobs: Vec<Job> = job::all()
        .into_iter()
        .filter(|job| arguments.words.iter().all(|word| job.name().contains(word)))
        .collect();
    if jobs.is_empty() {
        bail!(
            "no job's name has all of {:?}\n  cure: covalent-guest list",
            arguments.words
        );
    }
    let programs = place.repository().join(&arguments.programs);
    if !programs.join("covalentd").is_file() {
        bail!("no programs in {}\n  cure: make build", programs.display());
    }
    let stock = Stock::open(place, false)?;
    let mut outcomes = Vec::new();
    for job in &jobs {
        println!("{}", job.name());
        let outcome = run::job(place, &stock, &programs, job)?;
        if !run::is_well(&outcome) {
            println!("{}", machine::tail(&run::console(place, job)));
        }
        if !arguments.try_only {
            outcome.keep(&place.results())?;
        }
        outcomes.push(outcome);
    }
    println!("{}", table(&outcomes));
    Ok(ExitCode::from(u8::from(!outcomes.iter().all(run::is_well))))
}

fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_header(["job", "kernel", "outcome", "s", "results"]);
    for outcome in outcomes {
        let facts: Vec<String> = outcome
            .facts
            .keys()
            .filter(|name| !outcome.is_table(name))
            .map(|name| format!("{name} {}", outcome.fact(name)))
            .collect();
        table.add_row([
            outcome.job.clone(),
            outcome.kernel.clone(),
            format!("{:?}", outcome.verdict).to_lowercase(),
            outcome.seconds.to_string(),
            facts.join("; "),
        ]);
    }
    table
}
