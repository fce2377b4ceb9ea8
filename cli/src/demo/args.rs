//! The arguments of `covalent demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::named_interfaces::Pair;
use crate::args::Format;

/// `covalent demo`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo covalent demo                     all of it, over AF_XDP\n  \
    sudo covalent demo --verbose           the same, with the table of all figures\n  \
    covalent demo --port cable             without privilege, over shared memory\n  \
    covalent demo --port dpdk              the same over DPDK's shared memory (net_memif); \
    requires a build with `--features dpdk`\n  \
    sudo covalent demo --keep-going        leave the two nodes running for inspection\n  \
    sudo covalent demo --no-bench --interfaces eth1,eth3 --interfaces eth2,eth4   over two cables \
    of this machine\n  \
    covalent demo --format json | jq .checks")]
pub struct DemoArgs {
    /// The medium that connects the two nodes.
    #[arg(long, value_enum, default_value_t = PortChoice::Auto)]
    pub port: PortChoice,
    /// Directory with captures to replay; `../shared/data` if it is there, else a built-in sample.
    #[arg(long, value_name = "DIR")]
    pub captures: Option<PathBuf>,
    /// Duration of the replay of captures, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: Option<u64>,
    /// Total number of fetch-and-adds of the four clients.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000),
    )]
    pub fetch_adds: Option<u64>,
    /// A short run: one second of streams, a tenth of the verbs, shorter figures.
    #[arg(long)]
    pub quick: bool,
    /// Skip the comparison with bare AF_XDP.
    #[arg(long)]
    pub no_bench: bool,
    /// The two interfaces at the ends of one cable, node a's first, instead of a virtual cable.
    /// Give it twice, once for each link. The interfaces are returned at the end, set down.
    #[arg(long, value_name = "A,B", requires = "no_bench")]
    pub interfaces: Vec<Pair>,
    /// Command that cuts and restores the first cable, run with `off` or `on` as its last argument.
    /// Default: set the interface down.
    #[arg(long, value_name = "COMMAND", requires = "interfaces")]
    pub cut_with: Option<String>,
    /// Factor by which every deadline is stretched on a slow machine, such as an emulated one.
    #[arg(
        long,
        value_name = "TIMES",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100),
    )]
    pub patience: u32,
    /// Print the table of all figures, goals and checks before the verdict.
    #[arg(long)]
    pub verbose: bool,
    /// Leave the nodes running after the summary, until Ctrl-C.
    #[arg(long)]
    pub keep_going: bool,
    /// Only remove the files that killed demonstrations left behind.
    #[arg(
        long,
        conflicts_with_all = [
            "quick",
            "no_bench",
            "keep_going",
            "captures",
            "seconds",
            "fetch_adds",
            "interfaces",
            "patience",
        ],
    )]
    pub clean: bool,
    /// Output format of the summary.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// The medium that connects the nodes of the demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PortChoice {
    /// AF_XDP with the privilege for it, else the cable.
    Auto,
    /// AF_XDP on veth pairs between two network namespaces.
    #[value(name = "af_xdp", alias = "af-xdp")]
    AfXdp,
    /// Shared memory between the two daemons.
    Cable,
    /// DPDK ports on `net_memif`, shared memory between the two daemons. Requires daemons built
    /// with the feature `dpdk`.
    Dpdk,
}
