//! Sessions with as many bindings as there may be.

use std::net::Ipv4Addr;

use covalent_api::{
    request::{Reply, Request},
    rule::{Match, Transport},
};

use super::{
    child::{Application, orders, report},
    client::App,
    holdings::Holdings,
    namespace::with_veth,
    node::{self, Node, eventually, pair_on_a_cable, pair_on_af_xdp, unprivileged},
    turn,
};

/// As many as one session may have.
const BINDINGS: u32 = 4096;

/// Bindings that a lane takes back in one round at most: some 100 µs of system calls.
const PER_ROUND_MAX: u32 = 64;

/// Binds as much as one session may, in equal parts exact and by prefix, which cost most.
fn bind_all(node: &Node) -> App {
    let mut app = App::attach(&node.socket());
    let (pipe, _rx) = app.rx(None);
    for number in 0..BINDINGS {
        let address = Ipv4Addr::from_bits(0x0a00_0000 | number << 4);
        let matches = if number % 2 == 0 {
            Match::Destination {
                transport: Transport::Udp,
                dst: address.into(),
                dst_port: 9,
            }
        } else {
            Match::Prefix {
                dst: format!("{address}/28").parse().expect("a prefix"),
            }
        };
        app.bind(pipe, matches);
    }
    app
}

/// Runs `end`, which releases everything. Fails unless the lane did that in the expected number of
/// rounds. Prints the longest of all rounds.
fn check_rounds(node: &Node, on: &str, what: &str, end: impl FnOnce()) {
    let lane = || node.status().lanes.remove(0);
    let taken_back = || node.status().pipes.len();
    let before = lane();
    end();
    eventually("the pipe is removed", || taken_back() == 0);
    let after = lane();
    eprintln!(
        "{on}: {what} with {BINDINGS} bindings took {} rounds; longest round {} ns before and {} \
         ns after",
        after.busy_loops - before.busy_loops,
        before.longest_round_ns,
        after.longest_round_ns
    );
    assert!(after.busy_loops - before.busy_loops >= u64::from(BINDINGS / PER_ROUND_MAX));
}

/// `rules`: how many the kernel below has then.
fn check(on: &str, node: &Node, rules: u32) {
    let held = || Holdings::of(node.pid()).rules;
    let before = held();
    let mut app = bind_all(node);
    assert_eq!(held(), before + rules as usize);
    check_rounds(node, on, "a pipe", || {
        app.client.done(&Request::ClosePipe { pipe: 0 });
    });
    let (pipe, _rx) = app.rx(None);
    app.bind(pipe, Match::Any);
    drop(app);
    let app = bind_all(node);
    check_rounds(node, on, "a session", || drop(app));
    assert_eq!(held(), before);
    // The bindings of the closed pipe do not count as left behind by a session. A session is
    // counted when all of it is gone, later than its pipes.
    let left_behind = || node.status().reclaimed.bindings["closed"];
    eventually("the session is counted", || {
        left_behind() > u64::from(BINDINGS)
    });
    assert_eq!(left_behind(), u64::from(BINDINGS) + 1);
}

#[test]
fn thousands_of_bindings_are_taken_back_over_many_rounds() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    check("cable", &a, 0);
}

#[test]
fn thousands_of_rules_are_taken_out_of_the_kernel_over_many_rounds() {
    let _turn = turn::take();
    with_veth(|| {
        let dir = node::place();
        let (a, _b) = pair_on_af_xdp(dir.path());
        check("AF_XDP", &a, BINDINGS);
    });
}

/// EtherTypes that one user may bind on a port: half of the kernel's table.
const ETHERTYPES_PER_USER: u16 = 128;

/// Binds one EtherType after the other until one is refused. Prints the number of bindings and the
/// reason for the refusal.
#[test]
#[ignore = "the body of a child process"]
fn greedy() {
    let Some((socket, _)) = orders() else { return };
    let mut reported = Vec::new();
    let mut apps = [App::attach(&socket), App::attach(&socket)];
    // In turn from two sessions: the share is the user's.
    for number in 0..=ETHERTYPES_PER_USER {
        let app = &mut apps[usize::from(number % 2)];
        if number < 2 {
            app.rx(None);
        }
        let (reply, _) = app.client.call(&Request::Bind {
            pipe: 0,
            matches: Match::EtherType {
                ethertype: 0x2000 + number,
            },
            spread: None,
        });
        if let Reply::Refused { reason, .. } = reply {
            reported.push(format!("{number} {reason}"));
        }
    }
    report(&reported.join("; "));
    // Keeps them until it is stopped.
    let _ = std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new());
}

#[test]
fn one_user_does_not_fill_the_rules_of_a_port() {
    if unprivileged().is_none() {
        eprintln!("skipped: only root can run an application as another user");
        return;
    }
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    let mut greedy = Application::start_unprivileged("bindings::greedy", a.socket(), "");
    let reported = greedy.next_report().expect("its count");
    assert!(
        reported.starts_with(&format!("{ETHERTYPES_PER_USER} ")),
        "{reported}"
    );
    for part in ["the maximum for one user", "128 EtherType rules", "`p0`"] {
        assert!(reported.contains(part), "{reported}");
    }
    let mut app = App::attach(&a.socket());
    let (pipe, _rx) = app.rx(None);
    for number in 0..ETHERTYPES_PER_USER {
        let ethertype = 0x3000 + number;
        app.bind(pipe, Match::EtherType { ethertype });
    }
    greedy.stop();
}
