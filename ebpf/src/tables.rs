//! The rule tables: one map for each kind of key.

use std::{collections::HashSet, io};

use aya::{
    Ebpf, Pod,
    maps::{HashMap, LpmTrie, MapData, MapError, lpm_trie},
};

use crate::{
    Action, EbpfError,
    error::os_error,
    key::TableKey,
    layout::{
        DESTINATIONS_MAX, DestinationKey, ETHERTYPES_MAX, FIVE_TUPLES_MAX, FiveTupleKey, Network16,
        PORTS_MAX, PREFIXES_MAX, PortKey, TABLES, VLANS_MAX,
    },
    steering::take_map,
};

// SAFETY: a `repr(C)` struct of bytes without padding (its size is asserted), valid for every bit
// pattern.
unsafe impl Pod for FiveTupleKey {}
// SAFETY: as above.
unsafe impl Pod for DestinationKey {}
// SAFETY: as above.
unsafe impl Pod for PortKey {}
// SAFETY: two bytes.
unsafe impl Pod for Network16 {}

/// All rule tables of one loaded program.
pub(crate) struct Tables {
    five_tuples: HashMap<MapData, FiveTupleKey, u32>,
    destinations: HashMap<MapData, DestinationKey, u32>,
    ports: HashMap<MapData, PortKey, u32>,
    prefixes_v4: LpmTrie<MapData, [u8; 4], u32>,
    prefixes_v6: LpmTrie<MapData, [u8; 16], u32>,
    vlans: HashMap<MapData, Network16, u32>,
    ethertypes: HashMap<MapData, Network16, u32>,
    /// Keys present. Older kernels do not distinguish an insertion into a trie from a change.
    present: HashSet<TableKey>,
    /// How many of them each table has, in the order of the tables' bits.
    rules: [u32; TABLES],
}

impl Tables {
    pub(crate) fn take(object: &mut Ebpf) -> Result<Self, EbpfError> {
        Ok(Self {
            five_tuples: take_map(object, "FIVE_TUPLES")?,
            destinations: take_map(object, "DESTINATIONS")?,
            ports: take_map(object, "PORTS")?,
            prefixes_v4: take_map(object, "PREFIXES_V4")?,
            prefixes_v6: take_map(object, "PREFIXES_V6")?,
            vlans: take_map(object, "VLANS")?,
            ethertypes: take_map(object, "ETHERTYPES")?,
            present: HashSet::new(),
            rules: [0; TABLES],
        })
    }

    /// Adds the rule or changes its action in one step: a frame sees the old action or the new one.
    pub(crate) fn insert(&mut self, key: &TableKey, action: Action) -> Result<(), EbpfError> {
        let value = action.value();
        let (result, kind, capacity) = match *key {
            TableKey::FiveTuple(key) => (
                self.five_tuples.insert(key, value, 0),
                "five-tuple",
                FIVE_TUPLES_MAX,
            ),
            TableKey::Destination(key) => (
                self.destinations.insert(key, value, 0),
                "destination",
                DESTINATIONS_MAX,
            ),
            TableKey::Port(key) => (self.ports.insert(key, value, 0), "port", PORTS_MAX),
            TableKey::PrefixV4 { bits, address } => (
                self.prefixes_v4
                    .insert(&lpm_trie::Key::new(bits, address), value, 0),
                "IPv4 prefix",
                PREFIXES_MAX,
            ),
            TableKey::PrefixV6 { bits, address } => (
                self.prefixes_v6
                    .insert(&lpm_trie::Key::new(bits, address), value, 0),
                "IPv6 prefix",
                PREFIXES_MAX,
            ),
            TableKey::Vlan(key) => (self.vlans.insert(key, value, 0), "VLAN", VLANS_MAX),
            TableKey::EtherType(key) => (
                self.ethertypes.insert(key, value, 0),
                "EtherType",
                ETHERTYPES_MAX,
            ),
        };
        result.map_err(|error| match os_error(&error) {
            // A full hash map returns E2BIG, a full trie ENOSPC.
            Some(libc::E2BIG | libc::ENOSPC) => EbpfError::TableFull { kind, capacity },
            _ => map_error("inserting a steering rule", error),
        })?;
        if self.present.insert(*key) {
            self.rules[index(key)] += 1;
        }
        Ok(())
    }

    /// Removes the rule; whether it was there.
    pub(crate) fn remove(&mut self, key: &TableKey) -> Result<bool, EbpfError> {
        let result = match *key {
            TableKey::FiveTuple(key) => self.five_tuples.remove(&key),
            TableKey::Destination(key) => self.destinations.remove(&key),
            TableKey::Port(key) => self.ports.remove(&key),
            TableKey::PrefixV4 { bits, address } => {
                self.prefixes_v4.remove(&lpm_trie::Key::new(bits, address))
            }
            TableKey::PrefixV6 { bits, address } => {
                self.prefixes_v6.remove(&lpm_trie::Key::new(bits, address))
            }
            TableKey::Vlan(key) => self.vlans.remove(&key),
            TableKey::EtherType(key) => self.ethertypes.remove(&key),
        };
        let removed = match result {
            Ok(()) => true,
            Err(error) if os_error(&error) == Some(libc::ENOENT) => false,
            Err(error) => return Err(map_error("removing a steering rule", error)),
        };
        if self.present.remove(key) {
            self.rules[index(key)] -= 1;
        }
        Ok(removed)
    }

    /// Returns the tables with rules, in the form of the program's setting.
    pub(crate) fn in_use(&self) -> u32 {
        (0..)
            .zip(self.rules)
            .filter(|&(_, rules)| rules > 0)
            .map(|(index, _)| 1 << index)
            .sum()
    }
}

/// Where [`Tables::rules`] counts the rules of the key's table.
const fn index(key: &TableKey) -> usize {
    key.table().trailing_zeros() as usize
}

/// Sorts an error of a map operation.
pub(crate) fn map_error(action: &'static str, error: MapError) -> EbpfError {
    match os_error(&error) {
        Some(errno) => EbpfError::from_io(action, io::Error::from_raw_os_error(errno)),
        None => EbpfError::Object(error.to_string()),
    }
}
