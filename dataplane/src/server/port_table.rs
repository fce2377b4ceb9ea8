//! The node's ports as the host thread knows them.

use std::collections::BTreeMap;

use covalent_api::{config::PortConfig, request::PortBrief};

use super::port_numbers::PortNumbers;

/// Every port by its number.
#[derive(Debug, Default)]
pub struct PortTable {
    numbers: PortNumbers,
    ports: BTreeMap<u16, PortEntry>,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortEntry {
    /// What applications see of it.
    pub brief: PortBrief,
    /// The network interface of the kernel that it is on, or beside, where there is one.
    pub interface: Option<String>,
}

impl PortTable {
    /// Takes a port in and returns its number: the one that a port of that name on that lane had before, if there was one. Until
    /// [`PortTable::set_frame_bytes_max`] its longest frame is 0. `None`: its lane has had too many ports in its life.
    pub fn add(&mut self, port: &PortConfig) -> Option<u16> {
        let number = self.numbers.number(&port.name, port.lane)?;
        let entry = PortEntry {
            brief: PortBrief {
                name: port.name.clone(),
                frame_bytes_max: 0,
                lane: port.lane,
            },
            interface: port.kind.kernel_interface().map(ToOwned::to_owned),
        };
        self.ports.insert(number, entry);
        Some(number)
    }

    /// The port was opened, and this is the longest frame that it carries, in bytes without FCS.
    pub fn set_frame_bytes_max(&mut self, number: u16, frame_bytes_max: u32) {
        if let Some(entry) = self.ports.get_mut(&number) {
            entry.brief.frame_bytes_max = frame_bytes_max;
        }
    }

    /// The port with this number.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&PortBrief> {
        self.ports.get(&number).map(|entry| &entry.brief)
    }

    /// The number and the lane of the port with this name.
    ///
    /// # Errors
    /// Which ports there are.
    pub fn find(&self, name: &str) -> Result<(u16, &PortBrief), String> {
        self.ports
            .iter()
            .map(|(&number, entry)| (number, &entry.brief))
            .find(|(_, port)| port.name == name)
            .ok_or_else(|| format!("there is no port `{name}`: this node has {}", self.names()))
    }

    /// Numbers and lanes of the ports on, or beside, this network interface.
    #[must_use]
    pub fn on_interface(&self, interface: &str) -> Vec<(u16, u32)> {
        self.ports
            .iter()
            .filter(|(_, entry)| entry.interface.as_deref() == Some(interface))
            .map(|(&number, entry)| (number, entry.brief.lane))
            .collect()
    }

    /// What applications see, in order of the numbers.
    #[must_use]
    pub fn briefs(&self) -> Vec<PortBrief> {
        self.ports
            .values()
            .map(|entry| entry.brief.clone())
            .collect()
    }

    /// The names, for people.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<String> = self
            .ports
            .values()
            .map(|entry| format!("`{}`", entry.brief.name))
            .collect();
        names.join(", ")
    }
}
