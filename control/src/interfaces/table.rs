//! Known state of the interfaces, and the changes that follow from notifications. No I/O here.

use covalent_api::control::{Channels, InterfaceStatus, XdpProgram};
use covalent_config::PortConfig;

/// The interfaces of a node's AF_XDP ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interfaces {
    entries: Vec<InterfaceStatus>,
}

/// News of one interface from the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its index in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is set up.
    pub admin_up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// Its hardware address.
    pub address: Option<String>,
    /// Its driver.
    pub driver: Option<String>,
    /// The XDP programs attached to it.
    pub programs: Vec<XdpProgram>,
}

/// Properties that the driver of an interface reports. `None`: not reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriverFacts {
    /// Its queues.
    pub channels: Option<Channels>,
    /// Of the features that matter to a port those that are on.
    pub features: Option<Vec<String>>,
}

/// A change of a port's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The interface is there. If it is down, now is the time to set it up.
    Appeared {
        /// Whether it is set up already.
        admin_up: bool,
    },
    /// The interface does not exist any more, or has another name.
    Gone,
    /// Its administrative state changed.
    AdminUp(bool),
    /// The carrier came or went.
    Carrier(bool),
    /// It has another MTU than this one.
    Mtu {
        /// The previous value, in bytes.
        before: u32,
    },
    /// It has another hardware address.
    Address,
    /// XDP programs were attached or detached.
    Programs,
    /// It has other channels, or they are known now.
    Channels,
    /// Other features are on, or they are known now.
    Features,
}

impl Interfaces {
    /// The interfaces that `ports` name, none of them seen yet.
    #[must_use]
    pub fn of(ports: &[PortConfig]) -> Self {
        let entries = ports.iter().filter_map(|port| {
            Some(InterfaceStatus::absent(
                &port.name,
                port.kind.kernel_interface()?,
            ))
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// Follows the interfaces that `ports` name from now on. Keeps the known state of an interface
    /// that was followed for the same port before. Returns whether the table changed.
    pub fn take_over(&mut self, ports: &[PortConfig]) -> bool {
        let mut wanted = Self::of(ports);
        for entry in &mut wanted.entries {
            if let Some(known) = self.entries.iter().find(|known| is_same(known, entry)) {
                *entry = known.clone();
            }
        }
        let has_changed = *self != wanted;
        *self = wanted;
        has_changed
    }

    /// Whether the interface of `entry` is followed for the port of `entry`.
    #[must_use]
    pub fn follows(&self, entry: &InterfaceStatus) -> bool {
        self.entries.iter().any(|known| is_same(known, entry))
    }

    /// Each interface, in configuration order.
    #[must_use]
    pub fn statuses(&self) -> &[InterfaceStatus] {
        &self.entries
    }

    /// Applies a notification. Returns the port with each change, or nothing if the interface is
    /// not followed.
    pub fn seen(&mut self, seen: &Seen) -> Vec<(InterfaceStatus, Change)> {
        let mut changes = Vec::new();
        for entry in &mut self.entries {
            if entry.interface != seen.name {
                // The index was ours until it was given another name.
                if entry.index == Some(seen.index) {
                    *entry = InterfaceStatus::absent(&entry.port, &entry.interface);
                    changes.push((entry.clone(), Change::Gone));
                }
                continue;
            }
            let before = entry.clone();
            entry.admin_up = seen.admin_up;
            entry.carrier = seen.carrier;
            entry.mtu_bytes = seen.mtu_bytes;
            entry.index = Some(seen.index);
            entry.address.clone_from(&seen.address);
            entry.driver.clone_from(&seen.driver);
            entry.programs.clone_from(&seen.programs);
            if before.index != entry.index {
                entry.brought_up = false;
                // Its driver has not been queried yet.
                entry.channels = None;
                entry.features = None;
                changes.push((
                    entry.clone(),
                    Change::Appeared {
                        admin_up: seen.admin_up,
                    },
                ));
                continue;
            }
            if before.admin_up != entry.admin_up {
                changes.push((entry.clone(), Change::AdminUp(entry.admin_up)));
            }
            if before.carrier != entry.carrier {
                changes.push((entry.clone(), Change::Carrier(entry.carrier)));
            }
            if before.mtu_bytes != entry.mtu_bytes {
                let before = before.mtu_bytes;
                changes.push((entry.clone(), Change::Mtu { before }));
            }
            if before.address != entry.address {
                changes.push((entry.clone(), Change::Address));
            }
            if before.programs != entry.programs {
                changes.push((entry.clone(), Change::Programs));
            }
        }
        changes
    }

    /// Applies the driver's report about the interface with `index`. Returns the port with each
    /// change.
    pub fn apply_driver_facts(
        &mut self,
        index: u32,
        facts: &DriverFacts,
    ) -> Vec<(InterfaceStatus, Change)> {
        let mut changes = Vec::new();
        let ours = |entry: &&mut InterfaceStatus| entry.index == Some(index);
        for entry in self.entries.iter_mut().filter(ours) {
            let channels = entry.channels != facts.channels;
            let features = entry.features != facts.features;
            entry.channels = facts.channels;
            entry.features.clone_from(&facts.features);
            if channels {
                changes.push((entry.clone(), Change::Channels));
            }
            if features {
                changes.push((entry.clone(), Change::Features));
            }
        }
        changes
    }

    /// The interface with `index` was removed. Returns its port's entry if it was one of ours.
    pub fn removed(&mut self, index: u32) -> Option<InterfaceStatus> {
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| entry.index == Some(index))?;
        *entry = InterfaceStatus::absent(&entry.port, &entry.interface);
        Some(entry.clone())
    }

    /// After a listing of all interfaces: removes followed interfaces that are not in `indices`.
    pub fn retain(&mut self, indices: &[u32]) -> Vec<InterfaceStatus> {
        let gone = self
            .entries
            .iter()
            .filter_map(|entry| entry.index)
            .filter(|index| !indices.contains(index));
        gone.collect::<Vec<_>>()
            .into_iter()
            .filter_map(|index| self.removed(index))
            .collect()
    }

    /// Control has set the interface with `index` up.
    pub fn brought_up(&mut self, index: u32) {
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.index == Some(index))
        {
            entry.brought_up = true;
        }
    }
}

fn is_same(one: &InterfaceStatus, other: &InterfaceStatus) -> bool {
    (&one.port, &one.interface) == (&other.port, &other.interface)
}

#[cfg(test)]
mod tests {
    use covalent_config::Config;

    use super::*;

    fn two() -> Interfaces {
        let text = "[node]\nname = \"a\"\n[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface \
            = \"v0\"\n\
            [[port]]\nname = \"c\"\nkind = \"pcap\"\n[[port]]\nname = \"p1\"\nkind \
            = \"af_xdp\"\ninterface = \"v1\"\n";
        Interfaces::of(&Config::parse(text, "test").expect("right").port)
    }

    fn seen(index: u32, name: &str, admin_up: bool, carrier: bool) -> Seen {
        Seen {
            index,
            name: name.into(),
            admin_up,
            carrier,
            mtu_bytes: 1500,
            address: Some("02:00:00:00:00:01".into()),
            driver: Some("veth".into()),
            programs: Vec::new(),
        }
    }

    fn kinds(changes: Vec<(InterfaceStatus, Change)>) -> Vec<(String, Change)> {
        changes
            .into_iter()
            .map(|(entry, change)| (entry.port, change))
            .collect()
    }

    #[test]
    fn a_new_configuration_keeps_the_state_of_remaining_interfaces() {
        let mut table = two();
        table.seen(&seen(7, "v1", true, true));
        table.seen(&seen(8, "v0", true, true));
        let text = "[node]\nname = \"a\"\n[[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface \
            = \"v1\"\n\
            [[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"v2\"\n";
        let ports = Config::parse(text, "test").expect("right").port;
        assert!(table.take_over(&ports));
        assert!(!table.take_over(&ports));
        let known: Vec<_> = table
            .statuses()
            .iter()
            .map(|entry| (entry.interface.as_str(), entry.index))
            .collect();
        assert_eq!(known, [("v1", Some(7)), ("v2", None)]);
    }

    #[test]
    fn an_interface_appears_changes_and_disappears() {
        let mut table = two();
        assert_eq!(
            kinds(table.seen(&seen(7, "lo", true, true))),
            [],
            "not ours"
        );
        let appeared = Change::Appeared { admin_up: false };
        assert_eq!(
            kinds(table.seen(&seen(7, "v1", false, false))),
            [("p1".into(), appeared)]
        );
        let both = [
            ("p1".into(), Change::AdminUp(true)),
            ("p1".into(), Change::Carrier(true)),
        ];
        assert_eq!(kinds(table.seen(&seen(7, "v1", true, true))), both);
        assert_eq!(kinds(table.seen(&seen(7, "v1", true, true))), [], "no news");
        assert_eq!(table.statuses()[1].mtu_bytes, 1500);
        assert_eq!(table.removed(7).map(|entry| entry.port), Some("p1".into()));
        assert_eq!(table.removed(7), None);
        assert_eq!(table.statuses()[1].index, None);
    }

    #[test]
    fn another_interface_of_the_same_name_is_a_new_one() {
        let mut table = two();
        table.seen(&seen(7, "v0", true, true));
        table.brought_up(7);
        assert!(table.statuses()[0].brought_up);
        assert_eq!(
            kinds(table.seen(&seen(8, "v0", false, false))),
            [("p0".into(), Change::Appeared { admin_up: false })]
        );
        assert!(!table.statuses()[0].brought_up);
    }

    #[test]
    fn a_renamed_interface_is_gone_and_one_renamed_to_ours_appears() {
        let mut table = two();
        table.seen(&seen(7, "v0", true, true));
        let moved = table.seen(&seen(7, "v1", true, true));
        assert_eq!(
            kinds(moved),
            [
                ("p0".into(), Change::Gone),
                ("p1".into(), Change::Appeared { admin_up: true })
            ]
        );
    }

    #[test]
    fn an_unlisted_interface_is_gone() {
        let mut table = two();
        table.seen(&seen(7, "v0", true, true));
        table.seen(&seen(8, "v1", true, true));
        let gone: Vec<String> = table
            .retain(&[1, 8])
            .into_iter()
            .map(|entry| entry.port)
            .collect();
        assert_eq!(gone, ["p0"]);
    }

    #[test]
    fn properties_of_an_interface_are_compared_each_time() {
        let mut table = two();
        let before = seen(7, "v0", true, true);
        table.seen(&before);
        let mut after = before.clone();
        after.mtu_bytes = 1700;
        after.address = Some("02:00:00:00:00:02".into());
        after.programs = vec![XdpProgram {
            mode: "native".into(),
            id: 3,
        }];
        let changes = kinds(table.seen(&after));
        let changed = |change| ("p0".to_owned(), change);
        let all = [
            changed(Change::Mtu { before: 1500 }),
            changed(Change::Address),
            changed(Change::Programs),
        ];
        assert_eq!(changes, all);
        assert_eq!(
            kinds(table.seen(&after)),
            [],
            "a repeated report changes nothing"
        );
        let entry = &table.statuses()[0];
        assert_eq!(entry.driver.as_deref(), Some("veth"));
        assert_eq!((entry.mtu_bytes, entry.programs[0].id), (1700, 3));

        let facts = DriverFacts {
            channels: Some(Channels {
                rx: 2,
                ..Channels::default()
            }),
            features: Some(vec!["rx-lro".into()]),
        };
        let both = [changed(Change::Channels), changed(Change::Features)];
        assert_eq!(kinds(table.apply_driver_facts(7, &facts)), both);
        assert_eq!(kinds(table.apply_driver_facts(7, &facts)), []);
        assert_eq!(
            kinds(table.apply_driver_facts(8, &facts)),
            [],
            "not one of our interfaces"
        );

        // A new interface with the same name has no report yet.
        table.seen(&seen(9, "v0", true, true));
        let entry = &table.statuses()[0];
        assert_eq!((entry.channels, &entry.features), (None, &None));
        assert_eq!(table.removed(9).map(|entry| entry.driver), Some(None));
    }
}
