//! The node's ports as the host thread knows them.

use std::collections::BTreeMap;

use covalent_api::request::PortBrief;
use covalent_config::{PORTS_MAX, PortConfig};

use super::port_numbers::PortNumbers;
use crate::port::{Port, PortError};

/// Every port by its number.
#[derive(Debug, Clone, Default)]
pub struct PortTable {
    numbers: PortNumbers,
    ports: BTreeMap<u16, PortEntry>,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortEntry {
    /// The port as applications see it.
    pub brief: PortBrief,
    /// The network interface of the kernel that it is on, or beside, where there is one.
    pub interface: Option<String>,
    /// Its index when the port was opened, where that is known.
    pub interface_index: Option<u32>,
    /// Whether the port has a link.
    pub link: bool,
}

impl PortTable {
    /// Adds a port and returns its number: the number that a port of that name on that lane had
    /// before, if there was one. The maximum frame length of a new port is 0 until
    /// [`PortTable::opened`].
    ///
    /// # Errors
    /// Its lane has had too many ports in its lifetime.
    pub fn add(&mut self, port: &PortConfig) -> Result<u16, PortError> {
        let number = self.numbers.number(&port.name, port.lane);
        let number = number.ok_or_else(|| PortError::Setup {
            port: port.name.clone(),
            problem: format!(
                "lane {} has had {PORTS_MAX} ports since the daemon started",
                port.lane
            ),
            remedy: "restart covalentd to forget removed ports".to_owned(),
        })?;
        let known = self.ports.get(&number);
        let entry = PortEntry {
            brief: PortBrief {
                name: port.name.clone(),
                frame_bytes_max: known.map_or(0, |entry| entry.brief.frame_bytes_max),
                lane: port.lane,
            },
            interface: port.kind.kernel_interface().map(ToOwned::to_owned),
            interface_index: known.and_then(|entry| entry.interface_index),
            link: port.link,
        };
        self.ports.insert(number, entry);
        Ok(number)
    }

    /// Forgets all but these ports, which keep their numbers. Returns the numbers and lanes of the
    /// removed ports.
    pub fn keep(&mut self, configured: &[PortConfig]) -> Vec<(u16, u32)> {
        let goes = |brief: &PortBrief| {
            let mut configured = configured.iter();
            !configured.any(|port| port.name == brief.name && port.lane == brief.lane)
        };
        let going: Vec<_> = self
            .ports
            .iter()
            .filter(|(_, entry)| goes(&entry.brief))
            .map(|(&number, entry)| (number, entry.brief.lane))
            .collect();
        for (number, _) in &going {
            self.ports.remove(number);
        }
        going
    }

    /// The port was opened.
    pub fn opened(&mut self, number: u16, port: &dyn Port) {
        if let Some(entry) = self.ports.get_mut(&number) {
            entry.brief.frame_bytes_max = port.info().frame_bytes_max;
            entry.interface_index = port.facts().map(|facts| facts.index);
        }
    }

    /// The port with this number.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&PortBrief> {
        self.ports.get(&number).map(|entry| &entry.brief)
    }

    /// Whether a port has a link, of those that a pipe on `lane` uses: `number`, or with `None`
    /// every port of the lane.
    #[must_use]
    pub fn any_has_link(&self, lane: u32, number: Option<u16>) -> bool {
        self.ports.iter().any(|(&at, entry)| {
            entry.link && entry.brief.lane == lane && number.is_none_or(|number| number == at)
        })
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

    /// As [`PortTable::on_interface`], but only ports that were opened on the interface with this
    /// index, not on a later one of the same name.
    #[must_use]
    pub fn on_removed(&self, interface: &str, index: u32) -> Vec<(u16, u32)> {
        let is_it = |number: &u16| {
            let opened_on = self
                .ports
                .get(number)
                .and_then(|entry| entry.interface_index);
            opened_on.is_none_or(|opened_on| opened_on == index)
        };
        let mut ports = self.on_interface(interface);
        ports.retain(|(number, _)| is_it(number));
        ports
    }

    /// Returns the ports as applications see them, in order of their numbers.
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
