//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::BoolishValueParser};
use covalent_sim::{
    Mutant,
    options::{Faults, Topology},
};

use crate::definitions::Program;

/// Userspace network dataplane: poll-mode lanes, shared-memory pipes, exactly-once links and atomic
/// verbs.
#[derive(Debug, Parser)]
#[command(
    name = "covalent",
    version,
    arg_required_else_help = true,
    after_help = "Start here:\n  \
    sudo covalent demo                      two real nodes on this machine, half a minute\n  \
    covalent config print-default > my.toml the complete configuration, every key explained\n  \
    sudo covalent doctor --config my.toml   what this machine lacks, and how to fix it\n  \
    sudo covalent configure init --config my.toml   huge pages, queues, offloads and so on as the \
    file sets them\n  \
    sudo covalent up --interfaces eth1      start this node; with a file: --config my.toml\n  \
    covalent status                         the state of the node; `links`, `groups`, `pipes` and \
    `events` show parts of it\n  \
    covalent monitor                        the same with rates, full screen\n  \
    covalent watch port                     metrics as a stream; --format json for programs\n  \
    sudo covalent reload --config my.toml   apply the edited file\n  \
    covalent verb fetch-add node-b bank 0 1 post any verb by hand\n  \
    sudo covalent capture node.pcapng       what its ports receive and send, for Wireshark"
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show Covalent at work: two nodes on this machine, with checks and figures.
    Demo(DemoArgs),
    /// Start this node's two processes and wait until they are ready.
    Up(UpArgs),
    /// Stop this node's two processes.
    #[command(after_help = "Examples:\n  \
        sudo covalent down\n  \
        sudo covalent down --config my.toml")]
    Down(ConfigArgs),
    /// Put an edited configuration in force on a running node, as a whole or not at all.
    Reload(ReloadArgs),
    /// Show lanes, ports, links, pipes, regions and drops of a running node.
    Status(StatusArgs),
    /// Show lanes, ports, links, pipes and drops of a running node on the whole terminal, with
    /// rates.
    Monitor(crate::monitor::MonitorArgs),
    /// Stream metrics or events of a running node.
    Watch(crate::watch::WatchArgs),
    /// Show the links of a running node, with their failures and drops.
    #[command(after_help = "Examples:\n  \
        covalent links\n  \
        covalent links --wide        all columns\n  \
        covalent links --format json | jq '.[] | select(.state != \"up\")'")]
    Links(ListArgs),
    /// Show the groups of the applications on a running node: standing, view and members.
    #[command(
        after_help = "A group runs in its members' libraries. The members on this node report the \
        shown state, which is some milliseconds old.\n\n\
        Examples:\n  \
        covalent groups\n  \
        covalent groups --format json | jq '.[] | select(.standing != \"member\")'"
    )]
    Groups(ListArgs),
    /// Show the pipes of the applications on a running node, and the frames dropped at them.
    #[command(
        after_help = "A session is one attached application; `covalent events` shows which one.\n\n\
        Examples:\n  \
        covalent pipes\n  \
        covalent pipes --format json | jq '.[] | select(.session == 3)'"
    )]
    Pipes(ListArgs),
    /// Show the latest events of a running node; with --follow also new ones.
    Events(crate::events::EventsArgs),
    /// Show the counters of a node's daemon from shared memory, while it runs and after it stopped
    /// or crashed.
    Counters(crate::counters::CountersArgs),
    /// Show and change the steering rules of a running node.
    #[command(subcommand)]
    Steer(crate::steer::SteerCommand),
    /// Post any verb by hand, on a region of any reachable node.
    #[command(subcommand)]
    Verb(crate::verb::VerbCommand),
    /// Capture the frames that ports of a running node receive and send, to a file for Wireshark.
    Capture(crate::capture::CaptureArgs),
    /// Delete durable regions of a running node.
    #[command(subcommand)]
    Region(RegionCommand),
    /// Check the machine and the configuration; report each problem, its cause and its remedy.
    Doctor(DoctorArgs),
    /// Print or check a configuration, and show which values `auto` selects.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Prepare the machine for a node, report what is not prepared, and undo it.
    #[command(subcommand)]
    Configure(crate::configure::ConfigureCommand),
    /// Measure Covalent against its peers: run `covalent-bench` with the given arguments (`covalent
    /// bench --help`).
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  \
            sudo covalent bench latency --against udp,tcp\n  \
            sudo covalent bench rate --against af_packet,dpdk-af_xdp\n  \
            sudo covalent bench loss --losses 0,0.1,1\n  \
            covalent bench perftest my-rnic/*.txt"
    )]
    Bench(BenchArgs),
    /// Run the link, node and verb code on simulated, failing cables, and print the run.
    Sim(SimArgs),
    /// Print the shell completions for the options and commands of a program.
    Completions(CompletionsArgs),
    /// Write the manual pages of all programs of a node.
    Man(ManArgs),
}

/// `covalent completions`
#[derive(Debug, Args)]
#[command(
    after_help = "`make install` puts them where bash, zsh and fish look for them.\n\n\
    Examples:\n  \
    source <(covalent completions bash)                                       in this shell\n  \
    covalent completions zsh >~/.zfunc/_covalent                              a directory in \
    $fpath\n  \
    covalent completions fish covalentd >~/.config/fish/completions/covalentd.fish"
)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
    /// The program.
    #[arg(value_enum, value_name = "PROGRAM", default_value_t = Program::Covalent)]
    pub program: Program,
}

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

/// `covalent bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Arguments for `covalent-bench`.
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
    pub interfaces: Vec<crate::demo::Pair>,
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

/// `covalent up`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo covalent up --name a --interfaces eth1,eth2   all that a node needs; it is written to the \
    file for later starts\n  \
    sudo covalent up --config my.toml\n  \
    sudo covalent up --config my.toml --foreground   stay; Ctrl-C stops both processes")]
pub struct UpArgs {
    /// Which node.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Name of a node that has no configuration yet. Default: the host name.
    #[arg(
        long,
        env = "COVALENT_NAME",
        requires = "interfaces",
        value_name = "NAME"
    )]
    pub name: Option<String>,
    /// The node's interfaces, each cabled to a neighbor. Name and interfaces are written to the
    /// configuration file if it does not exist or is the installed example.
    #[arg(
        long,
        env = "COVALENT_INTERFACES",
        value_delimiter = ',',
        value_name = "INTERFACE,…"
    )]
    pub interfaces: Vec<String>,
    /// Stay in the foreground. The node's processes exit with this command.
    #[arg(long, env = "COVALENT_FOREGROUND", value_parser = BoolishValueParser::new())]
    pub foreground: bool,
}

/// `covalent reload`
#[derive(Debug, Args)]
#[command(
    after_help = "covalent-control reads the file that it was started with, and proposes it to \
    covalentd. Every lane accepts it, or none does. A change of a value that is read only at \
    covalentd's start is refused, with its place in the file. SIGHUP to covalent-control does the \
    same.\n\n\
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
    /// Control's socket, instead of the one in the configuration.
    #[arg(long, env = "COVALENT_CONTROL_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `covalent status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    covalent status\n  \
    covalent status --nodes                 the nodes beyond the neighbors: whether and over which \
    port each is reached\n  \
    covalent status --socket /run/covalent/covalentd.sock --format json | jq .links")]
pub struct StatusArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Show only the other nodes, at any distance: whether each is reachable, in how many hops and
    /// over which port.
    #[arg(long)]
    pub nodes: bool,
    /// Show all columns of the tables, each as wide as its contents. Without it the tables have the
    /// most important columns and fit the terminal, or `COLUMNS`, or 100 columns in a file.
    #[arg(long)]
    pub wide: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent links`, `covalent groups`, `covalent pipes`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Show all columns of the tables, each as wide as its contents. Without it the tables have the
    /// most important columns and fit the terminal, or `COLUMNS`, or 100 columns in a file.
    #[arg(long)]
    pub wide: bool,
    /// Output format.
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
    /// Delete a durable region permanently: its contents are lost, its name and its space in the
    /// journal are freed.
    #[command(
        after_help = "Only the region's own user, root and the daemon's user may, and only while \
            no application has it registered. \
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
    after_help = "Checks the machine, the objects that the configuration names and, if the node \
    runs, its activity. It samples the node twice, a quarter of a second apart. Each finding gives \
    the fact, its object and the remedy. Nothing is changed. Run it as root to check all of the \
    node's files.\n\n\
    A finding is `fine`; `warning`: it works, and could be better; or `failed`: the node does not \
    start, does not work as configured, or loses frames. JSON has them under `findings`, each with \
    `check`, `level`, `found` and `cure`, their numbers under `failed` and `warnings`, and the \
    duration under `took_ms`.\n\n\
    Exit status: 0 if nothing failed (warnings do not count, unless --strict), 1 if something did \
    or the machine could not be examined, 2 if the command line is wrong.\n\n\
    Examples:\n  \
    sudo covalent doctor\n  \
    sudo covalent doctor --config my.toml --format json | jq '.findings[] | select(.level == \
    \"failed\")'\n  \
    sudo covalent doctor --strict && echo healthy"
)]
pub struct DoctorArgs {
    /// The node's configuration file. Default: `/etc/covalent/covalent.toml` if it exists, else
    /// only the machine is checked.
    #[arg(long, env = "COVALENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Count warnings in the exit status.
    #[arg(long, env = "COVALENT_STRICT", value_parser = BoolishValueParser::new())]
    pub strict: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a complete configuration in which every key is explained.
    #[command(after_help = "Examples:\n  covalent config print-default > my.toml")]
    PrintDefault,
    /// Check a file: keys, values, ranges and names that must agree.
    #[command(after_help = "Examples:\n  covalent config check my.toml")]
    Check {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Show the values that `auto` selects for each interface on this machine, and why.
    #[command(
        after_help = "The values come from a table of drivers and kernels, and from the present \
        state of the interface. The daemon uses the same values. If the table has no entry, the \
        daemon tries when it opens the port, and `covalent status` shows the result.\n\n\
        Examples:\n  \
        covalent config auto\n  \
        covalent config auto --config my.toml --format json | jq '.[].auto.copy'"
    )]
    Auto {
        /// Which node.
        #[command(flatten)]
        config: ConfigArgs,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

/// `covalent sim`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A seed determines everything that no option sets: nodes, cables, faults, verbs \
    and the order of every event. The same seed with the same options gives the same run. Every \
    invariant has a checker that is always on. It reports a broken invariant with the command that \
    replays the run.\n\n\
    Classes of faults: loss, corrupt, duplicate, cut-one-way, cut-both, carrier, transmit, stall, \
    crash, restart, move, cancel, noise, arbitrary, forge; or `all`, or `none`; and lie, which \
    `all` does not include. Without `--faults` a seed has neither forge nor lie.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim --seed 7                                    one run, event by event\n  \
    covalent sim --seed 7 --nodes 3 --faults loss,cut-both   three nodes, these faults\n  \
    covalent sim --seed 7 --frames                           every frame and tick as well\n  \
    covalent sim --seeds 0..10000                            many runs, with seeds per second\n  \
    covalent sim hunt --minutes 30                           fresh seeds of all simulators\n  \
    covalent sim --mutant retries-blindly --faults cut-both  finds a deliberate defect\n  \
    covalent sim --seed 7 --format json | jq '.trace[] | select(.subject == \"link\").text'"
)]
pub struct SimArgs {
    /// A simulation other than that of links.
    #[command(subcommand)]
    pub what: Option<crate::sim::SimCommand>,
    /// Which runs, and how they are printed.
    #[command(flatten)]
    pub runs: crate::sim::RunArgs,
    /// Number of nodes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub nodes: Option<u8>,
    /// The topology: line, ring, full or random.
    #[arg(long, value_name = "SHAPE")]
    pub topology: Option<Topology>,
    /// Classes of faults, separated by commas. Each occurs rarely or often.
    #[arg(long, value_name = "CLASSES")]
    pub faults: Option<Faults>,
    /// Number of events until the faults stop and all work must complete.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub steps: Option<u32>,
    /// Break the implementation on purpose.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<Mutant>,
    /// Also print every frame and every tick.
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
