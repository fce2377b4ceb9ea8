//! Invalid configurations, and the required content of the message about each.

use covalent_config::{Config, ConfigError};

/// The valid first lines of every case: `[node]` with a name.
const NODE: &str = "[node]\nname = \"a\"\n";
/// A port that is right, in three lines.
const PORT: &str = "[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"eth1\"\n";

fn refused(text: &str) -> ConfigError {
    Config::parse(text, "test.toml").expect_err(&format!("must be refused:\n{text}"))
}

/// Text after a good node and port, and the parts that the one message must have, its place first.
const AFTER_A_GOOD_PORT: &[(&str, &[&str])] = &[
    // Shape.
    ("x = ", &[":7:5: this is not TOML: "]),
    (
        "[node]\nname = \"b\"",
        &[":7:", "this is not TOML: duplicate key"],
    ),
    (
        "[dataplane]\nspin_us = \"50\"",
        &[
            ":8:11: `dataplane.spin_us`",
            "found the text \"50\"",
            "0 to 1000000 (microseconds)",
        ],
    ),
    (
        "[dataplane]\nburst = 1.5",
        &[
            ":8:9: `dataplane.burst`",
            "the fraction 1.5",
            "a whole number from 1 to 1024 (frames)",
        ],
    ),
    (
        "[control]\nbring_up = \"yes\"",
        &[
            ":8:12: `control.bring_up`",
            "found the text \"yes\"",
            "`true` or `false`",
        ],
    ),
    (
        "[control]\nbring_up = [true]",
        &["`control.bring_up`", "found a list"],
    ),
    (
        "[lane]\ncore = 1",
        &[
            ":7:1: `lane`",
            "found a table",
            "`[[lane]]` with two brackets",
        ],
    ),
    (
        "[[link]]\nslots = 1",
        &["`link`", "found a list", "`[link]`"],
    ),
    (
        "[port.faults]\nrx = { drop_per_100k = 100001 }",
        &[
            "`port[0].faults.rx.drop_per_100k`",
            "the number 100001",
            "0 to 100000 (of 100000 frames)",
        ],
    ),
    (
        "[port.faults.tx]\ncorrupt = 1",
        &[
            "`port[0].faults.tx.corrupt`",
            "no such key",
            "`corrupt_per_100k`",
        ],
    ),
    (
        "[[port]]\nname = \"d\"\nkind = \"dpdk\"\ndevice = \"eth1\"",
        &[
            ":10:10: `port[1].device`",
            "\"eth1\" is no device of DPDK's",
            "net_memif0",
        ],
    ),
    (
        "[[port]]\nname = \"d\"\nkind = \"dpdk\"",
        &["`port[1].device`", "missing", "PCI address"],
    ),
    (
        "[[port]]\nname = \"d\"\nkind = \"dpdk\"\ndevice = \"net_af_xdp0,iface=eth1\"",
        &[
            "`port[1].device`",
            "interface `eth1` belongs to port 0 already",
        ],
    ),
    (
        "[[port]]\nname = \"d\"\nkind = \"dpdk\"\ndevice = \"net_ring0\"\n[[port]]\nname \
         = \"e\"\nkind = \"dpdk\"\ndevice = \"net_ring0,x=y\"",
        &[
            "`port[2].device`",
            "device `net_ring0` belongs to port 1 already",
        ],
    ),
    (
        "[dpdk]\nmemory_mib = 63",
        &[":8:14: `dpdk.memory_mib`", "DPDK itself needs 64"],
    ),
    (
        "[dpdk]\neal_arguments = [\"--proc-type=secondary\"]",
        &[
            "`dpdk.eal_arguments`",
            "`--proc-type` is the daemon's to set",
        ],
    ),
    (
        "[dpdk]\neal_arguments = \"-n4\"",
        &["`dpdk.eal_arguments`", "found the text \"-n4\"", "a list"],
    ),
    // Unknown keys.
    (
        "[dataplane]\nspin_use = 50",
        &[
            ":8:1: `dataplane.spin_use`",
            "no such key",
            "did you mean `spin_us`?",
            "`burst`",
        ],
    ),
    (
        "[dataplan]\nburst = 1",
        &[
            ":7:2: `dataplan`",
            "no such key",
            "did you mean `dataplane`?",
        ],
    ),
    (
        "[link]\nkeepalive-misses-max = 9",
        &[
            ":8:1: `link.keepalive-misses-max`",
            "did you mean `keepalive_misses_max`?",
        ],
    ),
    (
        "[control]\nlisten = \"x\"",
        // The other one stands behind it.
        &[
            "`control.listen`",
            "did you mean `grpc_listen`?",
            "`metrics_listen`",
        ],
    ),
    (
        "[configure]\nchannels = \"atuo\"",
        &[
            ":8:12: `configure.channels`",
            "found the text \"atuo\"",
            "one of \"auto\", \"keep\", or a whole number from 1 to 64; did you mean `auto`?",
        ],
    ),
    (
        "[configure]\nchannels = 65",
        &["`configure.channels`", "from 1 to 64"],
    ),
    (
        "[configure]\nmtu = true",
        &[
            "`configure.mtu`",
            "found `true` without quotes",
            "68 to 65535 (bytes)",
        ],
    ),
    (
        "[configure]\noffloads = [\"rx-gro\", \"-K\"]",
        &["`configure.offloads`", "\"-K\" cannot be an offload"],
    ),
    (
        "[configure]\noffloads = \"of\"",
        &["`configure.offloads`", "\"auto\", \"keep\""],
    ),
    (
        "[[lane]]\ncpu = 3",
        &[
            ":8:1: `lane[0].cpu`",
            "no such key",
            "here are possible: `core`",
        ],
    ),
    // Ranges.
    (
        "[dataplane]\nspin_us = 1_000_001",
        &[
            ":8:11: `dataplane.spin_us`",
            "found the number 1_000_001",
            "to 1000000",
        ],
    ),
    (
        "[dataplane]\nspin_us = -1",
        &["`dataplane.spin_us`", "found the number -1"],
    ),
    (
        "[dataplane]\nburst = 0",
        &["`dataplane.burst`", "from 1 to 1024"],
    ),
    (
        "[dataplane]\nburst = 99999999999999999999999999999999999999999999",
        &["`dataplane.burst`", "from 1 to 1024"],
    ),
    (
        "[dataplane]\npipes_per_session_max = 4097",
        &["`dataplane.pipes_per_session_max`", "from 1 to 4096"],
    ),
    (
        "[dataplane]\nsession_memory_max_mib = 0",
        &[
            "`dataplane.session_memory_max_mib`",
            "from 1 to 1048576 (MiB)",
        ],
    ),
    (
        "[[lane]]\ncore = 1024",
        &["`lane[0].core`", "from 0 to 1023"],
    ),
    (
        "[link]\nethertype = 0x05ff",
        &[
            ":8:13: `link.ethertype`",
            "found the number 0x05ff",
            "0x0600 to 0xffff",
        ],
    ),
    (
        "[link]\nethertype = 0x0800",
        &["`link.ethertype`", "0x0800 belongs to ARP, IP or VLAN tags"],
    ),
    ("[link]\nslots = 256", &["`link.slots`", "from 1 to 255"]),
    (
        "[link]\nidle_tick_ms = 0",
        &["`link.idle_tick_ms`", "from 1 to 1000 (milliseconds)"],
    ),
    (
        "[link]\nkeepalive_misses_max = 1",
        &["`link.keepalive_misses_max`", "from 2 to 1000"],
    ),
    (
        "[link]\nevent_ratio = 3",
        &["`link.event_ratio`", "expected 4 to 100000, or 0 for never"],
    ),
    (
        "[link]\nevent_ratio = 100001",
        &["`link.event_ratio`", "from 0 to 100000"],
    ),
    // Choices.
    (
        "[dataplane]\nidle = \"adaptative\"",
        &[
            "`dataplane.idle`",
            "\"poll\", \"adaptive\"",
            "did you mean `adaptive`?",
        ],
    ),
    (
        "[dataplane]\nhuge_pages = true",
        &[
            "`dataplane.huge_pages`",
            "found `true` without quotes",
            "one of \"auto\", \"require\"",
        ],
    ),
    (
        "[control]\nmetrics_listen = \"localhost\"",
        &[
            "`control.metrics_listen`",
            "\"localhost\"",
            "\"127.0.0.1:9464\"",
        ],
    ),
    (
        "[control]\nmetrics_listen = \"192.0.2.7:9464\"",
        &[
            ":8:18: `control.metrics_listen`",
            "no loopback address",
            "`control.metrics_beyond_loopback = true`",
        ],
    ),
    (
        "[control]\nmetrics_hosts = [\"http://node-a:9464\"]",
        &[
            "`control.metrics_hosts`",
            "\"http://node-a:9464\" is none",
            "without a port",
        ],
    ),
    (
        "[control]\ngrpc_listen = \"0.0.0.0:9465\"",
        &[
            ":8:15: `control.grpc_listen`",
            "no loopback address",
            "\"127.0.0.1:9465\"",
        ],
    ),
    // Steering.
    (
        "[[steer]]\nmatch = \"any\"",
        &[
            ":7:1: `steer[0].action`",
            "missing",
            "\"kernel\", \"dataplane\"",
        ],
    ),
    (
        "[[steer]]\naction = \"kernel\"",
        &[":7:1: `steer[0].match`", "missing", "\"five_tuple\""],
    ),
    (
        "[[steer]]\nmatch = \"fivetuple\"\nport = 1\naction = \"kernel\"",
        &["`steer[0].match`", "did you mean `five_tuple`?"],
    ),
    (
        "[[steer]]\nmatch = \"any\"\naction = \"dorp\"",
        &[
            "`steer[0].action`",
            "found the text \"dorp\"",
            "did you mean `drop`?",
        ],
    ),
    (
        "[[steer]]\nmatch = \"vlan\"\naction = \"kernel\"",
        &[":7:1: `steer[0].vlan`", "missing", "a VLAN id, 0 to 4095"],
    ),
    (
        "[[steer]]\nmatch = \"vlan\"\nvlan = 4096\naction = \"kernel\"",
        &[
            ":9:8: `steer[0].vlan`",
            "found the number 4096",
            "from 0 to 4095 (a VLAN id)",
        ],
    ),
    (
        "[[steer]]\nmatch = \"vlan\"\nethertype = 0x0806\nvlan = 7\naction = \"kernel\"",
        &[":9:1: `steer[0].ethertype`", "no such key", "`vlan`"],
    ),
    (
        "[[steer]]\nmatch = \"vlan\"\nvlan = 7\naction = \"kernel\"\n[[steer]]\nmatch \
         = \"vlan\"\nvlan = 7\naction = \"drop\"",
        &[":12:9: `steer[1].match`", "rule 0", "VLAN 7"],
    ),
    (
        "[dataplane]\nmiss = \"pass\"",
        &[
            ":8:8: `dataplane.miss`",
            "found the text \"pass\"",
            "\"kernel\"",
            "\"drop\"",
        ],
    ),
    (
        "[dataplane]\nrss_key = \"6d5a\"",
        &[
            ":8:11: `dataplane.rss_key`",
            "expected 40 bytes in hexadecimal: 80 digits",
        ],
    ),
    (
        "[dataplane]\nrss_key \
         = \"00000000000000000000000000000000000000000000000000000000000000000000000000000000\"",
        &["`dataplane.rss_key`", "a key of zeros"],
    ),
    (
        "[dataplane]\nrss_key = 0x6d5a",
        &[
            "`dataplane.rss_key`",
            "found the number 0x6d5a",
            "40 bytes in hexadecimal, in quotes",
        ],
    ),
    (
        "[[steer]]\nmatch = \"five_tuple\"\ntransport = \"tcp\"\nsrc = \"192.0.2.1\"\nsrc_port = \
         1\ndst = \"::1\"\ndst_port = 2\naction = \"kernel\"",
        &[
            ":12:7: `steer[0].dst`",
            "192.0.2.1",
            "::1",
            "different families",
        ],
    ),
    (
        "[[steer]]\nmatch = \"destination\"\ntransport = \"udp\"\ndst = \"example.org\"\ndst_port \
         = 2\naction = \"kernel\"",
        &[
            "`steer[0].dst`",
            "found the text \"example.org\"",
            "an IP address",
        ],
    ),
    (
        "[[steer]]\nmatch = \"port\"\ntransport = \"udp\"\ndst_port = 65536\naction = \"kernel\"",
        &["`steer[0].dst_port`", "from 0 to 65535"],
    ),
    (
        "[[steer]]\nmatch = \"port\"\ntransport = \"udp\"\naction = \"kernel\"",
        &[":7:1: `steer[0].dst_port`", "missing", "a port, 0 to 65535"],
    ),
    (
        "[[steer]]\nmatch = \"prefix\"\ndst = \"10.1.2.3/16\"\naction = \"kernel\"",
        &["`steer[0].dst`", "did you mean `10.1.0.0/16`?"],
    ),
    (
        "[[steer]]\nmatch = \"prefix\"\ndst = \"10.0.0.0/33\"\naction = \"kernel\"",
        &["`steer[0].dst`", "10.0.0.0/33", "a prefix"],
    ),
    (
        "[[steer]]\nmatch = \"ether_type\"\nethertype = 46\naction = \"kernel\"",
        &["`steer[0].ethertype`", "0x002e is a length"],
    ),
    (
        "[[steer]]\nmatch = \"ether_type\"\nethertype = 0x8100\naction = \"kernel\"",
        &["`steer[0].ethertype`", "VLAN tag"],
    ),
    (
        "[[steer]]\nmatch = \"any\"\ndst_port = 1\naction = \"kernel\"",
        &[
            ":9:1: `steer[0].dst_port`",
            "no such key",
            "`action`, `match`",
        ],
    ),
    (
        "[[steer]]\nmatch = \"ether_type\"\nethertype = 0x88b5\naction = \"dataplane\"",
        &[
            ":9:13: `steer[0].ethertype`",
            "0x88b5 is the EtherType of this node's link frames",
        ],
    ),
    (
        "[[steer]]\nmatch = \"any\"\naction = \"kernel\"\n[[steer]]\nmatch = \"any\"\naction \
         = \"dataplane\"",
        &[
            ":11:9: `steer[1].match`",
            "rule 0 matches exactly the same (any frame)",
        ],
    ),
    // Ports beside the good one.
    (
        "[[port]]\nkind = \"pcap\"",
        &[":7:1: `port[1].name`", "missing", "1 to 32 letters"],
    ),
    (
        "[[port]]\nname = \"p1\"",
        &[
            ":7:1: `port[1].kind`",
            "missing",
            "\"af_xdp\", \"cable\", \"dpdk\", \"pcap\"",
        ],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"xdp\"\ninterface = \"e\"",
        &[":9:8: `port[1].kind`", "did you mean `af_xdp`?"],
    ),
    (
        "[[port]]\nname = \"p 1\"\nkind = \"pcap\"",
        &["`port[1].name`", "holds ' '"],
    ),
    (
        "[[port]]\nname = \"p0\"\nkind = \"pcap\"",
        &[":8:8: `port[1].name`", "port 0 is called `p0` already"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface = \"eth1\"",
        &[
            ":10:13: `port[1].interface`",
            "`eth1` belongs to port 0 already",
        ],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"af_xdp\"",
        &["`port[1].interface`", "missing", "`ip link`"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface = \"sixteen-bytes-xx\"",
        &["`port[1].interface`", "1 to 15 bytes"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface = \"e\"\nring_slots = 1000",
        &[
            "`port[1].ring_slots`",
            "found the number 1000",
            "512 or 1024",
        ],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface = \"e\"\nqueues = 257",
        &["`port[1].queues`", "from 0 to 64"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface = \"e\"\nxdp = \"generic\"\ncopy \
         = \"zero_copy\"",
        &[
            ":12:8: `port[1].copy`",
            "the generic XDP hook always copies",
        ],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"af_xdp\"\ninterface = \"e\"\ncopy = \"zerocopy\"",
        &["`port[1].copy`", "did you mean `zero_copy`?"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"cable\"",
        &["`port[1].path`", "missing", "Unix socket"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"cable\"\npath = \"x.sock\"",
        &["`port[1].path`", "\"x.sock\"", "absolute path"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"cable\"\npath = \"/x\"\ninterface = \"e\"",
        &[
            ":11:1: `port[1].interface`",
            "no such key",
            "`path`, `ring_slots`",
        ],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"cable\"\npath = \"/run/covalent/control.sock\"",
        &["`port[1].path`", "this node's own processes"],
    ),
    (
        "[[port]]\nname = \"p1\"\nkind = \"pcap\"\ninput = \"/x\"\noutput = \"/x\"",
        &[":11:10: `port[1].output`", "would be overwritten"],
    ),
    (
        "[[port]]\nname = \"p1\"\nlane = 1\nkind = \"pcap\"",
        &[
            ":9:8: `port[1].lane`",
            "there is no lane 1; expected 0 to 0",
        ],
    ),
    (
        "[dataplane]\nidle = \"poll\"\n[[lane]]\ncore = 1\n[[lane]]\ncore = 1",
        &[":12:8: `lane[1].core`", "core 1 belongs to lane 0 already"],
    ),
    (
        "[[lane]]\n[[lane]]\n[[port]]\nname = \"lane-1-0\"\nkind = \"pcap\"",
        &["`port[1].name`", "cable between two lanes"],
    ),
    (
        "[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n\
         [[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]\n[[lane]]",
        &["lane[16]", "at most 16", "[fabric]"],
    ),
    (
        "[fabric]\nroots_max = 1",
        &["`fabric.roots_max`", "2 to 16384"],
    ),
];

#[test]
fn each_mistake_is_named_with_its_place_key_finding_and_expectation() {
    assert!(AFTER_A_GOOD_PORT.len() >= 30);
    for (text, parts) in AFTER_A_GOOD_PORT {
        let error = refused(&format!("{NODE}{PORT}{text}\n"));
        assert_eq!(
            error.problems().len(),
            1,
            "one mistake, one message:\n{text}\n{error}"
        );
        let message = error.to_string();
        for part in *parts {
            assert!(
                message.contains(part),
                "no `{part}` in the message about\n{text}\nwhich is\n{message}"
            );
        }
        assert!(message.starts_with("test.toml:"), "{message}");
    }
}

#[test]
fn a_file_without_node_or_port_names_the_required_tables() {
    // An invalid host name is reported in addition.
    let error = refused("[node]\nname = \"a\"\n");
    let keys: Vec<&str> = error
        .problems()
        .iter()
        .map(|problem| problem.key.as_str())
        .collect();
    assert!(
        keys == ["port"] && error.to_string().contains("`interfaces`"),
        "{error}"
    );

    for (text, key, part) in [
        ("[node]\nname = \"\"\n", "node.name", "the name is empty"),
        ("[node]\nname = \"a/b\"\n", "node.name", "holds '/'"),
        ("[node]\nname = 7\n", "node.name", "found the number 7"),
        (
            "[node]\nname = \"a\"\nruntime_dir = \"run\"\n",
            "node.runtime_dir",
            "an absolute path",
        ),
        (
            "[node]\nname = \"a\"\nstate_dir = \"\"\n",
            "node.state_dir",
            "an absolute path",
        ),
        (
            "[node]\nname = \"a\"\ngroup = \"two words\"\n",
            "node.group",
            "/etc/group",
        ),
        ("node = 3\n", "node", "found the number 3"),
    ] {
        let error = refused(&format!("{text}{PORT}"));
        let problem = error.problems().iter().find(|problem| problem.key == key);
        assert!(
            problem.is_some_and(|problem| problem.message.contains(part)),
            "{text}{error}"
        );
    }

    let long = format!(
        "[node]\nname = \"a\"\nruntime_dir = \"/{}\"\n{PORT}",
        "r".repeat(92)
    );
    assert!(
        refused(&long).to_string().contains("at most 107"),
        "93 bytes leave no room for the sockets"
    );
    let empty = refused(&format!("port = []\nlane = []\n{NODE}"));
    assert_eq!(empty.problems().len(), 2, "{empty}");
}

#[test]
fn a_misspelt_key_is_not_reported_as_missing_too() {
    for (text, key, words) in [
        (
            "[node]\nname = \"a\"\ninterface = [\"eth1\"]\n",
            "node.interface",
            "did you mean `interfaces`?",
        ),
        ("[[prot]]\nname = \"p0\"\n", "prot", "did you mean `port`?"),
        (
            "[[port]]\nnaem = \"p0\"\nkind = \"pcap\"\n",
            "port[0].naem",
            "did you mean `name`?",
        ),
    ] {
        let error = refused(text);
        let [problem] = error.problems() else {
            panic!("one problem: {error}");
        };
        assert_eq!(problem.key, key, "{error}");
        assert!(problem.message.contains(words), "{error}");
    }
    // Elsewhere an unknown key explains nothing.
    let error = refused("[node]\nname = \"a\"\n[dataplane]\nidel = \"poll\"\n");
    assert_eq!(error.problems().len(), 2, "{error}");
}

#[test]
fn all_errors_are_reported_at_once_in_file_order() {
    let text = format!(
        "{NODE}{PORT}quues = 1\nring_slots = 65\n[link]\nslots = 0\n[[steer]]\nmatch = \"any\"\n"
    );
    let error = refused(&text);
    let keys: Vec<&str> = error
        .problems()
        .iter()
        .map(|problem| problem.key.as_str())
        .collect();
    assert_eq!(
        keys,
        [
            "port[0].quues",
            "port[0].ring_slots",
            "link.slots",
            "steer[0].action"
        ]
    );
    assert_eq!(error.to_string().lines().count(), 4);
}

#[test]
fn a_hopeless_file_gets_a_bounded_answer() {
    let mut text = format!("{NODE}{PORT}");
    for index in 0..1000 {
        text.push_str(&format!("nonsense_{index} = {index}\n"));
    }
    assert!(refused(&text).problems().len() <= 64);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = Config::load("/nonexistent/covalent.toml".as_ref()).expect_err("no such file");
    assert!(
        missing
            .to_string()
            .starts_with("/nonexistent/covalent.toml: there is no such file"),
        "{missing}"
    );
    let endless = Config::load("/dev/zero".as_ref()).expect_err("too long");
    assert!(
        endless.to_string().contains("longer than 1048576 bytes"),
        "{endless}"
    );
}

#[test]
fn interfaces_that_cannot_be_ports_are_refused_where_they_stand() {
    for (interfaces, more, wanted) in [
        ("\"eth1\"", PORT, "port 0 already"),
        ("\"eth2\", \"eth2\"", PORT, "belongs to port 1 already"),
        ("\"p0\"", PORT, "port 0 is called `p0` already"),
        ("\"an interface\"", "", "cannot be a network interface"),
        ("\"veth@if2\"", "", "cannot be the name of a port"),
        ("1", "", "the name of a network interface"),
    ] {
        let text = format!("{NODE}interfaces = [{interfaces}]\n{more}");
        let error = refused(&text).to_string();
        assert!(
            error.contains("test.toml:3:14: `node.interfaces`") && error.contains(wanted),
            "{error}"
        );
    }
    let many: Vec<_> = (0..257).map(|number| format!("\"eth{number}\"")).collect();
    let error = refused(&format!("{NODE}interfaces = [{}]\n", many.join(","))).to_string();
    assert!(error.contains("more than 256 ports"), "{error}");
    let error = refused(&format!("{NODE}interfaces = []\n")).to_string();
    assert!(
        error.contains("`port`") && error.contains("`interfaces` in `[node]`"),
        "{error}"
    );
}
