//! Bindings that come and go while traffic flows.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_api::{request::Request, rule::Match};

use super::{
    af_xdp,
    client::App,
    flows::{Sender, Taker, read, to_port},
    namespace::{is_root, with_veth},
    node::{Node, PATIENCE, pair},
};

const STEADY: u16 = 7001;
const TOGGLED: u16 = 7002;
const TOGGLES: usize = 300;
/// The daemons and the sender need the cores.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// Sends two flows from `a` to `b`, whose application binds and unbinds one of them hundreds of
/// times. `fallback`: another pipe gets unbound frames. Otherwise no pipe does.
fn toggle(a: &Node, b: &Node, port: &'static str, fallback: bool) {
    let mut app = App::attach(&b.config.socket_path());
    let mut steady = Taker::new(&mut app, None);
    let mut toggled = Taker::new(&mut app, None);
    let mut rest = Taker::new(&mut app, None);
    app.bind(steady.pipe, to_port(STEADY));
    if fallback {
        app.bind(rest.pipe, Match::Any);
    }
    let before = b.status().ports[0].clone();
    let sender = Sender::start(
        a.config.socket_path(),
        port,
        vec![(1, STEADY), (1, TOGGLED)],
    );
    // Numbers that arrived: those of the steady flow, and those of the toggled flow in its pipe and
    // in the fallback.
    let (mut steady_next, mut in_toggled, mut in_rest) = (0, Vec::new(), Vec::new());
    let mut take = |app: &mut App, bound: bool| {
        let taken = steady.take(app, |frame| {
            assert_eq!(read(frame), (1, STEADY, steady_next), "the steady flow");
            steady_next += 1;
        });
        // Two are sent for each of these.
        sender.took(2 * taken);
        let lies_there = toggled.take(app, |frame| {
            let (_, to, number) = read(frame);
            assert_eq!(to, TOGGLED, "in the pipe of the toggled flow");
            in_toggled.push(number);
        });
        assert!(
            bound || lies_there == 0,
            "a frame arrived where nothing is bound"
        );
        rest.take(app, |frame| {
            let (_, to, number) = read(frame);
            assert_eq!(to, TOGGLED, "in the fallback");
            in_rest.push(number);
        });
        steady_next
    };
    for toggle in 0..TOGGLES {
        let pipe = 1;
        app.bind(pipe, to_port(TOGGLED));
        // A few packets in each state.
        let seen = take(&mut app, true);
        let deadline = Instant::now() + PATIENCE;
        while take(&mut app, true) < seen + 5 {
            assert!(Instant::now() < deadline, "the steady flow stands still");
            sleep(CHECK_INTERVAL);
        }
        app.unbind(pipe, to_port(TOGGLED));
        // Packets from before the reply may be in the pipe.
        let seen = take(&mut app, true);
        let deadline = Instant::now() + PATIENCE;
        while take(&mut app, false) < seen + 5 {
            assert!(Instant::now() < deadline, "the steady flow stands still");
            sleep(CHECK_INTERVAL);
        }
        if toggle % 50 == 0 {
            let reason = app.client.refused(&Request::Unbind {
                pipe,
                matches: to_port(TOGGLED),
            });
            assert!(reason.contains("not bound"), "{reason}");
        }
    }
    let sent = sender.stop();
    let deadline = Instant::now() + PATIENCE;
    let mut app = app;
    let mut came = steady_next;
    while came < sent {
        assert!(Instant::now() < deadline, "{came} of {sent} steady ones");
        came += steady.take(&mut app, |frame| {
            assert_eq!(read(frame), (1, STEADY, steady_next), "the steady flow");
            steady_next += 1;
        });
    }
    let number = |frame: &[u8]| read(frame).2;
    rest.take(&mut app, |frame| in_rest.push(number(frame)));
    // In order in each pipe, and in one of them only.
    for numbers in [&in_toggled, &in_rest] {
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    }
    assert!(in_toggled.len() >= TOGGLES, "{} came", in_toggled.len());
    let after = b.status().ports[0].clone();
    let nobodys = after.drops["no_pipe"] - before.drops["no_pipe"] + after.passed_to_kernel_packets
        - before.passed_to_kernel_packets;
    let total = (in_toggled.len() + in_rest.len()) as u64;
    if fallback {
        assert_eq!((total, nobodys), (sent, 0), "a toggled packet was lost");
        let mut all = [in_toggled, in_rest].concat();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..sent), "each packet arrived once");
    } else {
        assert_eq!(in_rest, [0; 0]);
        assert_eq!(total + nobodys, sent, "each went to its pipe or to none");
        assert!(nobodys >= TOGGLES as u64);
    }
}

#[test]
fn bindings_that_toggle_disturb_no_other_pipe() {
    if !is_root() {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = pair(dir.path(), &["p0"]);
        toggle(&a, &b, "p0", true);
        return toggle(&a, &b, "p0", false);
    }
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = af_xdp::pair(dir.path());
        toggle(&a, &b, "x0", true);
        toggle(&a, &b, "x0", false);
    });
}
