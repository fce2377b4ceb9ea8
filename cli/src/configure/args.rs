//! The command line of `covalent configure`.

use clap::{Args, Subcommand};

use super::stage::Stage;
use crate::args::{ConfigArgs, Format};

/// `covalent configure …`
#[derive(Debug, Subcommand)]
pub enum ConfigureCommand {
    /// Prepare the machine for a node: huge pages, queues, rings, offloads, interrupts, locked
    /// memory.
    #[command(
        after_help = "Stages, in this order: hugepages, channels, rings, offloads, irq, memlock, \
        xdp. The section [configure] of the configuration sets their values. Each stage prints the \
        equivalent command before it acts.\n\n\
        First all stages check whether they can do their work; if one cannot, nothing is changed. \
        Before a setting is changed, its value is written to configure.record in node.runtime_dir \
        and synced to disk. So `fini` undoes exactly these changes, also if this command was \
        killed. A second run changes nothing more. The settings are the kernel's and last until \
        the next boot. After each boot, run this command before the node starts.\n\n\
        Exit status: 0 if everything is as wanted now, 1 if something is not, 2 if something \
        cannot be done.\n\n\
        Examples:\n  \
        sudo covalent configure init\n  \
        covalent configure init --dry-run                        print the commands only\n  \
        sudo covalent configure init --only hugepages,offloads   nothing else"
    )]
    Init(WorkArgs),
    /// Report differences from the configuration, without changes and without privilege.
    #[command(
        after_help = "JSON has an object for each stage and interface: `stage`, `interface`, \
        `state` (as_wanted, not_applicable, not_as_wanted, cannot), `found`, `cure`, the \
        `commands` by which `init` changes it, and `undo`, the commands by which `fini` reverts \
        that.\n\n\
        Exit status: 0 if everything is as wanted or does not apply here, 1 if something is not as \
        wanted, 2 if something cannot be determined or changed.\n\n\
        Examples:\n  \
        covalent configure check\n  \
        covalent configure check --config my.toml --format json | jq '.[] | select(.state != \
        \"as_wanted\")'"
    )]
    Check(CheckArgs),
    /// Undo the changes of `init`, in reverse order, also after a crash.
    #[command(
        after_help = "Settings that were changed by other means since are reported and left alone. \
        A record of another boot is void, because its settings ended with that boot.\n\n\
        Exit status: 0 if all is as it was before, 1 if something was left because it was changed \
        by other means, 2 if something could not be undone.\n\n\
        Examples:\n  \
        sudo covalent configure fini\n  \
        sudo covalent configure fini --dry-run     print the commands only"
    )]
    Fini(WorkArgs),
}

/// `covalent configure check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Which node.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Only these stages, separated by commas.
    #[arg(
        long,
        env = "COVALENT_CONFIGURE_ONLY",
        value_enum,
        value_delimiter = ',',
        value_name = "STAGE,…"
    )]
    pub only: Vec<Stage>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent configure init`, `covalent configure fini`
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Which node, which stages, and how it is printed.
    #[command(flatten)]
    pub check: CheckArgs,
    /// Print the commands and change nothing.
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
