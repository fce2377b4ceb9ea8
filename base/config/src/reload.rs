//! Differences between two configurations, and the effort to put the second one in force.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{Config, FaultsConfig, PortConfig, PortKind};
use covalent_api::key_change::{Effect, KeyChange};

/// Shown in place of a key that is not set.
const NOTHING: &str = "nothing";

/// Longest value that is shown, in characters.
const SHOWN_MAX: usize = 60;

/// Every key whose value differs, in the order of its path. All rules of `[[steer]]` count as one
/// key, because their order has no meaning. The order of ports has no meaning either: each port is
/// compared with the port of the same name. A removed port is listed under the key `port`.
#[must_use]
pub fn changes(now: &Config, wanted: &Config) -> Vec<KeyChange> {
    let mut found = Vec::new();
    let (mut before, mut after) = (tables(now), tables(wanted));
    for table in [&mut before, &mut after] {
        table.remove("steer");
        table.remove("port");
    }
    compare("", &Value::Table(before), &Value::Table(after), &mut found);
    if !same_rules(now, wanted) {
        let count = |config: &Config| match config.steer.len() {
            1 => "1 rule".to_owned(),
            rules => format!("{rules} rules"),
        };
        found.push(("steer".to_owned(), count(now), count(wanted)));
    }
    let mut changes: Vec<KeyChange> = found
        .into_iter()
        .map(|(key, from, to)| KeyChange {
            effect: effect(&key, now),
            key,
            from,
            to,
        })
        .collect();
    changes.extend(port_changes(now, wanted));
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    changes
}

/// Whether a port opened with `now` matches `wanted`, ignoring its fault rates.
#[must_use]
pub fn is_same_port(now: &PortConfig, wanted: &PortConfig) -> bool {
    let without_rates = |port: &PortConfig| PortConfig {
        faults: port.faults.map(|faults| FaultsConfig {
            seed: faults.seed,
            ..FaultsConfig::default()
        }),
        ..port.clone()
    };
    without_rates(now) == without_rates(wanted)
}

fn port_changes(now: &Config, wanted: &Config) -> Vec<KeyChange> {
    let named = |name: &str| now.port.iter().find(|port| port.name == name);
    let mut changes = Vec::new();
    for (at, port) in wanted.port.iter().enumerate() {
        let path = format!("port[{at}]");
        let Some(before) = named(&port.name) else {
            changes.push(KeyChange {
                key: path,
                from: NOTHING.to_owned(),
                to: format!("`{}`", port.name),
                effect: effect_on(&port.kind),
            });
            continue;
        };
        let mut found = Vec::new();
        compare(&path, &table(before), &table(port), &mut found);
        changes.extend(found.into_iter().map(|(key, from, to)| {
            KeyChange {
                effect: match effect(&key, now) {
                    Effect::Port => [&before.kind, &port.kind]
                        .map(effect_on)
                        .into_iter()
                        .find(|effect| *effect == Effect::Restart)
                        .unwrap_or(Effect::Port),
                    other => other,
                },
                key,
                from,
                to,
            }
        }));
    }
    let goes = |port: &&PortConfig| wanted.port.iter().all(|other| other.name != port.name);
    changes.extend(now.port.iter().filter(goes).map(|port| KeyChange {
        key: "port".to_owned(),
        from: format!("`{}`", port.name),
        to: NOTHING.to_owned(),
        effect: effect_on(&port.kind),
    }));
    changes
}

/// The effect of opening or closing a port of this kind. DPDK is initialized once for the process,
/// with the devices present at that time.
const fn effect_on(kind: &PortKind) -> Effect {
    match kind {
        PortKind::Dpdk { .. } => Effect::Restart,
        PortKind::AfXdp { .. } | PortKind::Cable { .. } | PortKind::Pcap { .. } => Effect::Port,
    }
}

fn table(port: &PortConfig) -> Value {
    Value::try_from(port).unwrap_or(Value::Table(Table::new()))
}

/// How a change of the value of `key` in `config` takes effect.
fn effect(key: &str, config: &Config) -> Effect {
    let spreads_in_hardware = config
        .port
        .iter()
        .any(|port| matches!(port.kind, PortKind::Dpdk { queues, .. } if queues > 1));
    match without_places(key).as_str() {
        "dataplane.rss_key" if spreads_in_hardware => Effect::Restart,
        plain => known_effect(plain).unwrap_or(Effect::Restart),
    }
}

/// `None`: no effect is defined for the key. A test fails in this case.
fn known_effect(plain: &str) -> Option<Effect> {
    Some(match plain {
        "steer" => Effect::Live,
        "lane.core" => Effect::Live,
        // No running process reads it. The next `covalent configure` does.
        configure if configure.starts_with("configure.") => Effect::Live,
        "dataplane.idle" | "dataplane.spin_us" | "dataplane.burst" | "dataplane.miss"
        | "dataplane.rss_key" => Effect::Live,
        "link.idle_tick_ms" | "link.keepalive_misses_max" | "link.event_ratio" => Effect::Live,
        "dataplane.huge_pages"
        | "dataplane.pipes_per_session_max"
        | "dataplane.session_memory_max_mib" => Effect::LiveForNew,
        "control.metrics_listen"
        | "control.metrics_beyond_loopback"
        | "control.metrics_hosts"
        | "control.grpc_listen"
        | "control.bring_up" => Effect::ByControl,
        // The group owns the socket and the counters' files. The daemon drops the privilege to
        // change their ownership after its start.
        "node.group"
        | "node.name"
        | "node.runtime_dir"
        | "node.state_dir"
        | "node.sandbox"
        | "dataplane.counters_ms" => Effect::Restart,
        "lane" | "link.ethertype" | "link.slots" => Effect::Restart,
        "fabric.enabled" | "fabric.roots_max" | "fabric.paths" | "fabric.transits" => {
            Effect::Restart
        }
        "journal.directory" | "journal.file_mib" => Effect::Restart,
        // The rates may change. The presence of faults and the seed may not.
        rates if rates.starts_with("port.faults.rx.") || rates.starts_with("port.faults.tx.") => {
            Effect::Live
        }
        port if port.starts_with("port.") => Effect::Port,
        dpdk if dpdk.starts_with("dpdk.") => Effect::Restart,
        _ => return None,
    })
}

/// `port[1].queues` is `port.queues`.
fn without_places(key: &str) -> String {
    let mut plain = String::with_capacity(key.len());
    let mut inside = false;
    for character in key.chars() {
        inside = (inside || character == '[') && character != ']';
        if !inside && character != ']' {
            plain.push(character);
        }
    }
    plain
}

fn tables(config: &Config) -> Table {
    // A path that is not UTF-8 does not come from a file, and equals nothing here.
    Table::try_from(config).unwrap_or_default()
}

fn same_rules(now: &Config, wanted: &Config) -> bool {
    let texts = |config: &Config| -> BTreeSet<String> {
        config
            .steer
            .iter()
            .map(|rule| format!("{rule:?}"))
            .collect()
    };
    now.steer.len() == wanted.steer.len() && texts(now) == texts(wanted)
}

fn compare(path: &str, now: &Value, wanted: &Value, found: &mut Vec<(String, String, String)>) {
    match (now, wanted) {
        (Value::Table(now), Value::Table(wanted)) => {
            let keys: BTreeSet<&String> = now.keys().chain(wanted.keys()).collect();
            for key in keys {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match (now.get(key), wanted.get(key)) {
                    (Some(now), Some(wanted)) => compare(&path, now, wanted, found),
                    (now, wanted) => found.push((path, shown(now), shown(wanted))),
                }
            }
        }
        (Value::Array(now), Value::Array(wanted))
            if now.iter().chain(wanted).all(Value::is_table) =>
        {
            if now.len() != wanted.len() {
                let count = |items: &[Value]| format!("{} of them", items.len());
                return found.push((path.to_owned(), count(now), count(wanted)));
            }
            for (at, (now, wanted)) in now.iter().zip(wanted).enumerate() {
                compare(&format!("{path}[{at}]"), now, wanted, found);
            }
        }
        (now, wanted) if now == wanted => {}
        (now, wanted) => found.push((path.to_owned(), shown(Some(now)), shown(Some(wanted)))),
    }
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| NOTHING.to_owned(), ToString::to_string);
    if text.chars().count() <= SHOWN_MAX {
        return text;
    }
    text.chars().take(SHOWN_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TEXT: &str = "[node]\nname = \"a\"\n[[lane]]\n[[lane]]\ncore = 1\n\
        [[port]]\nname = \"p0\"\nkind = \"cable\"\npath = \"/x\"\n[port.faults.rx]\ndrop_per_100k \
        = 1\n\
        [[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface = \"e\"\n\
        [[port]]\nname = \"p2\"\nkind = \"dpdk\"\ndevice = \"net_null0\"\n\
        [[port]]\nname = \"p3\"\nkind = \"pcap\"\ninput = \"/y\"\noutput = \"/z\"\n\
        [[steer]]\nmatch = \"port\"\ntransport = \"udp\"\ndst_port = 53\naction = \"drop\"\n\
        [dpdk]\neal_arguments = []\n[journal]\ndirectory = \"/j\"\n";

    fn config(text: &str) -> Config {
        Config::parse(text, "test").unwrap()
    }

    fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Table(table) => {
                for (key, value) in table {
                    let dot = if path.is_empty() { "" } else { "." };
                    leaves(&format!("{path}{dot}{key}"), value, found);
                }
            }
            Value::Array(items) if items.first().is_some_and(Value::is_table) => {
                for item in items {
                    leaves(path, item, found);
                }
            }
            _ => found.push(path.to_owned()),
        }
    }

    #[test]
    fn every_key_has_an_effect() {
        let mut keys = vec!["lane".to_owned()];
        let mut table = tables(&config(TEXT));
        table.remove("steer");
        leaves("", &Value::Table(table), &mut keys);
        assert!(keys.len() > 30, "{keys:?}");
        for key in keys {
            assert!(known_effect(&key).is_some(), "{key}");
        }
    }

    #[test]
    fn equal_configurations_differ_in_nothing() {
        let now = config(TEXT);
        assert_eq!(changes(&now, &now), []);
        // An omitted key has its default.
        let explicit = TEXT.replace("[node]", "[dataplane]\nspin_us = 50\n[node]");
        assert_eq!(changes(&now, &config(&explicit)), []);
    }

    #[test]
    fn each_change_names_its_key_and_effect() {
        let cases = [
            (
                "core = 1",
                "core = 0",
                "lane[1].core",
                "1",
                "0",
                Effect::Live,
            ),
            ("core = 1\n", "", "lane[1].core", "1", NOTHING, Effect::Live),
            (
                "path = \"/x\"",
                "path = \"/w\"",
                "port[0].path",
                "\"/x\"",
                "\"/w\"",
                Effect::Port,
            ),
            (
                "device = \"net_null0\"",
                "device = \"net_null0\"\nring_slots = 64",
                "port[2].ring_slots",
                "2048",
                "64",
                Effect::Restart,
            ),
            (
                "name = \"p3\"",
                "name = \"p3\"\nlane = 1",
                "port[3].lane",
                "0",
                "1",
                Effect::Port,
            ),
            (
                "[port.faults.rx]\ndrop_per_100k = 1\n",
                "",
                "port[0].faults",
                "{ rx = { blackhole = false, corrupt_per_100k = 0, drop_per_1…",
                NOTHING,
                Effect::Port,
            ),
            (
                "drop_per_100k = 1",
                "drop_per_100k = 2",
                "port[0].faults.rx.drop_per_100k",
                "1",
                "2",
                Effect::Live,
            ),
            (
                "dst_port = 53",
                "dst_port = 54",
                "steer",
                "1 rule",
                "1 rule",
                Effect::Live,
            ),
            (
                "[node]",
                "[link]\nslots = 8\n[node]",
                "link.slots",
                "64",
                "8",
                Effect::Restart,
            ),
            (
                "[node]",
                "[node]\ngroup = \"g\"",
                "node.group",
                "\"\"",
                "\"g\"",
                Effect::Restart,
            ),
            (
                "[node]",
                "[control]\nbring_up = false\n[node]",
                "control.bring_up",
                "true",
                "false",
                Effect::ByControl,
            ),
            (
                "[[lane]]\n[[lane]]",
                "[[lane]]\n[[lane]]\n[[lane]]",
                "lane",
                "2 of them",
                "3 of them",
                Effect::Restart,
            ),
        ];
        for (old, new, key, from, to, effect) in cases {
            let wanted = config(&TEXT.replacen(old, new, 1));
            let change = KeyChange {
                key: key.to_owned(),
                from: from.to_owned(),
                to: to.to_owned(),
                effect,
            };
            assert_eq!(changes(&config(TEXT), &wanted), [change]);
        }
    }

    #[test]
    fn the_order_of_rules_means_nothing() {
        let more = "[[steer]]\nmatch = \"any\"\naction = \"drop\"\n";
        let behind = config(&format!("{TEXT}{more}"));
        let before = config(&TEXT.replacen("[[steer]]", &format!("{more}[[steer]]"), 1));
        assert_ne!(behind.steer, before.steer);
        assert_eq!(changes(&behind, &before), []);
        assert_eq!(changes(&config(TEXT), &before).len(), 1);
    }

    #[test]
    fn a_port_is_compared_with_the_one_of_its_name() {
        let port = |name: &str, path: &str| {
            format!("[[port]]\nname = \"{name}\"\nkind = \"cable\"\npath = \"{path}\"\n")
        };
        let file = |ports: &[String]| config(&format!("[node]\nname = \"a\"\n{}", ports.concat()));
        let (a, b, c) = (port("a", "/a"), port("b", "/b"), port("c", "/c"));
        let now = file(&[a.clone(), b.clone(), c.clone()]);
        // In another order.
        assert_eq!(changes(&now, &file(&[c.clone(), a, b.clone()])), []);
        // One goes, one comes, and one is another one.
        let wanted = file(&[port("d", "/a"), c, port("b", "/e")]);
        let changed_keys: Vec<_> = changes(&now, &wanted)
            .into_iter()
            .map(|change| (change.key, change.from, change.to, change.effect))
            .collect();
        let change = |key: &str, from: &str, to: &str| {
            (key.to_owned(), from.to_owned(), to.to_owned(), Effect::Port)
        };
        assert_eq!(
            changed_keys,
            [
                change("port", "`a`", NOTHING),
                change("port[0]", NOTHING, "`d`"),
                change("port[2].path", "\"/b\"", "\"/e\""),
            ]
        );
        assert!(is_same_port(&now.port[2], &wanted.port[1]));
        assert!(!is_same_port(&now.port[1], &wanted.port[2]));
    }

    #[test]
    fn fault_rates_do_not_make_a_port_another() {
        let now = config(TEXT);
        let port = |text: &str, to: &str| config(&TEXT.replacen(text, to, 1)).port.remove(0);
        let damaging = &now.port[0];
        assert!(is_same_port(
            damaging,
            &port("drop_per_100k = 1", "drop_per_100k = 7")
        ));
        assert!(!is_same_port(
            damaging,
            &port("[port.faults.rx]\ndrop_per_100k = 1\n", "")
        ));
        let seeded = port(
            "[port.faults.rx]",
            "[port.faults]\nseed = 3\n[port.faults.rx]",
        );
        assert!(!is_same_port(damaging, &seeded));
    }

    #[test]
    fn a_hash_that_hardware_computes_is_set_at_start() {
        let text = TEXT.replace(
            "device = \"net_null0\"",
            "device = \"net_null0\"\nqueues = 2",
        );
        assert_eq!(effect("dataplane.rss_key", &config(TEXT)), Effect::Live);
        assert_eq!(effect("dataplane.rss_key", &config(&text)), Effect::Restart);
    }
}
