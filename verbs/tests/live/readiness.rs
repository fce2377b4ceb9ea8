//! Event loops of the application: one descriptor for everything, no lost wake-up, no spinning.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use covalent::{Completion, Device, Error, Match, Mode, Rights, RxPipe, Target, Timeout, Verb};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::nodes::{Nodes, PATIENCE, soon};

const PIPE_BYTES: u64 = 1 << 16;
const TYPE: Match = Match::EtherType { ethertype: 0x88b6 };

fn frame(number: u32) -> [u8; 100] {
    let mut frame = [0; 100];
    frame[12..14].copy_from_slice(&0x88b6_u16.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Sleeps until the device's descriptor is readable; `false` after `patience`.
fn sleep(device: &Device, patience: Duration) -> bool {
    let patience_ms = PollTimeout::try_from(patience).unwrap();
    let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, patience_ms).unwrap() > 0
}

fn received(pipe: &mut RxPipe<'_>) -> usize {
    let mut received = 0;
    while let Some(batch) = pipe.try_recv().unwrap() {
        received += batch.iter().count();
    }
    received
}

/// Frames, completions and messages arrive by one descriptor, each after a pause in which the loop
/// falls asleep. A loop that lost a wake-up would stand still; one that spins would count millions.
#[test]
fn one_descriptor_wakes_for_frames_completions_and_messages() {
    const EACH: usize = 100;
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&TYPE).unwrap();
    let mut queue = device.receive_queue("news", PIPE_BYTES).unwrap();
    let mut verbs = device.verbs().unwrap();
    let remote = verbs
        .open_region(Target::Name("b"), "words", Timeout::FOREVER)
        .unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let peer = nodes.attach("b");
            let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
            let mut verbs = peer.verbs().unwrap();
            let news = verbs
                .open_region(Target::Name("a"), "news", Timeout::FOREVER)
                .unwrap();
            for number in 0..EACH {
                out.send(&frame(number as u32), soon()).unwrap();
                thread::sleep(Duration::from_micros(300));
                verbs.send(&news, b"news", soon()).unwrap();
                thread::sleep(Duration::from_micros(300));
            }
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let add = Verb::FetchAdd {
            offset_bytes: 0,
            delta: 1,
        };
        let (mut frames, mut messages, mut completed, mut posted) = (0, 0, 0, 0);
        let mut completions = vec![Completion::default(); 16];
        let mut turns = 0;
        while (frames, messages, completed) != (EACH, EACH, EACH) {
            device.arm().unwrap();
            frames += received(&mut pipe);
            while let Some(message) = queue.try_recv().unwrap() {
                assert_eq!(message.data, b"news");
                messages += 1;
            }
            loop {
                // One at a time: each completion must end a sleep.
                if posted == completed && posted < EACH {
                    verbs.post(&remote, add, Mode::TwoPhase, 0).unwrap();
                    posted += 1;
                }
                match verbs.try_poll(&mut completions).unwrap() {
                    0 => break,
                    taken => completed += taken,
                }
            }
            turns += 1;
            if (frames, messages, completed) != (EACH, EACH, EACH) {
                let woken = sleep(&device, PATIENCE);
                assert!(
                    woken,
                    "{frames} frames, {messages}, {completed} of {posted}"
                );
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert!(turns <= 10 * EACH, "{turns} turns");
    });
    assert_eq!(words.load(0).unwrap(), EACH as u64);
}

#[test]
fn nothing_wakes_an_idle_loop() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&TYPE).unwrap();
    let mut verbs = device.verbs().unwrap();
    device.arm().unwrap();
    assert_eq!(received(&mut pipe), 0);
    assert_eq!(verbs.try_poll(&mut [Completion::default()]).unwrap(), 0);
    assert!(!sleep(&device, Duration::from_millis(200)));
}

/// The wake-up stays until the next `arm`, however late the loop sleeps.
#[test]
fn news_before_the_sleep_ends_it_at_once() {
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&TYPE).unwrap();
    let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
    for number in 0..3 {
        device.arm().unwrap();
        assert_eq!(received(&mut pipe), 0);
        out.try_send(&frame(number)).unwrap();
        out.flush(soon()).unwrap();
        assert!(sleep(&device, PATIENCE));
        while received(&mut pipe) == 0 {
            assert!(sleep(&device, PATIENCE));
        }
    }
}

#[test]
fn a_full_pipe_wakes_the_loop_when_there_is_room() {
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (nodes.attach("a"), nodes.attach("b"));
    let mut sink = peer.rx_pipe(1 << 20).unwrap();
    sink.bind(&TYPE).unwrap();
    let mut out = device.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let (mut sent, mut full) = (0, 0);
    let until = Instant::now() + PATIENCE;
    while full < 3 {
        assert!(Instant::now() < until, "{sent} frames were never too many");
        device.arm().unwrap();
        loop {
            match out.push(&frame(sent)) {
                Ok(()) => sent += 1,
                Err(Error::PipeFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        full += 1;
        assert!(sleep(&device, PATIENCE), "after {sent} frames");
        received(&mut sink);
    }
}

#[test]
fn a_call_that_waits_leaves_the_descriptor_readable() {
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&TYPE).unwrap();
    let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
    device.arm().unwrap();
    let soon_over = Instant::now() + Duration::from_millis(5);
    let waited = pipe.recv(soon_over).map(|_| ());
    assert!(matches!(waited, Err(Error::Deadline { .. })));
    assert!(sleep(&device, PATIENCE));
    device.arm().unwrap();
    assert_eq!(received(&mut pipe), 0);
    assert!(!sleep(&device, Duration::from_millis(20)));
    out.try_send(&frame(0)).unwrap();
    assert!(sleep(&device, PATIENCE));
}

#[test]
fn the_end_of_the_daemon_wakes_the_loop() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    device.arm().unwrap();
    assert!(pipe.try_recv().unwrap().is_none());
    nodes.stop("a");
    assert!(sleep(&device, PATIENCE));
    assert!(matches!(device.arm(), Err(Error::DaemonGone { .. })));
}

#[test]
fn a_loop_goes_on_with_the_next_daemon() {
    let mut nodes = Nodes::start(&["p0"]);
    let (device, peer) = (nodes.attach("a"), nodes.attach("b"));
    device.set_reconnect(Some(PATIENCE));
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&TYPE).unwrap();
    let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
    device.arm().unwrap();
    assert_eq!(received(&mut pipe), 0);
    nodes.stop("a");
    nodes.respawn("a");
    let until = soon();
    let mut number = 0;
    loop {
        assert!(Instant::now() < until, "no frame of {number} arrived");
        device.arm().unwrap();
        if received(&mut pipe) > 0 {
            break;
        }
        // Frames before the new pipe is bound are lost, so another one follows.
        if !sleep(&device, Duration::from_millis(20)) {
            out.try_send(&frame(number)).unwrap();
            number += 1;
        }
    }
    device.arm().unwrap();
    received(&mut pipe);
    out.try_send(&frame(number)).unwrap();
    assert!(sleep(&device, PATIENCE));
}
