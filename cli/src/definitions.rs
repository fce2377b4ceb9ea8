//! The command lines of a node's programs, as they are defined: what completions and manual pages are made from.

use clap::{CommandFactory, ValueEnum};
use covalent_api::arguments::{ControlArguments, DataplaneArguments};

use crate::args::Cli;

/// A program that has completions and manual pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The operator's front door.
    Covalent,
    /// The dataplane.
    Covalentd,
    /// The control process.
    CovalentControl,
}

impl Program {
    /// Each.
    pub const ALL: [Self; 3] = [Self::Covalent, Self::Covalentd, Self::CovalentControl];

    /// Its command line.
    pub fn definition(self) -> clap::Command {
        match self {
            Self::Covalent => Cli::command(),
            Self::Covalentd => DataplaneArguments::command(),
            Self::CovalentControl => ControlArguments::command(),
        }
    }

    /// The section of the manual that it belongs to: commands for everybody, or for administrators.
    pub const fn section(self) -> &'static str {
        match self {
            Self::Covalent => "1",
            Self::Covalentd | Self::CovalentControl => "8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_chosen_by_its_own_name() {
        for program in Program::ALL {
            let chosen = program.to_possible_value().expect("none is hidden");
            assert_eq!(chosen.get_name(), program.definition().get_name());
        }
    }

    /// What is told to a service is told by its environment, or it needs another unit.
    #[test]
    fn whatever_tells_a_node_something_has_a_twin_in_the_environment() {
        // What they do instead of running a node.
        let acts = ["check", "help", "version"];
        for program in [Program::Covalentd, Program::CovalentControl] {
            let definition = program.definition();
            for option in definition.get_arguments() {
                let name = option.get_id().as_str();
                assert!(
                    option.get_env().is_some() || acts.contains(&name),
                    "{} --{name}",
                    definition.get_name()
                );
            }
        }
        let definition = Program::Covalent.definition();
        for command in ["up", "down", "reload", "status"] {
            let command = definition.find_subcommand(command).expect("it exists");
            // What is shown, and how.
            let shown = ["format", "nodes", "help"];
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
