//! `covalent`: the operator's front door.

mod args;
mod bench;
mod capture;
mod client;
mod command_line;
mod completions;
mod config_command;
mod configure;
mod control_client;
mod cores;
mod counters;
mod definitions;
mod demo;
mod doctor;
mod events;
#[cfg(test)]
mod every_table;
mod identity;
mod interrupt;
mod manual;
mod monitor;
mod netlink;
mod nic;
mod node;
mod output;
mod process;
mod program;
mod region;
mod reload;
mod sim;
mod status;
mod steer;
mod verb;
mod watch;

use std::{io, process::ExitCode};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};

use self::{
    command_line::{Cli, Command},
    interrupt::{GIVES_BACK, Interrupt, Interrupted, STOPS},
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    run(&cli.command).unwrap_or_else(|error| {
        if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
            return ExitCode::from(interrupted.exit_code());
        }
        // A vanished reader (`covalent status | head -1`) is no reason for an error message.
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        {
            return ExitCode::FAILURE;
        }
        output::complain(&error);
        ExitCode::FAILURE
    })
}

fn run(command: &Command) -> Result<ExitCode> {
    // Install before any thread starts: threads inherit the signal mask. The other commands keep
    // the default action, which kills them in any wait.
    let within = |grace| Interrupt::install(grace).context("cannot take over the signals");
    match command {
        Command::Demo(args) => demo::run(args, &within(GIVES_BACK)?),
        Command::Up(args) => node::up(args, &within(GIVES_BACK)?),
        Command::Down(args) => node::down(args),
        Command::Reload(args) => reload::run(args),
        Command::Status(args) => status::run(args),
        Command::Monitor(args) => monitor::run(args, &within(STOPS)?),
        Command::Watch(args) => watch::run(args, &within(STOPS)?),
        Command::Links(args) => status::links(args),
        Command::Groups(args) => status::groups(args),
        Command::Pipes(args) => status::pipes(args),
        Command::Events(args) => events::run(args, &within(STOPS)?),
        Command::Counters(args) => counters::run(args, &within(STOPS)?),
        Command::Steer(command) => steer::run(command),
        // The library waits without checking signals. The daemon releases the resources of an
        // exited program.
        Command::Verb(command) => verb::run(command),
        Command::Capture(args) => capture::run(args, &within(GIVES_BACK)?),
        Command::Region(command) => region::run(command),
        Command::Doctor(args) => doctor::run(args),
        Command::Config(command) => config_command::run(command),
        Command::Configure(command) => configure::run(command),
        Command::Bench(args) => bench::run(args),
        Command::Sim(args) => sim::run(args, &within(STOPS)?),
        Command::Completions(args) => completions::run(args, Cli::command),
        Command::Man(args) => manual::run(args, Cli::command),
    }
}
