//! Control and the dataplane are killed in the middle of reloads, and then agree on a configuration
//! again.
//!
//! Each test lasts some seconds with a fixed seed, or `SOAK_SECONDS` with a new one, which it
//! prints. `COVALENT_SEED` sets the seed.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    agreement::HeldBrief,
    control::{ControlReply, ControlRequest},
};
use covalent_config::Config;
use covalent_protocol::{Mode, agreement::digest, verb::Verb};

use super::{
    agreement::{text, wish},
    client::{App, Client, Verbs},
    command,
    control::{Control, program, write},
    live_ports::{Stream, await_link, cable, link, replaced, without},
    node::{Node, eventually},
    noise::Noise,
    seeds::{lasts, seed},
};

const USUAL: Duration = Duration::from_secs(2);

/// How much longer it may take until reloads ended both ways.
const SEEN_AT_LATEST: Duration = Duration::from_secs(60);

/// Where a kill comes in the middle of a reload, on a machine that is quick and on one that is not.
const MOMENTS_US: u64 = 40_000;

fn digest_of(config: &Config) -> u64 {
    digest(text(config).as_bytes())
}

/// Returns two nodes on the cable `p0`, neither of which runs, and the file of the first.
fn nodes(dir: &Path) -> (Node, Node, PathBuf) {
    // Long timeouts, because other processes may use the cores: this tests for loss, not for time.
    let node = |name| {
        let mut node = Node::new(dir, name, &["p0"], "idle_tick_ms = 50\n");
        node.config.control.metrics_listen = ([127, 0, 0, 1], 0).into();
        node
    };
    let (a, b) = (node("a"), node("b"));
    let file = dir.join("a.toml");
    write(&file, &a.config);
    (a, b, file)
}

/// Something else than `config`.
fn edited(config: &Config, dir: &Path, noise: &mut Noise) -> Config {
    let mut wanted = config.clone();
    wanted.dataplane.spin_us = 1 + (config.dataplane.spin_us + noise.below(90) as u32) % 99;
    let has_more = config.port.iter().any(|port| port.name == "p1");
    match (noise.below(3), has_more) {
        (0, true) => without(&wanted, "p1"),
        (0, false) => replaced(&wanted, cable(dir, "p1")),
        _ => wanted,
    }
}

/// Requests a reload of the file from a thread that may get no reply.
fn reload(control: &Control) -> thread::JoinHandle<Option<ControlReply>> {
    let control_client = control.control_client();
    thread::spawn(move || control_client.call(&ControlRequest::Reload))
}

fn held_by_the_daemon(node: &Node) -> HeldBrief {
    let mut client = node.client();
    let mut held = None;
    eventually("nothing is in flight", || {
        let config = client.status().config;
        held = config.under_way.is_none().then_some(config.held);
        held.is_some()
    });
    held.expect("it was reported")
}

#[test]
fn control_is_killed_at_any_moment_of_a_reload_and_nothing_is_lost() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (mut a, b, file) = nodes(dir.path());
    let lane = a.config.lane[0].clone();
    a.config.lane.push(lane);
    write(&file, &a.config);
    let (a, b) = (a.start(), b.start());
    let epoch = await_link(&mut a.client(), "p0");
    await_link(&mut b.client(), "p0");
    let stream = Stream::start(&a, &b);
    let mut noise = Noise::new(seed());
    let mut control = Control::start(&program, &file);
    let (mut held, mut in_force) = (control.await_agreed(), a.config.clone());
    let (mut taken, mut not_taken) = (0_u32, 0_u32);
    let end = Instant::now() + lasts(USUAL);
    while Instant::now() < end
        || ((taken == 0 || not_taken == 0) && Instant::now() < end + SEEN_AT_LATEST)
    {
        let wanted = edited(&in_force, dir.path(), &mut noise);
        write(&file, &wanted);
        let control_client = reload(&control);
        thread::sleep(Duration::from_micros(noise.below(MOMENTS_US)));
        drop(control);
        let reply = control_client.join().expect("the asker ends well");
        control = Control::start(&program, &file);
        let adopted = control.await_agreed();
        assert_eq!(adopted, held_by_the_daemon(&a), "adopted");
        if adopted == held {
            not_taken += 1;
            let reloaded = matches!(reply, Some(ControlReply::Reloaded { .. }));
            assert!(!reloaded, "a reported reload is in force: {reply:?}");
        } else {
            // One exchange: the next epoch, and the whole file.
            let expected = (held.incarnation, held.epoch + 1, digest_of(&wanted));
            let found = (adopted.incarnation, adopted.epoch, adopted.digest.0);
            assert_eq!(found, expected);
            (held, in_force) = (adopted, wanted);
            taken += 1;
        }
    }
    eprintln!("{taken} reloads taken and {not_taken} not, of which control was killed");
    assert!(taken > 0 && not_taken > 0, "{taken} and {not_taken}");
    // No frame was lost, and the link noticed nothing.
    assert!(stream.end() > 0);
    let status = a.status();
    let p0 = link(&status, "p0").expect("it is there");
    assert_eq!((p0.epoch, p0.ups), (epoch, 1));
    // Every lane is in that epoch: the lanes report it in their next reply.
    drop(control);
    let verdict = wish(
        &mut a.client(),
        &text(&edited(&in_force, dir.path(), &mut noise)),
    );
    assert_eq!(verdict.refused, None, "{verdict:?}");
    let lanes: Vec<_> = verdict.lanes.iter().map(|it| (it.lane, it.epoch)).collect();
    assert_eq!(lanes, [(0, held.epoch + 1), (1, held.epoch + 1)]);
}

#[test]
fn a_graceful_restart_of_control_does_not_affect_the_dataplane() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b, file) = nodes(dir.path());
    let (a, b) = (a.start(), b.start());
    let epochs = [&a, &b].map(|node| await_link(&mut node.client(), "p0"));
    let stream = Stream::start(&a, &b);
    let mut app = App::attach(&b.config.socket_path());
    let (rkey, memory) = app.register("counter", 4096);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut added = 0;
    for _ in 0..5 {
        let control = Control::start(&program, &file);
        control.await_agreed();
        for _ in 0..50 {
            let old = verbs.run(
                b.guid(),
                Mode::TwoPhase,
                rkey,
                0,
                Verb::FetchAdd { delta: 1 },
            );
            assert_eq!(old.word(), added);
            added += 1;
        }
        assert!(control.stop(), "it shuts down gracefully");
    }
    assert_eq!(memory.load(0), Some(added));
    assert!(stream.end() > 0);
    for (node, epoch) in [&a, &b].into_iter().zip(epochs) {
        let status = node.status();
        let p0 = link(&status, "p0").expect("it is there");
        assert_eq!((p0.epoch, p0.ups), (epoch, 1));
    }
}

#[test]
fn a_killed_dataplane_gets_the_agreed_configuration_not_the_file() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b, file) = nodes(dir.path());
    let path = file.to_str().expect("text").to_owned();
    let start = || {
        let daemon = command::start(&["--config", &path]);
        eventually("the program answers", || {
            covalent_ipc::seqpacket::Connection::connect(&a.config.socket_path()).is_ok()
        });
        daemon
    };
    let mut daemon = start();
    let _b = b.start();
    let mut noise = Noise::new(seed());
    let control = Control::start(&program, &file);
    control.await_agreed();
    let mut in_force = a.config.clone();
    let (mut kills, mut reinstated) = (0_u32, 0_u32);
    let end = Instant::now() + lasts(USUAL);
    while Instant::now() < end || reinstated < 2 {
        // The nodes agree on it, and then the file changes again.
        let wanted = edited(&in_force, dir.path(), &mut noise);
        let other = edited(&wanted, dir.path(), &mut noise);
        write(&file, &wanted);
        let control_client = reload(&control);
        if noise.below(2) == 0 {
            // In the middle.
            thread::sleep(Duration::from_micros(noise.below(MOMENTS_US)));
            daemon.kill();
            kills += 1;
            write(&file, &other);
            daemon = start();
        }
        let reply = control_client.join().expect("the asker ends well");
        let agreed = match reply {
            Some(ControlReply::Reloaded { .. }) => wanted,
            Some(ControlReply::NotReloaded { .. }) => in_force,
            other => panic!("{other:?}"),
        };
        let before = await_digest(&control, &agreed);
        write(&file, &other);
        daemon.kill();
        kills += 1;
        daemon = start();
        let after = await_digest(&control, &agreed);
        assert!(after.epoch > before.epoch && after.incarnation != before.incarnation);
        assert_eq!(held_by_the_daemon(&a), after);
        reinstated += 1;
        let mut client = Client::connect(&a.config.socket_path());
        await_link(&mut client, "p0");
        let ports: Vec<_> = client
            .status()
            .ports
            .into_iter()
            .map(|it| it.name)
            .collect();
        let expected: Vec<_> = agreed.port.iter().map(|port| port.name.clone()).collect();
        assert_eq!(ports, expected);
        in_force = agreed;
    }
    eprintln!("{kills} kills, {reinstated} of them while all was agreed");
}

/// Waits until control and a daemon hold that configuration.
fn await_digest(control: &Control, config: &Config) -> HeldBrief {
    let wanted = digest_of(config);
    let mut held = None;
    eventually("the agreed configuration is in force", || {
        held = control.agreed().filter(|held| held.digest.0 == wanted);
        held.is_some()
    });
    held.expect("it was reported")
}
