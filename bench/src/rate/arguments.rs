//! The command line of `rate`.

use std::path::PathBuf;

use clap::Args;

use crate::{against::Against, arguments::Wire};

/// Receiving from a virtual cable.
#[derive(Debug, Args)]
pub struct Rate {
    /// Systems to compare with.
    #[command(flatten)]
    pub against: Against,
    /// How it is measured.
    #[command(flatten)]
    pub wire: Wire,
    /// Only these frame sizes: `64` or `mix`.
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    pub sizes: Vec<String>,
    /// Folder with captures for the mix; `../shared/data` if it is there, else a built-in sample.
    #[arg(long, value_name = "DIR", env = "COVALENT_BENCH_CAPTURES")]
    pub captures: Option<PathBuf>,
}
