//! The command line definitions of a node's programs, from which completions and manual pages are
//! made.

use clap::{CommandFactory, ValueEnum};
use covalent_api::arguments::{ControlArguments, DataplaneArguments};

use crate::args::Cli;

/// A program that has completions and manual pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The operator's command.
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

    /// Returns its section of the manual: 1 for user commands, 8 for administration commands.
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

    /// A service is configured through its environment; any other option would require another
    /// unit.
    #[test]
    fn every_option_of_a_node_has_an_environment_variable() {
        // Options that replace running a node.
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
