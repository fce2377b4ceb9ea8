//! The stages, in the order in which they are done; they are undone in reverse.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A part of the machine that is made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Huge pages that the kernel reserves.
    Hugepages,
    /// Queues of interfaces.
    Channels,
    /// Descriptors in the rings of NICs.
    Rings,
    /// Offloads that hide the frames as they were on the wire.
    Offloads,
    /// Cores that take interrupts of queues.
    Irq,
    /// Memory that the daemon may lock.
    Memlock,
    /// Whether an XDP program can be attached.
    Xdp,
}

impl Stage {
    /// All stages, each after those that it depends on.
    pub const ALL: [Self; 7] = [
        Self::Hugepages,
        Self::Channels,
        Self::Rings,
        Self::Offloads,
        Self::Irq,
        Self::Memlock,
        Self::Xdp,
    ];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hugepages => "hugepages",
            Self::Channels => "channels",
            Self::Rings => "rings",
            Self::Offloads => "offloads",
            Self::Irq => "irq",
            Self::Memlock => "memlock",
            Self::Xdp => "xdp",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_called_the_same_everywhere() {
        for stage in Stage::ALL {
            let name = stage.to_string();
            let option = stage.to_possible_value().expect("none is hidden");
            assert_eq!(option.get_name(), name);
            assert_eq!(serde_json::to_value(stage).expect("plain"), name.as_str());
        }
        assert_eq!(Stage::value_variants(), Stage::ALL);
        assert!(Stage::ALL.is_sorted());
    }
}
