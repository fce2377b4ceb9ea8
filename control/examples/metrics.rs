//! Generates files from the declarations of the metrics: `metrics page` writes docs/metrics.md,
//! `metrics dashboard` configs/grafana.json. `make metrics` runs both.

use std::{
    io::{Error, Result, Write, stdout},
    process::ExitCode,
};

use covalent_control::metrics::{dashboard, page};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("metrics: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let what = std::env::args().nth(1);
    let text = match what.as_deref() {
        Some("page") => page(),
        Some("dashboard") => dashboard(),
        _ => return Err(Error::other("expected `page` or `dashboard`")),
    };
    stdout().write_all(text.as_bytes())
}
