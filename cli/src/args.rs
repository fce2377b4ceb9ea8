//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::BoolishValueParser};
use covalent_sim::{
    Mutant,
    options::{Faults, Topology},
};

use crate::definitions::Program;

/// A userspace network dataplane: poll-mode lanes, pipes in shared memory, exactly-once links and atomic verbs.
#[derive(Debug, Parser)]
#[command(
    name = "covalent",
    version,
    arg_required_else_help = true,
    after_help = "Start here:\n  \
        sudo covalent demo                      two nodes on this machine, everything for real, half a minute\n  \
        covalent config print-default > my.toml the whole configuration, every key explained\n  \
        sudo covalent doctor --config my.toml   what this machine lacks, and how to mend it\n  \
        sudo covalent configure init --config my.toml   huge pages, queues, offloads and so on as the file wants them\n  \
        sudo covalent up --interfaces eth1      start this node; with a file: --config my.toml\n  \
        covalent status                         what it is doing; `links`, `groups`, `pipes` and `events` show a part alone\n  \
        covalent monitor                        the same with rates, on the whole terminal\n  \
        covalent watch port                     single metrics as a stream; --format json for programs\n  \
        sudo covalent reload --config my.toml   put the edited file in force\n  \
        covalent verb fetch-add node-b bank 0 1 any verb by hand\n  \
        sudo covalent capture node.pcapng       what its ports receive and send, for Wireshark"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows Covalent at work: two nodes on this machine, with checks and figures.
    Demo(DemoArgs),
    /// Starts this node's two processes and waits until they are ready.
    Up(UpArgs),
    /// Ends this node's two processes.
    #[command(after_help = "Examples:\n  \
        sudo covalent down\n  \
        sudo covalent down --config my.toml")]
    Down(ConfigArgs),
    /// Puts an edited configuration in force on a running node, whole or not at all.
    Reload(ReloadArgs),
    /// Shows lanes, ports, links, pipes, regions and drops of a running node.
    Status(StatusArgs),
    /// Shows lanes, ports, links, pipes and drops of a running node on the whole terminal, with rates.
    Monitor(crate::monitor::MonitorArgs),
    /// Streams metrics or events of a running node.
    Watch(crate::watch::WatchArgs),
    /// Shows the links of a running node, and what failed or was dropped on them.
    #[command(after_help = "Examples:\n  \
        covalent links\n  \
        covalent links --format json | jq '.[] | select(.state != \"up\")'")]
    Links(ListArgs),
    /// Shows what applications on a running node tell of their groups: standing, view and members.
    #[command(
        after_help = "A group runs in its members' libraries; what is shown is this node's members' word, some milliseconds old.\n\n\
        Examples:\n  \
        covalent groups\n  \
        covalent groups --format json | jq '.[] | select(.standing != \"member\")'"
    )]
    Groups(ListArgs),
    /// Shows the pipes of the applications on a running node, and what was dropped at them.
    #[command(
        after_help = "A session is one attached application; `covalent events` says which.\n\n\
        Examples:\n  \
        covalent pipes\n  \
        covalent pipes --format json | jq '.[] | select(.session == 3)'"
    )]
    Pipes(ListArgs),
    /// Shows what happened last on a running node, and with --follow what happens.
    Events(crate::events::EventsArgs),
    /// Shows what a node's daemon counted, from shared memory: while it runs, and after it ended or died.
    Counters(crate::counters::CountersArgs),
    /// Shows and changes the steering rules of a running node.
    #[command(subcommand)]
    Steer(crate::steer::SteerCommand),
    /// Posts any verb by hand, on a region of any node that is reached.
    #[command(subcommand)]
    Verb(crate::verb::VerbCommand),
    /// Writes what ports of a running node receive and send into a file for Wireshark.
    Capture(crate::capture::CaptureArgs),
    /// Deletes durable regions of a running node.
    #[command(subcommand)]
    Region(RegionCommand),
    /// Looks at machine and configuration and says what stands in the way, why, and what to do.
    Doctor(DoctorArgs),
    /// Prints or checks a configuration, and says what `auto` becomes.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Makes the machine ready for a node, tells what is not, and undoes it.
    #[command(subcommand)]
    Configure(crate::configure::ConfigureCommand),
    /// Measures Covalent beside its peers: runs `covalent-bench` with everything that follows (`covalent bench --help`).
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  \
            sudo covalent bench latency --against udp,tcp\n  \
            sudo covalent bench rate --against af_packet,dpdk-af_xdp\n  \
            sudo covalent bench loss --losses 0,0.1,1\n  \
            covalent bench perftest my-rnic/*.txt"
    )]
    Bench(BenchArgs),
    /// Runs the link, node and verb code on simulated cables that fail, and prints what happened.
    Sim(SimArgs),
    /// Prints what a shell needs to complete the options and commands of a program.
    Completions(CompletionsArgs),
    /// Writes the manual pages of all programs of a node.
    Man(ManArgs),
}

/// `covalent completions`
#[derive(Debug, Args)]
#[command(
    after_help = "`make install` puts them where bash, zsh and fish look for them.\n\n\
    Examples:\n  \
    source <(covalent completions bash)                                       in this shell\n  \
    covalent completions zsh >~/.zfunc/_covalent                              a directory in $fpath\n  \
    covalent completions fish covalentd >~/.config/fish/completions/covalentd.fish"
)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
    /// Which program's.
    #[arg(value_enum, value_name = "PROGRAM", default_value_t = Program::Covalent)]
    pub program: Program,
}

/// `covalent man`
#[derive(Debug, Args)]
#[command(
    after_help = "`make install` puts them where man looks for them. Each command has a page of its own: `man covalent-status`.\n\n\
    Examples:\n  \
    covalent man /tmp/man && man -l /tmp/man/man1/covalent.1\n  \
    covalent man /usr/local/share/man"
)]
pub struct ManArgs {
    /// The directory; `man1` and `man8` are made in it.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// `covalent bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What `covalent-bench` is told.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}

/// Which configuration.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The node's configuration file.
    #[arg(
        long,
        env = "COVALENT_CONFIG",
        default_value = "/etc/covalent/covalent.toml",
        value_name = "FILE"
    )]
    pub config: PathBuf,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// `covalent demo`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo covalent demo                     the whole, over AF_XDP\n  \
    covalent demo --port cable             without privilege, over shared memory\n  \
    covalent demo --port dpdk              the same over DPDK's shared memory (net_memif); wants a build with `--features dpdk`\n  \
    sudo covalent demo --keep-going        leave the two nodes running for a look around\n  \
    sudo covalent demo --no-bench --interfaces eth1,eth3 --interfaces eth2,eth4   over two cables of this machine\n  \
    covalent demo --format json | jq .checks")]
pub struct DemoArgs {
    /// What joins the two nodes.
    #[arg(long, value_enum, default_value_t = PortChoice::Auto)]
    pub port: PortChoice,
    /// Directory with captures to replay; `../shared/data` if it is there, else a built-in sample.
    #[arg(long, value_name = "DIR")]
    pub captures: Option<PathBuf>,
    /// Seconds that captures are replayed.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: Option<u64>,
    /// Fetch-and-adds of the four clients together.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    pub fetch_adds: Option<u64>,
    /// A short run: one second of streams, a tenth of the verbs, shorter figures.
    #[arg(long)]
    pub quick: bool,
    /// Leaves out the comparison with bare AF_XDP.
    #[arg(long)]
    pub no_bench: bool,
    /// The two interfaces at the ends of one cable, node a's first, instead of a virtual cable; given twice, once for each link. They come back, set down, at the end.
    #[arg(long, value_name = "A,B", requires = "no_bench")]
    pub interfaces: Vec<crate::demo::Pair>,
    /// Cuts and mends the first cable by this command, which hears `off` or `on` behind it, instead of setting the interface down.
    #[arg(long, value_name = "COMMAND", requires = "interfaces")]
    pub cut_with: Option<String>,
    /// How many times longer everything may take than on a usual machine, one that is emulated for example.
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub patience: u32,
    /// Leaves the nodes running after the summary, until Ctrl-C.
    #[arg(long)]
    pub keep_going: bool,
    /// Only removes what demonstrations that were killed left behind.
    #[arg(long, conflicts_with_all = ["quick", "no_bench", "keep_going", "captures", "seconds", "fetch_adds", "interfaces", "patience"])]
    pub clean: bool,
    /// How the summary is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// What joins the nodes of the demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PortChoice {
    /// AF_XDP with the privilege for it, else the cable.
    Auto,
    /// AF_XDP on veth pairs between two network namespaces.
    #[value(name = "af_xdp", alias = "af-xdp")]
    AfXdp,
    /// Shared memory between the two daemons.
    Cable,
    /// DPDK ports on `net_memif`, shared memory between the two daemons. For daemons that were built with the feature `dpdk`.
    Dpdk,
}

/// `covalent up`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo covalent up --name a --interfaces eth1,eth2   all that a node needs to be told; it is written to the file, which later starts read\n  \
    sudo covalent up --config my.toml\n  \
    sudo covalent up --config my.toml --foreground   stay, and end both with Ctrl-C")]
pub struct UpArgs {
    /// Which node.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Name of a node that has no configuration yet; the host's, if it is left out.
    #[arg(
        long,
        env = "COVALENT_NAME",
        requires = "interfaces",
        value_name = "NAME"
    )]
    pub name: Option<String>,
    /// Its interfaces, whose cables lead to its neighbours. Both are written to the configuration file, if it is not there or is the
    /// installed example.
    #[arg(
        long,
        env = "COVALENT_INTERFACES",
        value_delimiter = ',',
        value_name = "INTERFACE,…"
    )]
    pub interfaces: Vec<String>,
    /// Stays in the foreground: the processes end with this command.
    #[arg(long, env = "COVALENT_FOREGROUND", value_parser = BoolishValueParser::new())]
    pub foreground: bool,
}

/// `covalent reload`
#[derive(Debug, Args)]
#[command(
    after_help = "covalent-control reads the file that it was started with, and offers it to covalentd; every lane takes it, or none. What is read \
    at covalentd's start only is refused, with the place in the file. SIGHUP to covalent-control does the same.\n\n\
    Exit status: 0 if the file is in force, 1 if nothing was changed.\n\n\
    Examples:\n  \
    sudo covalent reload\n  \
    sudo covalent reload --config my.toml"
)]
pub struct ReloadArgs {
    /// Which node.
    #[command(flatten)]
    pub node: ControlNodeArgs,
}

/// Which running node's control process.
#[derive(Debug, Args)]
pub struct ControlNodeArgs {
    /// Its configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Control's socket, instead of the one that the configuration names.
    #[arg(long, env = "COVALENT_CONTROL_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `covalent status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    covalent status\n  \
    covalent status --nodes                 the nodes beyond the neighbours: whether and over which port each is reached\n  \
    covalent status --socket /run/covalent/covalentd.sock --format json | jq .links")]
pub struct StatusArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Shows the other nodes alone, however many cables away: whether each is reached, in how many hops and over which port.
    #[arg(long)]
    pub nodes: bool,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent links`, `covalent groups`, `covalent pipes`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// How they are printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Which running node.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Its configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The daemon's socket, instead of a configuration.
    #[arg(long, env = "COVALENT_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `covalent region …`
#[derive(Debug, Subcommand)]
pub enum RegionCommand {
    /// Deletes a durable region for good: what it holds is gone, its name and its room in the journal are free.
    #[command(
        after_help = "Only the region's own user, root and the daemon's user may, and only while no application has it registered. \
        `covalent status` lists the durable regions.\n\n\
        Examples:\n  \
        covalent region delete ledger\n  \
        covalent region delete ledger --socket /run/covalent/covalentd.sock"
    )]
    Delete(DeleteArgs),
}

/// `covalent region delete`
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Name of the region.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `covalent doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Looks at the machine, at what the configuration names and, if the node runs, at what it does: twice, a quarter of a second apart. \
    Each finding says what was found, on which object, and what to do. Nothing is changed. The node's files are best looked at as root.\n\n\
    A finding is `fine`; `warning`: it works, and could be better; or `failed`: the node does not start, does not work as configured, or loses \
    frames. JSON has them under `findings`, each with `check`, `level`, `found` and `cure`, their numbers under `failed` and `warnings`, and under \
    `took_ms` how long the examination took.\n\n\
    Exit status: 0 if nothing failed (warnings do not count, unless --strict), 1 if something did or the machine could not be looked at, 2 if \
    the command line is wrong.\n\n\
    Examples:\n  \
    sudo covalent doctor\n  \
    sudo covalent doctor --config my.toml --format json | jq '.findings[] | select(.level == \"failed\")'\n  \
    sudo covalent doctor --strict && echo healthy"
)]
pub struct DoctorArgs {
    /// The node's configuration file; left out, `/etc/covalent/covalent.toml` if it is there, else only the machine is looked at.
    #[arg(long, env = "COVALENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Has warnings count in the exit status.
    #[arg(long, env = "COVALENT_STRICT", value_parser = BoolishValueParser::new())]
    pub strict: bool,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Prints a complete configuration in which every key is explained.
    #[command(after_help = "Examples:\n  covalent config print-default > my.toml")]
    PrintDefault,
    /// Checks a file: keys, values, ranges and names that must agree.
    #[command(after_help = "Examples:\n  covalent config check my.toml")]
    Check {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Says for each interface what `auto` becomes on this machine, and why.
    #[command(
        after_help = "It goes by a table of drivers and kernels, and by what the interface is now; the daemon does what stands here. Where the table knows nothing the \
        kernel is asked when the port is opened, and `covalent status` shows what it said.\n\n\
        Examples:\n  \
        covalent config auto\n  \
        covalent config auto --config my.toml --format json | jq '.[].auto.copy'"
    )]
    Auto {
        /// Which node.
        #[command(flatten)]
        config: ConfigArgs,
        /// How it is printed.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

/// `covalent sim`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A seed decides everything that is not told here: nodes, cables, faults, verbs and the order of every event. \
    The same seed with the same options is the same run. Every invariant has a checker that is always on; one that is broken is \
    named, with the command that replays it.\n\n\
    Classes of faults: loss, corrupt, duplicate, cut-one-way, cut-both, carrier, transmit, stall, crash, restart, move, cancel, noise, arbitrary, forge; \
    or `all`, or `none`; and lie, which is not among all. Without `--faults` a seed has neither forge nor lie.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim --seed 7                                    one run, event by event\n  \
    covalent sim --seed 7 --nodes 3 --faults loss,cut-both   as many nodes, these faults\n  \
    covalent sim --seed 7 --frames                           every frame and pace as well\n  \
    covalent sim --seeds 0..10000                            many runs, with seeds per second\n  \
    covalent sim hunt --minutes 30                           fresh seeds of all simulators\n  \
    covalent sim --mutant retries-blindly --faults cut-both  built wrong, to see it found\n  \
    covalent sim --seed 7 --format json | jq '.trace[] | select(.subject == \"link\").text'"
)]
pub struct SimArgs {
    /// Another simulation than that of links.
    #[command(subcommand)]
    pub what: Option<crate::sim::SimCommand>,
    /// Which runs, and how they are printed.
    #[command(flatten)]
    pub runs: crate::sim::RunArgs,
    /// Nodes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub nodes: Option<u8>,
    /// What is cabled to what: line, ring, full or random.
    #[arg(long, value_name = "SHAPE")]
    pub topology: Option<Topology>,
    /// Classes of faults, with commas between, each of which occurs rarely or often.
    #[arg(long, value_name = "CLASSES")]
    pub faults: Option<Faults>,
    /// Events until the faults stop and everything must come to its end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub steps: Option<u32>,
    /// Breaks something on purpose.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<Mutant>,
    /// Prints every frame and every pace too.
    #[arg(long, conflicts_with = "seeds")]
    pub frames: bool,
}

/// Some seeds: `A..B`, without B.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedRange(pub std::ops::Range<u64>);

impl std::str::FromStr for SeedRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bounds = text
            .split_once("..")
            .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
        match bounds {
            Some(range) if !range.is_empty() => Ok(Self(range)),
            Some(_) => Err("the range has no seed: the first must be below the last".into()),
            None => Err("seeds are two numbers with `..` between, such as 0..1000".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_with_an_example() {
        fn check(command: &mut clap::Command, path: &str) -> usize {
            if !command.has_subcommands() {
                let help = command.render_long_help().to_string();
                assert!(
                    help.contains("Examples:") && help.contains(path),
                    "{path}: {help}"
                );
                return 1;
            }
            command
                .get_subcommands_mut()
                .map(|subcommand| {
                    let path = format!("{path} {}", subcommand.get_name());
                    check(subcommand, &path)
                })
                .sum()
        }
        assert_eq!(check(&mut Cli::command(), "covalent"), 44);
    }

    #[test]
    fn both_spellings_of_the_port_are_taken_and_nonsense_is_refused() {
        for spelling in ["af_xdp", "af-xdp"] {
            let cli =
                Cli::try_parse_from(["covalent", "demo", "--port", spelling]).expect("parses");
            assert!(matches!(
                cli.command,
                Command::Demo(DemoArgs {
                    port: PortChoice::AfXdp,
                    ..
                })
            ));
        }
        for refused in [
            ["covalent", "demo", "--port", "rdma"].as_slice(),
            &["covalent", "demo", "--seconds", "0"],
            &["covalent", "demo", "--clean", "--quick"],
            &["covalent", "demo", "--fetch-adds", "many"],
            &["covalent", "demo", "--no-bench", "--interfaces", "eth1"],
            &["covalent", "demo", "--no-bench", "--cut-with", "true"],
            &["covalent", "demo", "--patience", "0"],
            &["covalent", "sim", "--nodes", "1"],
            &["covalent", "sim", "--nodes", "17"],
            &["covalent", "sim", "--seeds", "5..5"],
            &["covalent", "sim", "--seeds", "5"],
            &["covalent", "sim", "--seed", "1", "--seeds", "0..5"],
            &["covalent", "sim", "--faults", "loss,reorder"],
            &["covalent", "sim", "--topology", "star"],
            &["covalent", "sim", "--seed", "1", "group"],
            &["covalent", "sim", "group", "--nodes", "1"],
            &["covalent", "sim", "group", "--nodes", "17"],
            &["covalent", "sim", "group", "--shape", "star"],
            &["covalent", "sim", "group", "--faults", "loss"],
            &["covalent", "sim", "group", "--mutant", "none"],
            &["covalent", "sim", "group", "--seed", "1", "--seeds", "0..5"],
            &["covalent", "sim", "hunt", "trees"],
            &["covalent", "sim", "hunt", "--minutes", "0"],
            &[
                "covalent",
                "sim",
                "hunt",
                "--minutes",
                "1",
                "--seconds",
                "1",
            ],
            &["covalent", "sim", "hunt", "--nodes", "1001"],
            &["covalent", "sim", "--seed", "1", "mesh"],
            &["covalent", "sim", "mesh", "--nodes", "1001"],
            &["covalent", "sim", "mesh", "--shape", "star"],
            &["covalent", "sim", "mesh", "--faults", "melt"],
            &["covalent", "sim", "mesh", "--jitter", "91"],
            &["covalent", "sim", "mesh", "--seed", "1", "--seeds", "0..5"],
            &["covalent"],
        ] {
            assert!(Cli::try_parse_from(refused).is_err(), "{refused:?}");
        }
    }
}
