//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
        sudo covalent up --config my.toml       start this node\n  \
        covalent status                         what it is doing"
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
    /// Shows lanes, ports, links, pipes, regions and drops of a running node.
    Status(StatusArgs),
    /// Looks at machine and configuration and says what stands in the way, why, and what to do.
    Doctor(DoctorArgs),
    /// Prints or checks a configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
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
    sudo covalent demo --keep-going        leave the two nodes running for a look around\n  \
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
    /// Leaves the nodes running after the summary, until Ctrl-C.
    #[arg(long)]
    pub keep_going: bool,
    /// Only removes what demonstrations that were killed left behind.
    #[arg(long, conflicts_with_all = ["quick", "no_bench", "keep_going", "captures", "seconds", "fetch_adds"])]
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
}

/// `covalent up`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo covalent up --config my.toml\n  \
    sudo covalent up --config my.toml --foreground   stay, and end both with Ctrl-C")]
pub struct UpArgs {
    /// Which node.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Stays in the foreground: the processes end with this command.
    #[arg(long)]
    pub foreground: bool,
}

/// `covalent status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    covalent status\n  \
    covalent status --socket /run/covalent/covalentd.sock --format json | jq .links")]
pub struct StatusArgs {
    /// Which node.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The daemon's socket, instead of a configuration.
    #[arg(long, env = "COVALENT_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 if nothing stands in the way (warnings do not count), 1 otherwise.\n\n\
    Examples:\n  \
    sudo covalent doctor\n  \
    sudo covalent doctor --config my.toml --format json | jq '.[] | select(.level == \"failed\")'"
)]
pub struct DoctorArgs {
    /// The node's configuration file; without one only the machine is looked at.
    #[arg(long, env = "COVALENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
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
        assert_eq!(check(&mut Cli::command(), "covalent"), 7);
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
            ["covalent", "demo", "--port", "dpdk"].as_slice(),
            &["covalent", "demo", "--seconds", "0"],
            &["covalent", "demo", "--clean", "--quick"],
            &["covalent", "demo", "--fetch-adds", "many"],
            &["covalent"],
        ] {
            assert!(Cli::try_parse_from(refused).is_err(), "{refused:?}");
        }
    }
}
