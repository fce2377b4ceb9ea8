//! Debian's Prometheus scrapes two live nodes that are joined by a virtual cable. Every metric in
//! `docs/metrics.md` is present, the shipped rules are evaluated, and every query of the dashboard
//! succeeds.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use covalent::{Client, Device, GroupOptions, Mode, RegionOptions, Rights, Target, Timeout, Verb};
use covalent_config::Config;
use serde_json::Value;

use crate::{
    namespace::{ip, with_veth},
    nodes::{PATIENCE, eventually},
    rack::{Programs, Running},
};

/// Where Prometheus answers, in the namespace of the test.
const PROMETHEUS: &str = "127.0.0.1:9090";

/// The nodes, their interfaces and where their control processes serve.
const NODES: [(&str, &str, &str); 2] = [
    ("a", "near0", "127.0.0.1:9464"),
    ("b", "far0", "127.0.0.1:9465"),
];

/// Metrics that these two nodes do not have, each with the object that has it.
const NOT_HERE: [(&str, &str); 3] = [
    (
        "covalent_port_device_counts_total",
        "a port of the kind dpdk",
    ),
    (
        "covalent_port_device_events_total",
        "a port of the kind dpdk",
    ),
    (
        "covalent_port_damaged_packets_total",
        "a port with `[port.faults]`",
    ),
];

#[test]
fn prometheus_finds_every_documented_metric_on_two_live_nodes() {
    with_veth(|| {
        let Some((programs, prometheus)) = Programs::find().zip(find_prometheus()) else {
            return;
        };
        ip("link set lo up");
        let directory = tempfile::tempdir().unwrap();
        let sockets = NODES.map(|node| configure(directory.path(), node));
        let _nodes: Vec<Running> = NODES
            .iter()
            .flat_map(|(name, ..)| {
                let config = directory.path().join(name).join("node.toml");
                programs.start(&config)
            })
            .collect();
        for socket in &sockets {
            eventually("the link is up", || is_up(socket));
        }
        let devices = sockets
            .each_ref()
            .map(|socket| Device::attach(socket, "test").unwrap());
        with_one_of_everything(&devices, &sockets, || {
            let _prometheus = start(&prometheus, directory.path());
            every_documented_metric_is_scraped();
            every_query_of_the_dashboard_is_answered();
            the_rules_are_evaluated(&sockets[0]);
        });
    });
}

/// Returns the path of Prometheus: installed, or unpacked by `make unit`. Prints a message if there
/// is none.
fn find_prometheus() -> Option<PathBuf> {
    let unpacked = repository("target/test-tools/prometheus/usr/bin/prometheus");
    let found = [PathBuf::from("prometheus"), unpacked]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!(
            "skipped: there is no prometheus: `make unit` unpacks it, or install Debian's package"
        );
    }
    found
}

fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Writes a node's configuration; returns where its daemon will listen.
fn configure(directory: &Path, (name, interface, metrics): (&str, &str, &str)) -> PathBuf {
    let base = directory.join(name);
    let text = format!(
        "[node]\nname = \"{name}\"\nruntime_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n\
         [dataplane]\nidle = \"adaptive\"\nhuge_pages = \"never\"\n\
         [journal]\ndirectory = \"{0}/journal\"\nfile_mib = 1\n\
         [control]\nmetrics_listen = \"{metrics}\"\n\
         [[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"{interface}\"\nring_slots = \
         256\n",
        base.display()
    );
    let config = Config::parse(&text, "test").unwrap();
    fs::create_dir_all(&base).unwrap();
    fs::write(base.join("node.toml"), text).unwrap();
    config.socket_path()
}

fn is_up(socket: &Path) -> bool {
    let status = Client::connect(socket, "test").and_then(|mut client| client.status());
    status.is_ok_and(|status| status.links.iter().all(|link| link.state == "up"))
}

/// Runs `check` while both nodes have pipes, regions and groups. Before that, the link between them
/// fails while verbs wait, and more run after the failure.
fn with_one_of_everything(devices: &[Device; 2], sockets: &[PathBuf; 2], check: impl FnOnce()) {
    let durable = RegionOptions::new(Rights::ALL).durable(true);
    let _kept: Vec<_> = devices
        .iter()
        .map(|device| {
            (
                device.register_region("bank", 4096, Rights::ALL).unwrap(),
                device
                    .register_region_with("ledger", 4096, durable)
                    .unwrap(),
                device.rx_pipe_on(1 << 16, "p0").unwrap(),
                device.tx_pipe(1 << 16, "p0").unwrap(),
            )
        })
        .collect();
    let mut queues: Vec<_> = devices
        .iter()
        .zip(["b", "a"])
        .map(|(device, peer)| {
            let mut verbs = device.verbs().unwrap();
            let bank = verbs
                .open_region(Target::Name(peer), "bank", Timeout::FOREVER)
                .unwrap();
            (verbs, bank)
        })
        .collect();
    let mut client = Client::connect(&sockets[0], "test").unwrap();
    client.set_port("p0", false).unwrap();
    for socket in sockets {
        eventually("the link is down", || !is_up(socket));
    }
    let add = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    let waiting: Vec<_> = queues
        .iter_mut()
        .map(|(verbs, bank)| verbs.post(bank, add, Mode::OnePhase, 0).unwrap())
        .collect();
    client.set_port("p0", true).unwrap();
    for ((verbs, _), id) in queues.iter_mut().zip(waiting) {
        verbs.wait(id, Timeout::FOREVER).unwrap();
    }
    for socket in sockets {
        eventually("the link is up again", || is_up(socket));
    }
    let _open: Vec<_> = devices
        .iter()
        .zip(queues)
        .map(|(device, (mut verbs, bank))| {
            for _ in 0..100 {
                verbs.fetch_add(&bank, 0, 1, Timeout::FOREVER).unwrap();
            }
            let builder = device.group_builder("alone", GroupOptions::new()).unwrap();
            let contact = builder.contact();
            let mut group = builder.begin(&[contact]).unwrap();
            group.try_next().unwrap();
            (verbs, group)
        })
        .collect();
    check();
}

/// Runs Prometheus with the shipped rules, once a second, and waits until it answers.
fn start(program: &Path, directory: &Path) -> Running {
    let targets: Vec<String> = NODES
        .iter()
        .map(|(.., metrics)| format!("'{metrics}'"))
        .collect();
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
         rule_files: ['{}']\n\
         scrape_configs:\n- job_name: covalent\n  static_configs:\n  - targets: [{}]\n",
        repository("configs/alerts.yml").display(),
        targets.join(", ")
    );
    let file = directory.join("prometheus.yml");
    fs::write(&file, config).unwrap();
    let child = Command::new(program)
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            directory.join("series").display()
        ))
        .arg(format!("--web.listen-address={PROMETHEUS}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running(child);
    eventually("Prometheus answers", || {
        http_get("/api/v1/query?query=1").is_some()
    });
    eventually("both targets are up", || {
        query("count(up{job=\"covalent\"} == 1)").is_some_and(|result| result[0]["value"][1] == "2")
    });
    running
}

fn every_documented_metric_is_scraped() {
    let documented: BTreeSet<String> = fs::read_to_string(repository("docs/metrics.md"))
        .unwrap()
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .filter(|name| name.starts_with("covalent_"))
        .collect();
    assert!(documented.len() > 100, "{}", documented.len());
    for (name, has) in NOT_HERE {
        assert!(
            documented.contains(name),
            "{name}, which {has} has, is not documented"
        );
    }
    for (node, ..) in NODES {
        let mut missing = BTreeSet::new();
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            let path = format!(
                "/api/v1/label/__name__/values?match[]={}",
                encoded(&format!("{{node=\"{node}\"}}"))
            );
            let answer = http_get(&path).expect("Prometheus answers");
            let names = answer["data"].as_array().expect("names");
            let scraped: BTreeSet<&str> = names
                .iter()
                .filter_map(Value::as_str)
                .flat_map(|name| [Some(name), name.strip_suffix("_count")])
                .flatten()
                .collect();
            missing = documented
                .iter()
                .map(String::as_str)
                .filter(|name| {
                    !scraped.contains(name) && NOT_HERE.iter().all(|(there, _)| there != name)
                })
                .collect();
            if missing.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!(missing.is_empty(), "node {node} does not show {missing:?}");
        let measured =
            format!("covalent_link_round_trip_seconds_count{{node=\"{node}\", port=\"p0\"}} > 0");
        eventually("round trips are measured", || {
            query(&measured).is_some_and(|result| result[0].is_object())
        });
    }
}

fn every_query_of_the_dashboard_is_answered() {
    let dashboard = fs::read_to_string(repository("configs/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let rows = dashboard["panels"].as_array().expect("panels");
    let inside = rows
        .iter()
        .flat_map(|row| row["panels"].as_array().into_iter().flatten());
    let mut queries = 0;
    for target in rows
        .iter()
        .chain(inside)
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
    {
        let expr = target["expr"].as_str().expect("a query");
        let expr = expr
            .replace("$__rate_interval", "1m")
            .replace("$node", ".*");
        assert!(query(&expr).is_some(), "Prometheus refuses {expr}");
        queries += 1;
    }
    assert!(queries > 100, "{queries}");
}

/// Every rule is evaluated without an error, and one fires for the link failure.
fn the_rules_are_evaluated(socket: &Path) {
    let mut client = Client::connect(socket, "test").unwrap();
    client.set_port("p0", false).unwrap();
    client.set_port("p0", true).unwrap();
    eventually("the failed link raises an alert", || {
        query("ALERTS{alertname=\"CovalentLinkFailed\", node=\"a\", alertstate=\"firing\"}")
            .is_some_and(|result| result[0].is_object())
    });
    let answer = http_get("/api/v1/rules").expect("Prometheus answers");
    let groups = answer["data"]["groups"].as_array().expect("groups");
    let rules: Vec<&Value> = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().expect("rules"))
        .collect();
    assert!(rules.len() > 20, "{}", rules.len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

/// The result of an instant query; `None` if it is refused.
fn query(expr: &str) -> Option<Value> {
    let mut answer = http_get(&format!("/api/v1/query?query={}", encoded(expr)))?;
    Some(answer["data"]["result"].take())
}

/// Returns the reply of Prometheus. `None`: no reply, or an error.
fn http_get(path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(PROMETHEUS).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    // HTTP/1.0, so that the reply is not chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {PROMETHEUS}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    let answer: Value = serde_json::from_str(body).ok()?;
    (answer["status"] == "success").then_some(answer)
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = write!(encoded, "%{byte:02x}");
        encoded
    })
}
