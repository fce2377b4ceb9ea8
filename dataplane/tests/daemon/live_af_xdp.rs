//! Ports on AF_XDP that come and go beside another one. The program opens them after it dropped its
//! privileges.

use covalent_config::{Config, CopyMode, PortConfig, PortKind, XdpMode};

use super::{
    agreement::{text, wish},
    client::App,
    command::{file, start},
    live_ports::{Stream, await_link, link, port, replaced, taken, without},
    namespace::{ip, with_veth},
    node::{Node, eventually},
};

fn on_interface(name: &str, interface: &str, ring_slots: u32) -> PortConfig {
    PortConfig {
        name: name.to_owned(),
        lane: 0,
        link: true,
        kind: PortKind::AfXdp {
            interface: interface.to_owned(),
            queues: 0,
            ring_slots,
            xdp: XdpMode::Auto,
            copy: CopyMode::Auto,
        },
        faults: None,
    }
}

fn node(dir: &std::path::Path, name: &str, interface: &str) -> Node {
    // Long timeouts, because other processes may use the cores: this tests for loss at a port, not
    // for time.
    let mut node = Node::new(dir, name, &["p0"], "idle_tick_ms = 50\n");
    node.config.port = vec![on_interface("p0", interface, 1024)];
    node.config.dataplane.huge_pages = covalent_config::HugePages::Never;
    node
}

#[test]
fn ports_on_af_xdp_open_and_close_beside_a_streaming_one() {
    with_veth(|| {
        ip("link add near1 type veth peer name far1");
        ip("link set near1 up");
        ip("link set far1 up");
        let dir = tempfile::tempdir().expect("a directory");
        let a = node(dir.path(), "a", "near0");
        let path = file(dir.path(), &a);
        let program = start(&["--config", &path]);
        eventually("the program answers", || {
            covalent_ipc::seqpacket::Connection::connect(&a.config.socket_path()).is_ok()
        });
        let b = node(dir.path(), "b", "far0").start();
        let mut clients = [a.client(), b.client()];
        let before = clients.each_mut().map(|client| await_link(client, "p0"));
        // On every port, so that each new port learns of it too.
        let mut owner = App::attach(&b.config.socket_path());
        let _region = owner.register("r", 4096);
        let stream = Stream::start(&a, &b);
        let with = |config: &Config, interface: &str, ring_slots| {
            replaced(config, on_interface("p1", interface, ring_slots))
        };
        let mut epoch = 0;
        for round in 0..4 {
            let slots = [1024, 512][round % 2];
            taken(&mut clients[0], &with(&a.config, "near1", slots));
            if round % 2 == 0 {
                taken(&mut clients[1], &with(&b.config, "far1", slots));
            }
            let up = await_link(&mut clients[0], "p1");
            assert!(up > epoch, "a later epoch");
            epoch = up;
            if round % 2 == 1 {
                // A missing interface beside a port that changes: that port is opened as it was.
                let wrong = replaced(
                    &with(&a.config, "near1", 2048),
                    on_interface("p2", "none", 64),
                );
                let verdict = wish(&mut clients[0], &text(&wrong));
                assert_eq!(verdict.objections[0].key, "port[2]", "{verdict:?}");
                epoch = await_link(&mut clients[0], "p1");
                let [one, other] = clients.each_mut();
                taken(one, &without(&a.config, "p1"));
                taken(other, &without(&b.config, "p1"));
            }
        }
        assert!(stream.end() > 0);
        for (client, before) in clients.iter_mut().zip(before) {
            let status = client.status();
            eprintln!(
                "longest round: {} us",
                status.lanes[0].longest_round_ns / 1_000
            );
            let p0 = link(&status, "p0").expect("it is there");
            assert_eq!((p0.epoch, p0.ups), (before, 1), "{p0:?}");
            let drops = &port(&status, "p0").expect("it is there").drops;
            assert!(drops.values().all(|&count| count == 0), "{drops:?}");
        }
        program.kill();
    });
}
