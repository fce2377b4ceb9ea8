//! The command line of `covalent configure`.

use clap::{Args, Subcommand};

use super::stage::Stage;
use crate::args::{ConfigArgs, Format};

/// `covalent configure …`
#[derive(Debug, Subcommand)]
pub enum ConfigureCommand {
    /// Makes the machine ready for a node: huge pages, queues, rings, offloads, interrupts, locked memory.
    #[command(
        after_help = "Stages, in this order: hugepages, channels, rings, offloads, irq, memlock, xdp. What each wants stands in the configuration, under \
        [configure]. Each prints the command that does the same before it does it.\n\n\
        First all stages look whether they can do their work; if one cannot, nothing is changed. Then, before a setting is touched, its value is written to \
        configure.record in node.runtime_dir and on disk, so that `fini` undoes exactly what was done, however this command ended. Twice is as good as once. The \
        settings are the kernel's and end with the boot: run it again after one, before the node starts.\n\n\
        Exit status: 0 if everything is as wanted now, 1 if something is not, 2 if something cannot be done.\n\n\
        Examples:\n  \
        sudo covalent configure init\n  \
        covalent configure init --dry-run                        prints the commands and changes nothing\n  \
        sudo covalent configure init --only hugepages,offloads   nothing else"
    )]
    Init(WorkArgs),
    /// Tells what is not as the configuration wants it; changes nothing and needs no privilege.
    #[command(
        after_help = "JSON has an object for each stage and interface: `stage`, `interface`, `state` (as_wanted, not_applicable, not_as_wanted, cannot), `found`, \
        `cure`, and the `commands` with which `init` makes it so and `undo` with which `fini` takes them back.\n\n\
        Exit status: 0 if everything is as wanted or does not apply here, 1 if something is not as wanted, 2 if something cannot be told or changed.\n\n\
        Examples:\n  \
        covalent configure check\n  \
        covalent configure check --config my.toml --format json | jq '.[] | select(.state != \"as_wanted\")'"
    )]
    Check(CheckArgs),
    /// Undoes what `init` did, in reverse, after a crash too.
    #[command(
        after_help = "What somebody else has changed since is told and left alone. A record of another boot is void, for the settings ended with that.\n\n\
        Exit status: 0 if all is as it was before, 1 if something was left because somebody else changed it, 2 if something could not be undone.\n\n\
        Examples:\n  \
        sudo covalent configure fini\n  \
        sudo covalent configure fini --dry-run     prints the commands and changes nothing"
    )]
    Fini(WorkArgs),
}

/// `covalent configure check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Which node.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// These stages only, with commas between.
    #[arg(
        long,
        env = "COVALENT_CONFIGURE_ONLY",
        value_enum,
        value_delimiter = ',',
        value_name = "STAGE,…"
    )]
    pub only: Vec<Stage>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent configure init`, `covalent configure fini`
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Which node, which stages, and how it is printed.
    #[command(flatten)]
    pub check: CheckArgs,
    /// Prints the commands and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
}

impl CheckArgs {
    /// The stages that are meant, in their order.
    pub fn stages(&self) -> Vec<Stage> {
        let is_meant = |stage: &Stage| self.only.is_empty() || self.only.contains(stage);
        Stage::ALL.into_iter().filter(is_meant).collect()
    }
}
