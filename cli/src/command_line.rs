//! The command line: all commands. It imports each of them, and only `main` imports it.

use clap::{Parser, Subcommand};

use crate::{
    args::ConfigArgs, bench, capture, completions, config_command, configure, counters, demo,
    doctor, events, manual, monitor, node, region, reload, sim, status, steer, verb, watch,
};

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
    Demo(demo::DemoArgs),
    /// Start this node's two processes and wait until they are ready.
    Up(node::UpArgs),
    /// Stop this node's two processes.
    #[command(after_help = "Examples:\n  \
        sudo covalent down\n  \
        sudo covalent down --config my.toml")]
    Down(ConfigArgs),
    /// Put an edited configuration in force on a running node, as a whole or not at all.
    Reload(reload::ReloadArgs),
    /// Show lanes, ports, links, pipes, regions and drops of a running node.
    Status(status::StatusArgs),
    /// Show lanes, ports, links, pipes and drops of a running node on the whole terminal, with
    /// rates.
    Monitor(monitor::MonitorArgs),
    /// Stream metrics or events of a running node.
    Watch(watch::WatchArgs),
    /// Show the links of a running node, with their failures and drops.
    #[command(after_help = "Examples:\n  \
        covalent links\n  \
        covalent links --wide        all columns\n  \
        covalent links --format json | jq '.[] | select(.state != \"up\")'")]
    Links(status::ListArgs),
    /// Show the groups of the applications on a running node: standing, view and members.
    #[command(
        after_help = "A group runs in its members' libraries. The members on this node report the \
        shown state, which is some milliseconds old.\n\n\
        Examples:\n  \
        covalent groups\n  \
        covalent groups --format json | jq '.[] | select(.standing != \"member\")'"
    )]
    Groups(status::ListArgs),
    /// Show the pipes of the applications on a running node, and the frames dropped at them.
    #[command(
        after_help = "A session is one attached application; `covalent events` shows which one.\n\n\
        Examples:\n  \
        covalent pipes\n  \
        covalent pipes --format json | jq '.[] | select(.session == 3)'"
    )]
    Pipes(status::ListArgs),
    /// Show the latest events of a running node; with --follow also new ones.
    Events(events::EventsArgs),
    /// Show the counters of a node's daemon from shared memory, while it runs and after it stopped
    /// or crashed.
    Counters(counters::CountersArgs),
    /// Show and change the steering rules of a running node.
    #[command(subcommand)]
    Steer(steer::SteerCommand),
    /// Post any verb by hand, on a region of any reachable node.
    #[command(subcommand)]
    Verb(verb::VerbCommand),
    /// Capture the frames that ports of a running node receive and send, to a file for Wireshark.
    Capture(capture::CaptureArgs),
    /// Delete durable regions of a running node.
    #[command(subcommand)]
    Region(region::RegionCommand),
    /// Check the machine and the configuration; report each problem, its cause and its remedy.
    Doctor(doctor::DoctorArgs),
    /// Print or check a configuration, and show which values `auto` selects.
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    /// Prepare the machine for a node, report what is not prepared, and undo it.
    #[command(subcommand)]
    Configure(configure::ConfigureCommand),
    /// Measure Covalent against other systems: run `covalent-bench` with the given arguments
    /// (`covalent bench --help`).
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  \
            sudo covalent bench latency --against udp,tcp\n  \
            sudo covalent bench rate --against af_packet,dpdk-af_xdp\n  \
            sudo covalent bench loss --losses 0,0.1,1\n  \
            covalent bench perftest my-rnic/*.txt"
    )]
    Bench(bench::BenchArgs),
    /// Run the link, node and verb code on simulated, failing cables, and print the run.
    Sim(sim::SimArgs),
    /// Print the shell completions for the options and commands of a program.
    Completions(completions::CompletionsArgs),
    /// Write the manual pages of all programs of a node.
    Man(manual::ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::{
        definitions::Program,
        demo::{DemoArgs, PortChoice},
    };

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

    #[test]
    fn a_program_is_chosen_by_its_own_name() {
        for program in Program::ALL {
            let chosen = program.to_possible_value().expect("none is hidden");
            assert_eq!(
                chosen.get_name(),
                program.definition(Cli::command).get_name()
            );
        }
    }

    /// A service is configured through its environment; any other option would require another
    /// unit.
    #[test]
    fn every_option_of_a_node_has_an_environment_variable() {
        // Options that replace running a node.
        let acts = ["check", "help", "version"];
        for program in [Program::Covalentd, Program::CovalentControl] {
            let definition = program.definition(Cli::command);
            for option in definition.get_arguments() {
                let name = option.get_id().as_str();
                assert!(
                    option.get_env().is_some() || acts.contains(&name),
                    "{} --{name}",
                    definition.get_name()
                );
            }
        }
        let definition = Program::Covalent.definition(Cli::command);
        for command in ["up", "down", "reload", "status"] {
            let command = definition.find_subcommand(command).expect("it exists");
            // Options that select the output and its format.
            let shown = ["format", "nodes", "wide", "help"];
            for option in command.get_arguments() {
                let name = option.get_id().as_str();
                assert!(
                    option.get_env().is_some() || shown.contains(&name),
                    "{} --{name}",
                    command.get_name()
                );
            }
        }
    }
}
