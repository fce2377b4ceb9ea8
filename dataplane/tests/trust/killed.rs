//! Applications that are killed at any moment leave nothing behind.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    request::{PipeKind, Reply, Request},
    rule::{Match, Spread},
    status::NodeStatus,
};
use covalent_protocol::{Mode, verb::Verb};

use super::{
    child::{Application, orders, report},
    client::{App, CAPACITY_BYTES, Client, Verbs},
    holdings::Holdings,
    honest::BAIT,
    namespace::with_veth,
    node::{self, MEMORY_MAX_MIB, Node, PATIENCE, eventually, pair_on_a_cable, pair_on_af_xdp},
    noise::Noise,
    seeds::Seeds,
    turn,
    witness::{Detached, Witness},
};

/// A sufficient number: far fewer kills find each kind of leftover. `SOAK_SECONDS` repeats them.
const KILLS: u64 = 240;
/// Maximum time for them on a busy machine: many times what they take on an idle one.
const KILLS_TIME_MAX: Duration = Duration::from_secs(120);
/// One in this many children is killed while it holds some of everything. On a busy machine the
/// others die before they hold much.
const KILLS_PER_HOLDER: u64 = 8;
/// Children at once.
const AT_ONCE: u64 = 2;
/// Maximum lifetime.
const INCARNATION_US_MAX: u64 = 40_000;
/// Matches that they fight for.
const MATCHES: u16 = 64;

/// Attaches and performs application operations in random order, forever.
#[test]
#[ignore = "the body of a child process"]
fn child() {
    let Some((socket, argument)) = orders() else {
        return;
    };
    let mut noise = Noise::new(argument.parse().expect("a seed"));
    report("ready");
    let mut app = App::attach(&socket);
    let peer = app.client.status().links[0]
        .peer
        .map_or(0, |peer| peer.bits());
    let (tx_pipe, mut tx) = app.tx("p0");
    let (rx_pipe, mut rx) = app.rx(None);
    let mut regions = 0;
    let mut pipes = vec![rx_pipe];
    let mut verbs = Verbs::new(app);
    let mut number = 0;
    loop {
        let app = &mut verbs.app;
        match noise.below(8) {
            0 => {
                let kind = [
                    PipeKind::Rx,
                    PipeKind::Tx,
                    PipeKind::RxTx,
                    PipeKind::RxBytes,
                ][noise.below(4) as usize];
                let (reply, _) = app.client.call(&Request::OpenPipe {
                    kind,
                    capacity_bytes: CAPACITY_BYTES / 16,
                    port: Some("p0".to_owned()),
                    completions: None,
                });
                if let Reply::Pipe { pipe, .. } = reply
                    && noise.below(4) > 0
                {
                    app.client.done(&Request::Mapped);
                    pipes.push(pipe);
                }
            }
            1 if pipes.len() > 1 => {
                app.client.call(&Request::ClosePipe {
                    pipe: pipes.swap_remove(1),
                });
            }
            2 => {
                // Some are another's already, and some pipes only send.
                app.client.call(&Request::Bind {
                    pipe: pipes[noise.below(pipes.len() as u64) as usize],
                    matches: match_of(noise.below(MATCHES.into()) as u16),
                    spread: [None, Some(Spread::Hash), Some(Spread::RoundRobin)]
                        [noise.below(3) as usize],
                });
            }
            3 => {
                app.client.call(&Request::Unbind {
                    pipe: pipes[noise.below(pipes.len() as u64) as usize],
                    matches: match_of(noise.below(MATCHES.into()) as u16),
                });
            }
            4 if regions < 8 => {
                app.register(&format!("{}-{regions}", std::process::id()), 4096);
                regions += 1;
            }
            5 => {
                for _ in 0..noise.below(50) {
                    let mut frame = vec![0; 60 + noise.below(1400) as usize];
                    frame[12..14].copy_from_slice(&BAIT.to_be_bytes());
                    let _ = tx.send(&frame);
                }
                if tx.publish() {
                    app.ring(tx_pipe);
                }
            }
            6 => {
                let target = if noise.below(2) == 0 { peer } else { 0 };
                for _ in 0..noise.below(50) {
                    number += 1;
                    let verb = Verb::FetchAdd { delta: 1 };
                    verbs.post(target, Mode::TwoPhase, number, 1, 0, verb);
                }
            }
            _ => {
                verbs.poll();
                if let Some(batch) = rx.recv() {
                    batch.free_all();
                }
            }
        }
    }
}

/// Attaches, takes some of everything, reports it, and keeps verbs in flight forever.
#[test]
#[ignore = "the body of a child process"]
fn holder() {
    let Some((socket, _)) = orders() else { return };
    report("ready");
    let mut app = App::attach(&socket);
    let peer = app.client.status().links[0]
        .peer
        .map_or(0, |peer| peer.bits());
    let (pipe, _rx) = app.rx(None);
    // Shared, because some of these children exist at a time. No other child needs it.
    app.share(pipe, match_of(MATCHES), Spread::Hash);
    app.register(&format!("{}", std::process::id()), 4096);
    let mut verbs = Verbs::new(app);
    for number in 0.. {
        while verbs.post(
            peer,
            Mode::TwoPhase,
            number,
            1,
            0,
            Verb::FetchAdd { delta: 1 },
        ) {}
        if number == 0 {
            report("it holds some of everything");
        }
        verbs.poll();
    }
}

/// One of many bindings, which any child may hold.
fn match_of(number: u16) -> Match {
    match number % 3 {
        0 => Match::EtherType {
            ethertype: BAIT + number,
        },
        1 => Match::Port {
            transport: covalent_api::rule::Transport::Udp,
            dst_port: number,
        },
        _ => Match::Prefix {
            dst: format!("10.0.{number}.0/24").parse().expect("a prefix"),
        },
    }
}

/// Kills as many children of `node` as is enough, at random moments.
fn kill_repeatedly(node: &Node, seeds: &mut Seeds) {
    let (kills, deadline) = (AtomicU64::new(0), Instant::now() + KILLS_TIME_MAX);
    let seed = seeds.draw();
    thread::scope(|scope| {
        for killer in 0..AT_ONCE {
            let kills = &kills;
            scope.spawn(move || {
                let mut noise = Noise::new(seed.wrapping_add(killer * 2));
                loop {
                    let number = kills.fetch_add(1, Ordering::Relaxed);
                    if number >= KILLS {
                        break;
                    }
                    assert!(Instant::now() < deadline, "{KILLS} kills take too long");
                    let holds = number % KILLS_PER_HOLDER == 0;
                    let role = ["killed::child", "killed::holder"][usize::from(holds)];
                    let seed = noise.next().to_string();
                    let mut child = Application::start_unprivileged(role, node.socket(), &seed);
                    child.next_report().expect("it is about to attach");
                    if holds {
                        child.next_report().expect("it holds some of everything");
                    }
                    // Many of them in the midst of attaching.
                    let most = [1000, 6000, INCARNATION_US_MAX][noise.below(3) as usize];
                    thread::sleep(Duration::from_micros(noise.below(most)));
                    child.kill();
                }
            });
        }
    });
}

/// Takes as much as one user may have over all sessions. It fails if anything is still charged.
#[test]
#[ignore = "the body of a child process"]
fn fill_quota() {
    let Some((socket, _)) = orders() else { return };
    let apps: Vec<App> = (0..8)
        .map(|number| {
            let mut app = App::attach(&socket);
            app.register(&format!("all-{number}"), MEMORY_MAX_MIB << 20);
            app
        })
        .collect();
    let connections: Vec<Client> = (0..50).map(|_| Client::connect(&socket)).collect();
    report(&format!(
        "{} sessions, {} connections",
        apps.len(),
        connections.len()
    ));
}

/// Returns the daemon's counts of sessions that ended with their process.
fn reclaimed(status: &NodeStatus) -> [u64; 5] {
    let reclaimed = &status.reclaimed;
    [
        &status.sessions_detached,
        &reclaimed.pipes,
        &reclaimed.bindings,
        &reclaimed.regions,
        &reclaimed.verbs,
    ]
    .map(|causes| causes["process_ended"])
}

fn kill_and_check(mut a: Node, seeds: &mut Seeds) {
    // The first children initialize everything that stays.
    for _ in 0..4 {
        let mut child = Application::start_unprivileged("killed::child", a.socket(), "1");
        child.next_report().expect("it is about to attach");
        thread::sleep(Duration::from_millis(50));
        child.kill();
    }
    let status_before = a.status_at_rest();
    let witness = Witness::start(&a);
    let before = Holdings::of(a.pid());
    let begun = Instant::now();
    let mut kills = 0;
    while kills == 0 || !seeds.is_over() {
        kill_repeatedly(&a, seeds);
        kills += KILLS;
    }
    let took = begun.elapsed();
    let status = a.status_at_rest();
    let deadline = Instant::now() + PATIENCE;
    let after = loop {
        let after = Holdings::of(a.pid());
        if after.is_no_more_than(before) {
            break after;
        }
        assert!(Instant::now() < deadline, "{before:?} became {after:?}");
        thread::sleep(Duration::from_millis(10));
    };
    // Names, matches, memory and places are there for the next ones.
    let mut app = App::attach(&a.socket());
    let (pipe, _rx) = app.rx(None);
    for number in 0..=MATCHES {
        app.bind(pipe, match_of(number));
    }
    drop(app);
    a.disable_port();
    let witnessed = witness.detached();
    let filled = Application::start_unprivileged("killed::fill_quota", a.socket(), "").stop();

    a.check_alive();
    let counted = reclaimed(&status);
    let [sessions, pipes, bindings, regions, verbs] =
        std::array::from_fn(|at| counted[at] - reclaimed(&status_before)[at]);
    eprintln!(
        "{kills} kills in {took:.1?}: {sessions} sessions ended by death, {pipes} pipes, \
         {bindings} bindings, {regions} regions and {verbs} verbs in flight reclaimed; {before:?} \
         became {after:?}; then one user took {}",
        filled.expect("the quota was filled"),
    );
    assert!(
        (status.pipes.len(), status.regions.len()) == (0, 0),
        "{status:?}"
    );
    for cause in ["closed", "violation"] {
        assert_eq!(
            status.sessions_detached[cause], status_before.sessions_detached[cause],
            "a death that was taken for `{cause}`"
        );
    }
    let witnessed: Vec<Detached> = witnessed
        .into_iter()
        .filter(|end| end.reason == "process ended")
        .collect();
    let sum = |count: fn(&Detached) -> u32| witnessed.iter().map(|end| u64::from(count(end))).sum();
    assert_eq!(
        [sessions, pipes, regions],
        [
            witnessed.len() as u64,
            sum(|end| end.pipes),
            sum(|end| end.regions)
        ],
        "status and events report the same"
    );
    let holders = kills / KILLS_PER_HOLDER;
    assert!(
        // Besides these, most children die before their first turn on a busy machine.
        [sessions, bindings, regions, verbs]
            .iter()
            .all(|&count| count >= holders)
            && pipes >= 3 * holders,
        "less was taken back than {holders} held"
    );
    eventually("verbs of the dead are accounted for", || {
        let status = a.status();
        let open: u32 = status.links.iter().map(|link| link.open_transactions).sum();
        status.verbs.submitted == status.verbs.completed && open == 0
    });
}

#[test]
fn killed_applications_leave_nothing_behind() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    kill_and_check(a, &mut Seeds::for_about(Duration::ZERO));
}

#[test]
fn killed_applications_leave_nothing_behind_on_af_xdp() {
    let _turn = turn::take();
    with_veth(|| {
        let dir = node::place();
        let (a, _b) = pair_on_af_xdp(dir.path());
        kill_and_check(a, &mut Seeds::for_about(Duration::ZERO));
    });
}
