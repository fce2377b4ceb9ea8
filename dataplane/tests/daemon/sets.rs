//! Pipes that share a match.

use std::{collections::BTreeMap, time::Instant};

use covalent_api::{
    request::Request,
    rule::{Action, Match, SPREAD_PIPES_MAX, Spread},
};

use super::{
    af_xdp,
    client::App,
    flows::{Sender, Taker, read, to_port, udp},
    namespace::{is_root, with_veth},
    node::{Node, PATIENCE, eventually, pair},
};

fn bind(pipe: u32, matches: Match, spread: Option<Spread>) -> Request {
    Request::Bind {
        pipe,
        matches,
        spread,
    }
}

#[test]
fn a_set_of_three_pipes_of_two_applications_shares_by_flow() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut apps = [0, 1].map(|_| App::attach(&b.config.socket_path()));
    let mut takers: Vec<(usize, Taker)> = [0, 1, 1]
        .into_iter()
        .map(|of| (of, Taker::new(&mut apps[of], None)))
        .collect();
    for (of, taker) in &takers {
        apps[*of].share(taker.pipe, to_port(7000), Spread::Hash);
    }
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    let mut send = |flows: std::ops::Range<u16>| {
        for number in 0..3 {
            for flow in flows.clone() {
                sender.send(pipe, &mut tx, &udp(flow, 7000, number));
            }
        }
    };
    let collect_packets = |apps: &mut [App], takers: &mut [(usize, Taker)], packets: u64| {
        let mut found: BTreeMap<u16, Vec<(usize, u64)>> = BTreeMap::new();
        let mut came = 0;
        let deadline = Instant::now() + PATIENCE;
        while came < packets {
            assert!(Instant::now() < deadline, "{came} of {packets} arrived");
            for (at, (of, taker)) in takers.iter_mut().enumerate() {
                came += taker.take(&mut apps[*of], |frame| {
                    let (flow, _, number) = read(frame);
                    found.entry(flow).or_default().push((at, number));
                });
            }
        }
        found
    };
    let owners = |found: BTreeMap<u16, Vec<(usize, u64)>>| -> BTreeMap<u16, usize> {
        found
            .into_iter()
            .map(|(flow, came)| {
                let owner = came[0].0;
                let expected: Vec<_> = (0..3).map(|number| (owner, number)).collect();
                assert_eq!(came, expected, "flow {flow} is in one pipe, in order");
                (flow, owner)
            })
            .collect()
    };
    send(0..200);
    let first = owners(collect_packets(&mut apps, &mut takers, 600));
    for at in 0..3 {
        let share = first.values().filter(|&&owner| owner == at).count();
        assert!((20..=120).contains(&share), "pipe {at} has {share} of 200");
    }
    // One leaves: its flows go to the others, and no other flow moves.
    let (of, gone) = takers.pop().expect("three");
    apps[of].unbind(gone.pipe, to_port(7000));
    send(0..200);
    let second = owners(collect_packets(&mut apps, &mut takers, 600));
    let mut inherited = [0; 2];
    for (flow, owner) in &second {
        match first[flow] {
            2 => inherited[*owner] += 1,
            before => assert_eq!(*owner, before, "flow {flow} moved"),
        }
    }
    assert!(inherited.iter().all(|&count| count > 0), "{inherited:?}");
    // The second application ends: everything is the first one's.
    let [first_app, second_app] = apps;
    drop(second_app);
    eventually("its binding is removed", || b.status().sessions == 1);
    takers.truncate(1);
    send(0..200);
    let mut apps = [first_app];
    let third = owners(collect_packets(&mut apps, &mut takers, 600));
    assert!(third.values().all(|&owner| owner == 0));
    assert_eq!(b.status().ports[0].drops["no_pipe"], 0);
    // The last member leaves: no pipe takes the frames.
    apps[0].unbind(takers[0].1.pipe, to_port(7000));
    send(0..1);
    eventually("it belongs to no pipe", || {
        b.status().ports[0].drops["no_pipe"] == 3
    });
}

#[test]
fn a_fallback_set_takes_turns() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut app = App::attach(&b.config.socket_path());
    let mut takers: Vec<Taker> = (0..5).map(|_| Taker::new(&mut app, Some("p0"))).collect();
    for taker in &takers {
        app.share(taker.pipe, Match::Any, Spread::RoundRobin);
    }
    let mut exact = Taker::new(&mut app, None);
    app.bind(exact.pipe, to_port(7001));
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    for number in 0..100 {
        // One flow, and one that is not the fallback's.
        sender.send(pipe, &mut tx, &udp(1, 7000, number));
        sender.send(pipe, &mut tx, &udp(1, 7001, number));
    }
    let mut came = vec![Vec::new(); 5];
    let (mut total, mut others) = (0, 0);
    eventually("all come", || {
        for (taker, numbers) in takers.iter_mut().zip(&mut came) {
            total += taker.take(&mut app, |frame| {
                let (_, to, number) = read(frame);
                assert_eq!(to, 7000);
                numbers.push(number);
            });
        }
        others += exact.take(&mut app, |frame| assert_eq!(read(frame).1, 7001));
        total == 100 && others == 100
    });
    for (at, numbers) in came.into_iter().enumerate() {
        assert!(
            numbers.into_iter().eq((at as u64..100).step_by(5)),
            "pipe {at} has every fifth"
        );
    }
}

#[test]
fn a_refused_member_of_a_set_gets_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let more = "[[steer]]\nmatch = \"vlan\"\nvlan = 9\naction = \"drop\"\n";
    let node = Node::new(dir.path(), "a", &["p0"], more).start();
    let mut app = App::attach(&node.config.socket_path());
    let (first, _first) = app.rx(None);
    let (second, _second) = app.rx(None);
    app.share(first, Match::Any, Spread::Hash);
    let mut refused = |pipe, matches: Match, spread, parts: &[&str]| {
        let reason = app.client.refused(&bind(pipe, matches, spread));
        for part in parts {
            assert!(reason.contains(part), "{reason}");
        }
    };
    refused(second, Match::Any, None, &["share it by `hash`"]);
    refused(
        second,
        Match::Any,
        Some(Spread::RoundRobin),
        &["`p0`", "shared by `hash`", "the same spread"],
    );
    refused(first, Match::Any, Some(Spread::Hash), &["this same pipe"]);
    refused(
        first,
        Match::Vlan { vlan: 9 },
        Some(Spread::Hash),
        &["VLAN 9", "is dropped", "[[steer]]"],
    );
    refused(
        first,
        Match::Vlan { vlan: 4096 },
        Some(Spread::Hash),
        &["4096 is not a VLAN id"],
    );
    app.bind(first, to_port(1));
    let mut refused = |pipe, matches: Match, spread, part: &str| {
        let reason = app.client.refused(&bind(pipe, matches, spread));
        assert!(reason.contains(part), "{reason}");
    };
    refused(
        second,
        to_port(1),
        Some(Spread::Hash),
        "(`test`), which does not share it",
    );
    // None of this counts against the pipe, and the way in is as open as before.
    app.share(second, Match::Any, Spread::Hash);
    app.unbind(first, Match::Any);
    app.unbind(second, Match::Any);
    app.share(first, Match::Any, Spread::RoundRobin);
}

#[test]
fn a_pipe_that_is_refused_on_one_port_moves_no_flow_on_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    let mut app = App::attach(&b.config.socket_path());
    let mut takers: Vec<Taker> = (0..3).map(|_| Taker::new(&mut app, Some("p0"))).collect();
    for taker in &takers {
        app.share(taker.pipe, Match::Any, Spread::Hash);
    }
    let (alone, _alone) = app.rx(Some("p1"));
    app.bind(alone, Match::Any);
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    let mut owners = |app: &mut App| {
        for flow in 0..300 {
            sender.send(pipe, &mut tx, &udp(flow, 7000, 0));
        }
        let mut owners: BTreeMap<u16, usize> = BTreeMap::new();
        eventually("all come", || {
            for (at, taker) in takers.iter_mut().enumerate() {
                taker.take(app, |frame| {
                    owners.insert(read(frame).0, at);
                });
            }
            owners.len() == 300
        });
        owners
    };
    let before = owners(&mut app);
    let (both, _both) = app.rx(None);
    let reason = app
        .client
        .refused(&bind(both, Match::Any, Some(Spread::Hash)));
    assert!(reason.contains("`p1`"), "{reason}");
    assert_eq!(owners(&mut app), before);
}

#[test]
fn a_set_has_a_bounded_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let more = "[dataplane]\nhuge_pages = \"never\"\n";
    let node = Node::new(dir.path(), "a", &["p0"], more).start();
    let mut app = App::attach(&node.config.socket_path());
    let mut small = || {
        let reply = app.client.call(&Request::OpenPipe {
            kind: covalent_api::request::PipeKind::Rx,
            capacity_bytes: 1 << 16,
            port: None,
            completions: None,
        });
        let covalent_api::request::Reply::Pipe { pipe, .. } = reply.0 else {
            panic!("{reply:?}")
        };
        app.client.done(&Request::Mapped);
        pipe
    };
    let pipes: Vec<u32> = (0..=SPREAD_PIPES_MAX).map(|_| small()).collect();
    let (last, members) = pipes.split_last().expect("some");
    for pipe in members {
        app.share(*pipe, Match::Any, Spread::Hash);
    }
    let late = bind(*last, Match::Any, Some(Spread::Hash));
    let reason = app.client.refused(&late);
    assert!(reason.contains("256 pipes, the maximum"), "{reason}");
    app.client.done(&Request::ClosePipe { pipe: members[7] });
    app.client.done(&late);
}

#[test]
fn a_set_is_one_users() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("own directory");
    let mut node = Node::new(dir.path(), "a", &["p0"], "");
    // This process's own group, so that other users in it are admitted.
    let group = nix::unistd::Group::from_gid(nix::unistd::getegid());
    node.config.node.group = group.expect("a group file").expect("a group").name;
    let node = node.start();
    let mut app = App::attach(&node.config.socket_path());
    let (pipe, _rx) = app.rx(None);
    app.share(pipe, Match::Any, Spread::Hash);
    let socket = node.config.socket_path();
    let reason = std::thread::spawn(move || {
        // Of this thread alone; it ends with it.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).expect("root may");
        let mut app = App::attach(&socket);
        let (pipe, _rx) = app.rx(None);
        // It may have a match that is free.
        app.share(pipe, to_port(1), Spread::Hash);
        app.client
            .refused(&bind(pipe, Match::Any, Some(Spread::Hash)))
    })
    .join()
    .expect("the other user ends well");
    assert!(
        reason.contains("pipes of user 0") && reason.contains("only that user's pipes"),
        "{reason}"
    );
}

/// Members come and go under load: no packet is lost or duplicated, and each pipe has its packets
/// in order.
fn members_join_and_leave(a: &Node, b: &Node, port: &'static str, spread: Spread) {
    const FLOWS: u16 = 32;
    let mut apps = [0, 1].map(|_| App::attach(&b.config.socket_path()));
    let mut takers: Vec<(usize, Taker)> = [0, 0, 1, 1, 1]
        .into_iter()
        .map(|of| (of, Taker::new(&mut apps[of], None)))
        .collect();
    apps[0].share(takers[0].1.pipe, Match::Any, spread);
    let before = b.status().ports[0].clone();
    let flows = (0..FLOWS).map(|flow| (flow, 7000)).collect();
    let sender = Sender::start(a.config.socket_path(), port, flows);
    let mut came: BTreeMap<(usize, u16), Vec<u64>> = BTreeMap::new();
    let mut total = 0;
    let mut take = |apps: &mut [App], members: &[bool]| {
        for (at, (of, taker)) in takers.iter_mut().enumerate() {
            let taken = taker.take(&mut apps[*of], |frame| {
                let (flow, _, number) = read(frame);
                came.entry((at, flow)).or_default().push(number);
            });
            assert!(members[at] || taken == 0, "pipe {at} is no member");
            sender.took(taken);
            total += taken;
        }
        total
    };
    // The first member always stays.
    let mut members = [true, false, false, false, false];
    for change in 0..200 {
        let at = 1 + (change * 7 + change / 11) % 4;
        let (of, pipe) = ([0, 0, 1, 1, 1][at], [0, 1, 0, 1, 2][at]);
        if members[at] {
            apps[of].unbind(pipe, Match::Any);
            // Packets from before the reply may be in the pipe.
            take(&mut apps, &members);
            members[at] = false;
        } else {
            apps[of].share(pipe, Match::Any, spread);
            members[at] = true;
        }
        let deadline = Instant::now() + PATIENCE;
        let seen = take(&mut apps, &members);
        while take(&mut apps, &members) < seen + u64::from(FLOWS) {
            assert!(Instant::now() < deadline, "nothing arrives");
        }
    }
    let sent = sender.stop() * u64::from(FLOWS);
    let deadline = Instant::now() + PATIENCE;
    let mut total: u64 = came.values().map(|numbers| numbers.len() as u64).sum();
    while total < sent {
        assert!(Instant::now() < deadline, "{total} of {sent} arrived");
        for (at, (of, taker)) in takers.iter_mut().enumerate() {
            total += taker.take(&mut apps[*of], |frame| {
                let (flow, _, number) = read(frame);
                came.entry((at, flow)).or_default().push(number);
            });
        }
    }
    let mut by_flow: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    for ((at, flow), numbers) in came {
        assert!(
            numbers.windows(2).all(|pair| pair[0] < pair[1]),
            "flow {flow} is out of order in pipe {at}"
        );
        by_flow.entry(flow).or_default().extend(numbers);
    }
    assert_eq!(by_flow.len(), usize::from(FLOWS));
    for (flow, mut numbers) in by_flow {
        numbers.sort_unstable();
        let all = 0..sent / u64::from(FLOWS);
        assert!(numbers.into_iter().eq(all), "flow {flow} lost or doubled");
    }
    let after = b.status().ports[0].clone();
    assert_eq!(after.drops["no_pipe"], before.drops["no_pipe"]);
    assert_eq!(
        after.passed_to_kernel_packets,
        before.passed_to_kernel_packets
    );
}

#[test]
fn members_join_and_leave_under_load_without_loss() {
    let dir = tempfile::tempdir().expect("a directory");
    if !is_root() {
        let (a, b) = pair(dir.path(), &["p0"]);
        members_join_and_leave(&a, &b, "p0", Spread::Hash);
        return members_join_and_leave(&a, &b, "p0", Spread::RoundRobin);
    }
    with_veth(|| {
        let (a, b) = af_xdp::pair(dir.path());
        members_join_and_leave(&a, &b, "x0", Spread::Hash);
        members_join_and_leave(&a, &b, "x0", Spread::RoundRobin);
    });
}

#[test]
fn a_configured_key_changes_the_owners_of_flows() {
    let owners = |rss_key: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        let a = Node::new(dir.path(), "a", &["p0"], "").start();
        let more = format!("[dataplane]\nrss_key = \"{rss_key}\"\nmiss = \"dataplane\"\n");
        let b = Node::new(dir.path(), "b", &["p0"], &more);
        assert_eq!(b.config.dataplane.miss, Action::Dataplane);
        let b = b.start();
        eventually("the link is up", || b.status().links[0].state == "up");
        let mut app = App::attach(&b.config.socket_path());
        let mut takers = [0, 1].map(|_| Taker::new(&mut app, None));
        for taker in &takers {
            app.share(taker.pipe, Match::Any, Spread::Hash);
        }
        let mut sender = App::attach(&a.config.socket_path());
        let (pipe, mut tx) = sender.tx("p0");
        for flow in 0..64 {
            sender.send(pipe, &mut tx, &udp(flow, 7000, 0));
        }
        let mut owners: BTreeMap<u16, usize> = BTreeMap::new();
        eventually("all come", || {
            for (at, taker) in takers.iter_mut().enumerate() {
                taker.take(&mut app, |frame| {
                    owners.insert(read(frame).0, at);
                });
            }
            owners.len() == 64
        });
        owners
    };
    let default = covalent_config::RssKey::MICROSOFT.to_string();
    let first = owners(&default);
    assert_eq!(first, owners(&default), "the same key, the same owners");
    assert_ne!(first, owners(&"6d5a".repeat(20)));
}
