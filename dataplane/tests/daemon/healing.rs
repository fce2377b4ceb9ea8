//! Ports whose interfaces have changed: control has the daemon open them again, and their links
//! come up.

use std::path::{Path, PathBuf};

use covalent_api::{
    agreement::{PortFacts, RefusalBrief, VerdictBrief},
    event::EventKind,
    request::{Reply, Request},
    rule::Match,
    status::PortStatus,
};
use covalent_config::{Config, CopyMode, HugePages, PortConfig, PortKind, XdpMode};

use super::{
    agreement::{held, proposal, send_draft, text},
    client::{App, Client},
    command::{self, Running},
    control::{Control, program, write},
    live_ports::{await_link, link, port, replaced},
    namespace::{ip, with_veth},
    node::{Node, eventually, pair},
    streams::numbered,
};

const TYPE: Match = Match::EtherType { ethertype: 0x1234 };

fn on_interface(name: &str, interface: &str) -> PortConfig {
    PortConfig {
        name: name.to_owned(),
        lane: 0,
        link: true,
        kind: PortKind::AfXdp {
            interface: interface.to_owned(),
            queues: 0,
            ring_slots: 256,
            xdp: XdpMode::Auto,
            copy: CopyMode::Auto,
        },
        faults: None,
    }
}

/// A node as two processes.
pub struct Place {
    pub config: Config,
    file: PathBuf,
    program: PathBuf,
    pub control: Option<Control>,
    daemon: Running,
}

impl Place {
    /// Starts a node on these interfaces. Its ports are `p0`, `p1`, …
    pub fn start(program: &Path, dir: &Path, name: &str, interfaces: &[&str]) -> Self {
        let mut config = Node::new(dir, name, &["p0"], "idle_tick_ms = 20\n").config;
        config.control.metrics_listen = ([127, 0, 0, 1], 0).into();
        config.dataplane.huge_pages = HugePages::Never;
        let ports = interfaces.iter().enumerate();
        config.port = ports
            .map(|(at, interface)| on_interface(&format!("p{at}"), interface))
            .collect();
        let file = dir.join(format!("{name}.toml"));
        write(&file, &config);
        let daemon = command::start(&["--config", file.to_str().expect("text")]);
        let mut place = Self {
            config,
            file,
            program: program.to_owned(),
            control: None,
            daemon,
        };
        eventually("the daemon answers", || {
            covalent_ipc::seqpacket::Connection::connect(&place.config.socket_path()).is_ok()
        });
        place.start_control();
        place
    }

    fn start_control(&mut self) {
        let control = Control::start(&self.program, &self.file);
        control.await_agreed();
        self.control = Some(control);
    }

    /// The daemon's and control's.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let control = self.control.as_ref().map(Control::pid);
        std::iter::once(self.daemon.0.id()).chain(control)
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.config.socket_path())
    }

    pub fn port(&self, name: &str) -> PortStatus {
        port(&self.client().status(), name)
            .expect("it is configured")
            .clone()
    }

    /// Waits until the port was opened on an interface that `is_so` accepts. Returns the facts of
    /// that interface.
    pub fn await_facts(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&PortFacts) -> bool,
    ) -> PortFacts {
        let mut facts = None;
        eventually(what, || {
            facts = self.port(name).facts;
            facts.as_ref().is_some_and(&is_so)
        });
        facts.expect("it was reported")
    }
}

/// Runs a test with the control program in a namespace that holds `near0` and `far0`.
pub fn with_control(test: impl FnOnce(&Path, &Path) + Send) {
    let Some(program) = program() else { return };
    with_veth(|| {
        ip("link set lo up");
        let dir = tempfile::tempdir().expect("a directory");
        test(&program, dir.path());
    });
}

pub fn await_links(places: [&Place; 2], port: &str, after: u32) -> u32 {
    let mut epoch = 0;
    eventually("the link is up under a later epoch", || {
        let epochs = places.map(|place| {
            let status = place.client().status();
            let up = link(&status, port).filter(|link| link.state == "up");
            up.map_or(0, |link| link.epoch)
        });
        epoch = epochs[0];
        epoch > after && epochs[1] == epoch
    });
    epoch
}

#[test]
fn a_recreated_interface_gets_its_port_and_its_link_back() {
    with_control(|program, dir| {
        let a = Place::start(program, dir, "a", &["near0"]);
        let b = Place::start(program, dir, "b", &["far0"]);
        let before = await_links([&a, &b], "p0", 0);
        let first = a.port("p0").facts.expect("it has an interface");
        // Applications keep their pipes.
        let (mut source, mut sink) = (
            App::attach(&a.config.socket_path()),
            App::attach(&b.config.socket_path()),
        );
        let (tx_pipe, mut tx) = source.tx("p0");
        let (rx_pipe, mut rx) = sink.rx(Some("p0"));
        sink.bind(rx_pipe, TYPE);
        let epoch = a.control.as_ref().expect("it runs").await_agreed().epoch;

        for round in 0..2 {
            ip("link del near0");
            for place in [&a, &b] {
                eventually("the port has no device", || {
                    place.port("p0").absent.is_some()
                });
            }
            // A new interface is down.
            ip(
                "link add near0 numrxqueues 2 numtxqueues 2 type veth peer name far0 numrxqueues 2 \
                 numtxqueues 2",
            );
            let after = await_links([&a, &b], "p0", before + round);
            assert!(after > before);
            let facts = a.port("p0").facts.expect("it has an interface");
            assert_ne!(facts.index, first.index);
            let sent = numbered(round, 200);
            source.send(tx_pipe, &mut tx, &sent);
            assert_eq!(sink.receive(rx_pipe, &mut rx, 1), [sent]);
        }
        // By exchanges, so control and the daemon hold the same.
        let held = a.control.as_ref().expect("it runs").await_agreed();
        assert!(held.epoch >= epoch + 2, "{held:?}");
        assert_eq!(a.client().status().config.held, held);
    });
}

#[test]
fn a_port_whose_interface_is_missing_at_the_start_opens_with_it() {
    with_control(|program, dir| {
        let a = Place::start(program, dir, "a", &["near0", "near1"]);
        let b = Place::start(program, dir, "b", &["far0", "far1"]);
        let waits = a.port("p1");
        let reason = waits.absent.expect("there is no such interface");
        assert!(
            reason.contains("`near1`") && reason.contains("covalent-control"),
            "{reason}"
        );
        assert!(!waits.carrier && waits.facts.is_none());
        // The other port neither waits for it nor notices its arrival.
        let epoch = await_links([&a, &b], "p0", 0);
        assert!(a.client().status().events > 0, "it is an event too");
        let mut follower = a.client();
        follower.done(&Request::Subscribe);
        // The pipe of an application may name it before it is there.
        let mut source = App::attach(&a.config.socket_path());
        let (tx_pipe, mut tx) = source.tx("p1");
        ip("link add near1 type veth peer name far1");
        await_links([&a, &b], "p1", 0);
        let opened =
            |kind: &EventKind| matches!(kind, EventKind::PortOpened { port } if port == "p1");
        while !matches!(follower.receive(), Some((Reply::Event(event), _)) if opened(&event.kind)) {
        }
        let mut sink = App::attach(&b.config.socket_path());
        let (rx_pipe, mut rx) = sink.rx(Some("p1"));
        sink.bind(rx_pipe, TYPE);
        let sent = numbered(7, 200);
        source.send(tx_pipe, &mut tx, &sent);
        assert_eq!(sink.receive(rx_pipe, &mut rx, 1), [sent]);
        let status = a.client().status();
        let p0 = link(&status, "p0").expect("it is there");
        assert_eq!((p0.epoch, p0.ups), (epoch, 1));
    });
}

#[test]
fn a_changed_mtu_and_address_are_adopted_by_any_observer() {
    with_control(|program, dir| {
        let mut a = Place::start(program, dir, "a", &["near0"]);
        let b = Place::start(program, dir, "b", &["far0"]);
        let before = await_links([&a, &b], "p0", 0);
        ip("link set near0 mtu 1490");
        a.await_facts("p0", "the port has the new MTU", |facts| {
            facts.mtu_bytes == 1490
        });
        assert_eq!(a.port("p0").frame_bytes_max, 1504);
        let after = await_links([&a, &b], "p0", before);

        // Control misses this change. It compares the actual state when it is back.
        a.control = None;
        ip("link set near0 address 02:00:00:00:00:77");
        ip("link set near0 mtu 1480");
        a.start_control();
        a.await_facts("p0", "the port has the new address and MTU", |facts| {
            facts.address == "02:00:00:00:00:77" && facts.mtu_bytes == 1480
        });
        await_links([&a, &b], "p0", after);

        // And this one while control looks on.
        ip("link set near0 address 02:00:00:00:00:78");
        a.await_facts("p0", "the port has the new address", |facts| {
            facts.address == "02:00:00:00:00:78"
        });
        let sound = a.port("p0").facts;
        let held = a.control.as_ref().expect("it runs").await_agreed();
        // A change that leaves the port the same does not open it again.
        ip("link set far0 down");
        eventually("there is no carrier", || !a.port("p0").carrier);
        ip("link set far0 up");
        await_link(&mut a.client(), "p0");
        assert_eq!(a.port("p0").facts, sound);
        assert_eq!(
            a.control.as_ref().expect("it runs").await_agreed(),
            held,
            "no further exchange"
        );
    });
}

#[test]
fn the_interface_of_a_port_that_a_reload_brings_is_set_up_and_followed() {
    with_control(|program, dir| {
        let a = Place::start(program, dir, "a", &["near0"]);
        let b = Place::start(program, dir, "b", &["far0"]);
        await_links([&a, &b], "p0", 0);
        ip("link add near1 type veth peer name far1");
        for (place, interface) in [(&a, "near1"), (&b, "far1")] {
            let more = replaced(&place.config, on_interface("p1", interface));
            place.control.as_ref().expect("it runs").reload(&more);
        }
        // Both ends were down, and were set up from outside.
        let up = await_links([&a, &b], "p1", 0);
        ip("link set near1 mtu 1490");
        a.await_facts("p1", "the port has the new MTU", |facts| {
            facts.mtu_bytes == 1490
        });
        await_links([&a, &b], "p1", up);
    });
}

fn reopen(client: &mut Client, config: &Config, ports: &[&str]) -> VerdictBrief {
    let (believes, text) = (held(client), text(config));
    send_draft(client, &text);
    let Request::Offer {
        epoch,
        believes,
        digest,
        ..
    } = proposal(believes, &text)
    else {
        unreachable!("an offer is one");
    };
    let reopen = ports.iter().map(ToString::to_string).collect();
    let request = Request::Offer {
        epoch,
        believes,
        digest,
        reopen,
    };
    match client.call(&request).0 {
        Reply::Verdict(verdict) => *verdict,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_port_reopened_under_its_configuration_keeps_its_number_and_pipes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    let mut client = a.client();
    let (mut source, mut sink) = (
        App::attach(&a.config.socket_path()),
        App::attach(&b.config.socket_path()),
    );
    let (tx_pipe, mut tx) = source.tx("p1");
    let (rx_pipe, mut rx) = sink.rx(Some("p1"));
    sink.bind(rx_pipe, TYPE);
    let numbers = |client: &mut Client| {
        let ports = client.status().ports.into_iter();
        ports
            .map(|port| (port.name, port.number))
            .collect::<Vec<_>>()
    };
    let (before, epoch) = (numbers(&mut client), await_link(&mut client, "p1"));
    let (held_before, other) = (held(&mut client), await_link(&mut client, "p0"));
    let verdict = reopen(&mut client, &a.config, &["p1"]);
    assert_eq!(verdict.refused, None, "{verdict:?}");
    assert_eq!(verdict.held.epoch, held_before.epoch + 1);
    assert_eq!(verdict.held.digest, held_before.digest);
    assert!(verdict.changed.is_empty());
    assert!(
        verdict
            .beware
            .iter()
            .any(|affected| affected.contains("`p1`, which was reopened")),
        "{verdict:?}"
    );
    assert!(await_link(&mut client, "p1") > epoch);
    assert_eq!(await_link(&mut client, "p0"), other, "it noticed nothing");
    assert_eq!(numbers(&mut client), before);
    let sent = numbered(1, 200);
    source.send(tx_pipe, &mut tx, &sent);
    assert_eq!(sink.receive(rx_pipe, &mut rx, 1), [sent]);
}

#[test]
fn a_port_that_cannot_reopen_is_reported_before_any_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0"]);
    let mut client = a.client();
    let epoch = await_link(&mut client, "p0");
    let before = held(&mut client);
    let verdict = reopen(&mut client, &a.config, &["p0", "p9"]);
    assert_eq!(verdict.refused, Some(RefusalBrief::Unready), "{verdict:?}");
    assert!(
        verdict.objections[0].message.contains("`p9`"),
        "{verdict:?}"
    );
    let capture = PortConfig {
        link: false,
        kind: PortKind::Pcap {
            input: None,
            output: None,
        },
        ..on_interface("c", "none")
    };
    let verdict = reopen(&mut client, &replaced(&a.config, capture), &["c"]);
    assert_eq!(verdict.objections[0].key, "port[1]", "{verdict:?}");
    assert_eq!(held(&mut client), before);
    assert_eq!(await_link(&mut client, "p0"), epoch);
}
