//! The shipped file against the code, and files against the programs that write them.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

use covalent_api::rule::{Action, Match, Rule, Transport};
use covalent_config::{
    Amount, Care, Config, ConfigureConfig, ControlConfig, CopyMode, DEFAULT_TOML, DataplaneConfig,
    DpdkConfig, FabricConfig, FaultRates, FaultsConfig, HugePages, Idle, JournalConfig, LaneConfig,
    LinkConfig, NodeConfig, Offloads, PortConfig, PortKind, RssKey, RxChecksum, TxChecksum,
    XdpMode,
};

/// The defaults repeated, so that a change of a default must change both.
fn documented() -> Config {
    Config {
        node: NodeConfig {
            name: "node-a".into(),
            runtime_dir: "/run/covalent".into(),
            state_dir: "/var/lib/covalent".into(),
            group: String::new(),
            sandbox: true,
        },
        dataplane: DataplaneConfig {
            idle: Idle::Adaptive,
            spin_us: 50,
            burst: 64,
            huge_pages: HugePages::Auto,
            pipes_per_session_max: 1024,
            session_memory_max_mib: 256,
            counters_ms: 100,
            miss: Action::Kernel,
            rss_key: RssKey::MICROSOFT,
        },
        lane: vec![LaneConfig { core: None }],
        port: vec![PortConfig {
            name: "p0".into(),
            lane: 0,
            link: true,
            kind: PortKind::AfXdp {
                interface: "eth1".into(),
                queues: 0,
                ring_slots: 2048,
                xdp: XdpMode::Auto,
                copy: CopyMode::Auto,
            },
            faults: None,
        }],
        dpdk: DpdkConfig {
            memory_mib: 0,
            eal_arguments: Vec::new(),
        },
        link: LinkConfig {
            ethertype: 0x88b5,
            slots: 64,
            idle_tick_ms: 20,
            keepalive_misses_max: 10,
            event_ratio: 32,
        },
        fabric: FabricConfig {
            enabled: true,
            roots_max: 1024,
            paths: 16,
            transits: 64,
        },
        journal: JournalConfig {
            directory: None,
            file_mib: 64,
        },
        steer: Vec::new(),
        control: ControlConfig {
            metrics_listen: SocketAddr::from(([127, 0, 0, 1], 9464)),
            metrics_beyond_loopback: false,
            metrics_hosts: Vec::new(),
            grpc_listen: None,
            bring_up: true,
        },
        configure: ConfigureConfig {
            huge_pages: Amount::Auto,
            channels: Amount::Auto,
            ring_slots: Amount::Auto,
            offloads: Offloads::Auto,
            irq_affinity: Care::Auto,
            memlock: Care::Auto,
            mtu: Amount::Keep,
        },
    }
}

/// The shipped file with every commented key and table switched on.
fn everything_on() -> String {
    let switch_on = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    DEFAULT_TOML
        .lines()
        .map(switch_on)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_shipped_file_holds_the_documented_defaults() {
    let shipped = Config::parse(DEFAULT_TOML, "configs/covalent.toml")
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(shipped, documented());
}

#[test]
fn defaults_equal_the_shipped_file() {
    let least = "[node]\nname = \"node-a\"\n[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface \
        = \"eth1\"\n";
    let least = Config::parse(least, "least.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(least, documented());
}

#[test]
fn the_examples_in_the_shipped_file_are_right() {
    let all =
        Config::parse(&everything_on(), "everything").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(all.lane[0].core, Some(2));
    assert_eq!(
        all.port.len(),
        6,
        "one of each kind, and the two interfaces"
    );
    let faults = all.port[0].faults.expect("the first port's");
    assert_eq!(
        (faults.rx.drop_per_100k, faults.rx.corrupt_per_100k),
        (1000, 100)
    );
    assert!(all.port[2].link, "a DPDK port's cable leads to a node");
    assert!(!all.port[3].link, "a pcap port has no peer to link with");
    assert_eq!(all.steer.len(), 7, "one example for each kind of match");
}

/// `section.key` of every key in TOML text; the index in a list does not matter.
fn keys(text: &str) -> BTreeSet<String> {
    let table: toml::Table = text.parse().expect("TOML");
    let mut keys = BTreeSet::new();
    for (section, value) in &table {
        let tables: Vec<&toml::Value> = value
            .as_array()
            .map_or_else(|| vec![value], |list| list.iter().collect());
        for table in tables {
            keys.extend(
                table
                    .as_table()
                    .expect("a section")
                    .keys()
                    .map(|key| format!("{section}.{key}")),
            );
        }
    }
    keys
}

#[test]
fn every_key_is_in_the_shipped_file() {
    let mut written = keys(&every_kind().to_toml().expect("UTF-8 paths"));
    // `to_toml` writes the interfaces of this key as ports.
    written.insert("node.interfaces".into());
    assert_eq!(keys(&everything_on()), written);
}

/// One port and one rule of every kind, every value off its default.
fn every_kind() -> Config {
    let port = |name: &str, lane, link, kind| PortConfig {
        name: name.into(),
        lane,
        link,
        kind,
        faults: None,
    };
    let faults = FaultsConfig {
        seed: u32::MAX,
        rx: FaultRates {
            drop_per_100k: 100_000,
            corrupt_per_100k: 1,
            duplicate_per_100k: 2,
            blackhole: false,
        },
        tx: FaultRates {
            blackhole: true,
            ..FaultRates::default()
        },
    };
    let rule = |matches, action| Rule { matches, action };
    let address = |text: &str| text.parse().expect("an address");
    let (tcp, udp) = (Transport::Tcp, Transport::Udp);
    Config {
        node: NodeConfig {
            name: "b.7_x".into(),
            runtime_dir: "/tmp/quote\"and\\backslash".into(),
            state_dir: "/tmp/s".into(),
            group: "net".into(),
            sandbox: false,
        },
        dataplane: DataplaneConfig {
            idle: Idle::Poll,
            spin_us: 0,
            burst: 1024,
            huge_pages: HugePages::Require,
            pipes_per_session_max: 1,
            session_memory_max_mib: 1,
            counters_ms: 0,
            miss: Action::Drop,
            rss_key: RssKey::SYMMETRIC,
        },
        lane: vec![LaneConfig { core: Some(0) }, LaneConfig { core: None }],
        port: vec![
            port(
                "x",
                1,
                false,
                PortKind::AfXdp {
                    interface: "veth0".into(),
                    queues: 4,
                    ring_slots: 64,
                    xdp: XdpMode::Native,
                    copy: CopyMode::ZeroCopy,
                },
            ),
            PortConfig {
                faults: Some(faults),
                ..port(
                    "c",
                    0,
                    true,
                    PortKind::Cable {
                        path: "/tmp/c.sock".into(),
                        ring_slots: 32_768,
                    },
                )
            },
            port(
                "q",
                0,
                true,
                PortKind::Pcap {
                    input: Some("/tmp/i".into()),
                    output: Some("/tmp/o".into()),
                },
            ),
            port(
                "d",
                1,
                false,
                PortKind::Dpdk {
                    device: "0000:03:00.0,rx_burst_size=64".into(),
                    queues: 64,
                    ring_slots: 4096,
                    rx_checksum: RxChecksum::Drop,
                    tx_checksum: TxChecksum::Fill,
                },
            ),
            port(
                "n",
                0,
                false,
                PortKind::Pcap {
                    input: None,
                    output: None,
                },
            ),
        ],
        dpdk: DpdkConfig {
            memory_mib: 1 << 20,
            eal_arguments: vec!["--log-level=pmd:debug".into(), "-n4".into()],
        },
        link: LinkConfig {
            ethertype: 0xffff,
            slots: 255,
            idle_tick_ms: 1000,
            keepalive_misses_max: 2,
            event_ratio: 4,
        },
        fabric: FabricConfig {
            enabled: false,
            roots_max: 2,
            paths: 3,
            transits: 1024,
        },
        journal: JournalConfig {
            directory: Some("/tmp/j".into()),
            file_mib: 65_536,
        },
        steer: vec![
            rule(
                Match::FiveTuple {
                    transport: tcp,
                    src: address("2001:db8::1"),
                    src_port: 0,
                    dst: address("2001:db8::2"),
                    dst_port: 65535,
                },
                Action::Dataplane,
            ),
            rule(
                Match::Destination {
                    transport: udp,
                    dst: address("192.0.2.1"),
                    dst_port: 53,
                },
                Action::Kernel,
            ),
            rule(
                Match::Port {
                    transport: tcp,
                    dst_port: 22,
                },
                Action::Kernel,
            ),
            rule(
                Match::Prefix {
                    dst: "2001:db8::/32".parse().expect("a prefix"),
                },
                Action::Dataplane,
            ),
            rule(Match::Vlan { vlan: 4095 }, Action::Drop),
            rule(Match::EtherType { ethertype: 0x0806 }, Action::Kernel),
            rule(Match::Any, Action::Dataplane),
        ],
        control: ControlConfig {
            metrics_listen: SocketAddr::from(([0, 0, 0, 0], 0)),
            metrics_beyond_loopback: true,
            metrics_hosts: vec!["node-a.example".into()],
            grpc_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            bring_up: false,
        },
        configure: ConfigureConfig {
            huge_pages: Amount::Exactly(0),
            channels: Amount::Keep,
            ring_slots: Amount::Exactly(1 << 20),
            offloads: Offloads::Off(vec!["rx-gro".into(), "rx-lro".into()]),
            irq_affinity: Care::Keep,
            memlock: Care::Keep,
            mtu: Amount::Auto,
        },
    }
}

#[test]
fn a_written_configuration_is_read_back_equal() {
    for config in [documented(), every_kind()] {
        let text = config.to_toml().expect("UTF-8 paths");
        let read =
            Config::parse(&text, "written").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, config, "{text}");
        assert_eq!(config.check(), Ok(()));
    }
}

#[test]
fn a_configuration_that_a_program_built_is_checked_like_a_file() {
    let mut config = documented();
    config.port[0].lane = 7;
    let error = config.check().expect_err("there is one lane");
    assert_eq!(error.problems()[0].key, "port[0].lane");
    config = documented();
    config.link.slots = 0;
    assert_eq!(
        config.check().expect_err("no slots").problems()[0].key,
        "link.slots"
    );
}

#[test]
fn sockets_lie_in_the_runtime_directory() {
    assert_eq!(
        documented().socket_path(),
        PathBuf::from("/run/covalent/covalentd.sock")
    );
    assert_eq!(
        documented().control_socket_path(),
        PathBuf::from("/run/covalent/control.sock")
    );
    assert_eq!(
        documented().telemetry_socket_path(),
        PathBuf::from("/run/covalent/telemetry.sock")
    );
}

#[test]
fn a_name_and_interfaces_are_enough() {
    let least = "[node]\nname = \"a\"\ninterfaces = [\"eth1\", \"eth2\"]\n";
    let least = Config::parse(least, "least.toml").unwrap_or_else(|error| panic!("{error}"));
    let ports = "[node]\nname = \"a\"\n\
                 [[port]]\nname = \"eth1\"\nkind = \"af_xdp\"\ninterface = \"eth1\"\n\
                 [[port]]\nname = \"eth2\"\nkind = \"af_xdp\"\ninterface = \"eth2\"\n";
    let ports = Config::parse(ports, "ports.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(least, ports);
    let reread = least.to_toml().expect("UTF-8");
    let reread = Config::parse(&reread, "again").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(least, reread);
    // They stand behind the others.
    let both =
        "[node]\nname = \"a\"\ninterfaces = [\"eth1\"]\n[[port]]\nname = \"p0\"\nkind = \"pcap\"\n";
    let both = Config::parse(both, "both.toml").unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = both.port.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["p0", "eth1"]);
}

#[test]
fn a_node_without_a_name_has_its_hosts_name() {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("procfs");
    let host = host.trim();
    match Config::parse("[node]\ninterfaces = [\"eth1\"]\n", "nameless.toml") {
        Ok(config) => assert_eq!(config.node.name, host),
        Err(error) => {
            let error = error.to_string();
            assert!(
                error.contains("`node.name`") && error.contains(host),
                "{error}"
            );
            assert!(covalent_api::name::check(host).is_err(), "{error}");
        }
    }
}

/// The keys that share one line.
const RATES: [&str; 4] = [
    "drop_per_100k",
    "corrupt_per_100k",
    "duplicate_per_100k",
    "blackhole",
];

/// The keys in TOML text, each by its bare name, with its line number.
fn key_lines(text: &str) -> Vec<(usize, String)> {
    let key = |line: &str| {
        let (name, _) = line.trim_start_matches('#').split_once(" = ")?;
        let is_key = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        is_key.then(|| name.to_owned())
    };
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(at, line)| Some((at, key(line)?)))
        .collect()
}

#[test]
fn every_key_is_explained_in_the_shipped_file() {
    let lines: Vec<&str> = DEFAULT_TOML.lines().collect();
    let comments: String = lines
        .iter()
        .filter(|line| line.starts_with("# "))
        .copied()
        .collect::<Vec<_>>()
        .join("\n");
    // The paragraph directly above a key, above the table that it opens with, or above the keys
    // grouped with it.
    let above = |at: usize| -> usize {
        let block = lines[..at].iter().rev().take_while(|line| !line.is_empty());
        block
            .filter(|line| line.starts_with("# "))
            .map(|line| line.len())
            .sum()
    };
    let mut wanted: BTreeSet<String> = keys(&everything_on())
        .into_iter()
        .filter_map(|key| key.rsplit('.').next().map(str::to_owned))
        .collect();
    for inner in RATES {
        assert!(comments.contains(&format!("`{inner}")), "{inner}");
    }
    for (at, key) in key_lines(DEFAULT_TOML) {
        if above(at) >= 60 || comments.contains(&format!("`{key}`")) {
            wanted.remove(&key);
        }
    }
    // It is a table of its own in the file.
    wanted.remove("faults");
    assert!(wanted.is_empty(), "not explained: {wanted:?}");
}

/// Misspellings of a key.
fn mistyped(key: &str) -> Vec<String> {
    let mut slips = vec![format!("{key}{}", &key[key.len() - 1..])];
    let (left, right) = key.split_at(key.len() / 2);
    if left.len() >= 2 && left.chars().last() != right.chars().next() {
        let mut letters: Vec<char> = key.chars().collect();
        letters.swap(left.len() - 1, left.len());
        slips.push(letters.into_iter().collect());
    }
    slips
}

#[test]
fn every_mistyped_key_is_refused_with_the_one_that_was_meant() {
    let text = everything_on();
    let lines: Vec<&str> = text.lines().collect();
    let refused = |text: &str, key: &str| {
        let error = Config::parse(text, "mistyped.toml").expect_err("there is no such key");
        let wanted = format!("did you mean `{key}`?");
        assert!(
            error
                .problems()
                .iter()
                .any(|problem| problem.message.contains(&wanted)),
            "{key}: {error}"
        );
    };
    let mut tried = 0;
    for (at, key) in key_lines(&text) {
        for slip in mistyped(&key) {
            let mut changed: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            changed[at] = changed[at].replacen(&key, &slip, 1);
            refused(&changed.join("\n"), &key);
            tried += 1;
        }
    }
    // Those inside of a line, and the tables.
    let without_comments: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let without_comments = without_comments.join("\n");
    for key in RATES {
        for slip in mistyped(key) {
            let (right, wrong) = (format!("{key} = "), format!("{slip} = "));
            refused(&without_comments.replacen(&right, &wrong, 1), key);
            tried += 1;
        }
    }
    for table in text.lines().filter(|line| line.starts_with('[')) {
        let name = table.trim_matches(['[', ']']);
        for slip in mistyped(name.rsplit('.').next().expect("a name")) {
            let changed = table.replacen(name.rsplit('.').next().expect("a name"), &slip, 1);
            let text: Vec<&str> = text
                .lines()
                .map(|line| {
                    if line == table {
                        changed.as_str()
                    } else {
                        line
                    }
                })
                .collect();
            refused(&text.join("\n"), name.rsplit('.').next().expect("a name"));
            tried += 1;
        }
    }
    assert!(tried > 120, "{tried}");
}
