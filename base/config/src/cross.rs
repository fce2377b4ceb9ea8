//! Constraints between sections. They are checked after each section is valid by itself.

use std::{collections::HashMap, hash::Hash, ops::Range, path::Path};

use toml::de::DeTable;

use super::{
    Config, FABRIC_LANES_MAX, Idle, PORTS_MAX, PortKind, dpdk_device, error::Problems,
    lane_cable_name,
};
use covalent_api::rule::Match;

/// Notes every contradiction between parts of `config`, which was read from `document`.
pub(super) fn check(config: &Config, document: &DeTable<'_>, problems: &mut Problems<'_>) {
    let mut places = Places { document, problems };
    check_lanes(config, &mut places);
    check_ports(config, &mut places);
    check_steering(config, &mut places);
}

fn check_lanes(config: &Config, places: &mut Places<'_, '_, '_>) {
    if config.fabric.enabled && config.lane.len() > FABRIC_LANES_MAX {
        let message = format!(
            "at most {FABRIC_LANES_MAX} lanes of a node can be joined; leave some out, or set \
             `enabled = false` in `[fabric]`"
        );
        places.refuse("lane", FABRIC_LANES_MAX, "core", message);
    }
    if config.dataplane.idle == Idle::Poll {
        let cores = config
            .lane
            .iter()
            .enumerate()
            .filter_map(|(index, lane)| Some((index, lane.core?)));
        for (index, first, core) in repeated(cores) {
            let message = format!(
                "core {core} belongs to lane {first} already, and two lanes that spin on one core \
                 halve each other's speed; give each lane its own core, leave `core` out, or set \
                 `dataplane.idle = \"adaptive\"`"
            );
            places.refuse("lane", index, "core", message);
        }
    }
}

fn check_ports(config: &Config, places: &mut Places<'_, '_, '_>) {
    let lanes = config.lane.len();
    for (index, port) in config.port.iter().enumerate() {
        if usize::try_from(port.lane).map_or(true, |lane| lane >= lanes) {
            let last = lanes - 1;
            let message = format!(
                "there is no lane {}; expected 0 to {last}, because the file has {lanes} \
                 `[[lane]]` (without any, there is one)",
                port.lane
            );
            places.refuse("port", index, "lane", message);
        }
    }
    if config.fabric.enabled {
        let joined: Vec<String> = (1..lanes as u32)
            .flat_map(|lane| [lane_cable_name(0, lane), lane_cable_name(lane, 0)])
            .collect();
        for (index, port) in config.port.iter().enumerate() {
            if joined.contains(&port.name) {
                let message = format!(
                    "`{}` is the name of a cable between two lanes; choose another name",
                    port.name
                );
                places.refuse("port", index, "name", message);
            }
        }
    }
    let most = config.port.len() - 1;
    if most >= PORTS_MAX {
        let message = format!("with this one there are more than {PORTS_MAX} ports");
        places.refuse("port", most, "interface", message);
    }
    let names = config
        .port
        .iter()
        .enumerate()
        .map(|(index, port)| (index, &port.name));
    for (index, first, name) in repeated(names) {
        places.refuse(
            "port",
            index,
            "name",
            format!("port {first} is called `{name}` already; names must differ"),
        );
    }
    let interfaces = config
        .port
        .iter()
        .enumerate()
        .filter_map(|(index, port)| Some((index, port.kind.kernel_interface()?)));
    for (index, first, interface) in repeated(interfaces) {
        let message = format!(
            "interface `{interface}` belongs to port {first} already; one port serves all queues \
             of an interface (`queues`)"
        );
        let key = match config.port[index].kind {
            PortKind::Dpdk { .. } => "device",
            _ => "interface",
        };
        places.refuse("port", index, key, message);
    }
    let devices = config
        .port
        .iter()
        .enumerate()
        .filter_map(|(index, port)| match &port.kind {
            PortKind::Dpdk { device, .. } => Some((index, dpdk_device::name(device))),
            _ => None,
        });
    for (index, first, device) in repeated(devices) {
        let message =
            format!("device `{device}` belongs to port {first} already; names must differ");
        places.refuse("port", index, "device", message);
    }
    check_files(config, places);
}

fn check_files(config: &Config, places: &mut Places<'_, '_, '_>) {
    let sockets = [config.socket_path(), config.control_socket_path()];
    let mut ends: HashMap<&Path, usize> = HashMap::new();
    let mut outputs: HashMap<&Path, usize> = HashMap::new();
    for (index, port) in config.port.iter().enumerate() {
        match &port.kind {
            PortKind::Cable { path, .. } => {
                if sockets.contains(path) {
                    let message = format!(
                        "{} is the socket of this node's own processes; choose another",
                        path.display()
                    );
                    places.refuse("port", index, "path", message);
                }
                let count = ends.entry(path).or_default();
                *count += 1;
                if *count > 2 {
                    let message = format!(
                        "{} has two ends in this file already; a cable has no third",
                        path.display()
                    );
                    places.refuse("port", index, "path", message);
                }
            }
            PortKind::Pcap {
                input,
                output: Some(output),
            } => {
                if input.as_ref() == Some(output) {
                    places.refuse(
                        "port",
                        index,
                        "output",
                        "this file is the port's `input` too and would be overwritten",
                    );
                }
                if let Some(first) = outputs.insert(output, index) {
                    let message = format!("port {first} writes to {} already", output.display());
                    places.refuse("port", index, "output", message);
                }
            }
            PortKind::AfXdp { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => {}
        }
    }
}

fn check_steering(config: &Config, places: &mut Places<'_, '_, '_>) {
    let ours = config.link.ethertype;
    let linked = config.port.iter().any(|port| port.link);
    for (index, rule) in config.steer.iter().enumerate() {
        if linked && rule.matches == (Match::EtherType { ethertype: ours }) {
            let message = format!(
                "{ours:#06x} is the EtherType of this node's link frames, which never reach a \
                 rule; \
                 change this rule or `link.ethertype`"
            );
            places.refuse("steer", index, "ethertype", message);
        }
    }
    let matches = config
        .steer
        .iter()
        .enumerate()
        .map(|(index, rule)| (index, &rule.matches));
    for (index, first, matches) in repeated(matches) {
        let message =
            format!("rule {first} matches exactly the same ({matches}); remove one of the two");
        places.refuse("steer", index, "match", message);
    }
}

/// Each repeated value: its index, the index of its first occurrence, and the value.
fn repeated<T: Hash + Eq + Copy>(
    values: impl Iterator<Item = (usize, T)>,
) -> Vec<(usize, usize, T)> {
    let mut first = HashMap::new();
    let mut repeats = Vec::new();
    for (index, value) in values {
        let earlier = *first.entry(value).or_insert(index);
        if earlier != index {
            repeats.push((index, earlier, value));
        }
    }
    repeats
}

/// Finds keys in the text again.
struct Places<'p, 'd, 't> {
    document: &'p DeTable<'d>,
    problems: &'p mut Problems<'t>,
}

impl Places<'_, '_, '_> {
    fn refuse(&mut self, list: &str, index: usize, key: &str, message: impl Into<String>) {
        // Ports of `node.interfaces` stand behind the others.
        if list == "port" && index >= self.length(list) {
            let interfaces = (self.document.get("node"))
                .and_then(|node| node.get_ref().as_table()?.get("interfaces"));
            let span = interfaces.map_or(0..0, toml::Spanned::span);
            return self.problems.add("node.interfaces", span, message);
        }
        let span = self.span(list, index, key);
        self.problems
            .add(&format!("{list}[{index}].{key}"), span, message);
    }

    /// How many tables of this name the file has.
    fn length(&self, list: &str) -> usize {
        let list = self.document.get(list);
        list.and_then(|list| list.get_ref().as_array())
            .map_or(0, |list| list.len())
    }

    /// The span of the value, or of the nearest enclosing item that the text has.
    fn span(&self, list: &str, index: usize, key: &str) -> Range<usize> {
        let Some(item) = self
            .document
            .get(list)
            .and_then(|list| list.get_ref().as_array())
            .and_then(|list| list.get(index))
        else {
            return 0..0;
        };
        item.get_ref()
            .as_table()
            .and_then(|table| table.get(key))
            .unwrap_or(item)
            .span()
    }
}
