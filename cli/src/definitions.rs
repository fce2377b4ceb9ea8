//! The command line definitions of a node's programs, from which completions and manual pages are
//! made.

use clap::{CommandFactory, ValueEnum};
use covalent_config::arguments::{ControlArguments, DataplaneArguments};

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

    /// Its command line. `covalent` makes that of the operator's command: it has all commands, two
    /// of which need this file.
    pub fn definition(self, covalent: fn() -> clap::Command) -> clap::Command {
        match self {
            Self::Covalent => covalent(),
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
