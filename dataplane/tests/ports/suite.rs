//! The guarantees of every port.

use std::{
    os::fd::BorrowedFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use covalent_dataplane::port::{BURST_FRAMES, Burst, Port, PortCounters, TxRefusal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    frames::{Numbers, frame},
    pair::{FramePath, LivePair, PATIENCE, collect, until},
};

/// Frames on their way at a time: fewer than the smallest queue on any way between two ports.
pub const WINDOW: usize = 64;

fn max_of(port: &dyn Port) -> usize {
    port.info().frame_bytes_max as usize
}

/// Shortest frame that arrives with its original length, in bytes. A NIC pads frames that are
/// shorter than the Ethernet minimum (IEEE 802.3, 3.2.8).
fn min_of(port: &dyn Port) -> usize {
    let info = port.info();
    if info.kind == "dpdk" && info.mode.zero_copy {
        60
    } else {
        14
    }
}

fn total(causes: &[(&'static str, u64)]) -> u64 {
    causes.iter().map(|(_, count)| count).sum()
}

fn cause(causes: &[(&'static str, u64)], name: &str) -> u64 {
    causes
        .iter()
        .find(|(cause, _)| *cause == name)
        .unwrap_or_else(|| panic!("no cause `{name}` in {causes:?}"))
        .1
}

/// Frames arrive complete, unchanged, once, and in order.
pub fn order_and_bytes(pair: &mut dyn FramePath, count: usize) {
    let (min, max) = (min_of(pair.near()), max_of(pair.near()).min(4096));
    let mut numbers = Numbers(1);
    let frames: Vec<_> = (0..count as u64)
        .map(|number| frame(number, numbers.between(min, max)))
        .collect();
    let arrived = pair.transfer(&frames, WINDOW);
    assert_eq!(arrived.len(), frames.len(), "frames were lost");
    expect_same(&arrived, &frames);
}

/// Fails unless the frames arrived as sent. Reports the first frame that differs, which may belong
/// to another sender.
fn expect_same(arrived: &[Vec<u8>], sent: &[Vec<u8>]) {
    const HEAD_BYTES: usize = 40;
    for (number, (got, wanted)) in arrived.iter().zip(sent).enumerate() {
        assert!(
            got == wanted,
            "frame {number} of {} ({} arrived): {} bytes sent, {} arrived, which were sent as \
             frame {:?}: {:02x?}",
            sent.len(),
            arrived.len(),
            wanted.len(),
            got.len(),
            sent.iter().position(|one| one == got),
            &got[..got.len().min(HEAD_BYTES)]
        );
    }
    assert_eq!(arrived.len(), sent.len(), "more arrived than was sent");
}

/// Every length from a bare header to the longest frame crosses.
pub fn every_size(pair: &mut dyn FramePath) {
    let (min, max) = (min_of(pair.near()), max_of(pair.near()));
    let sizes: Vec<usize> = (min..=130)
        .chain([255, 256, 257, 511, 512, 513, 1023, 1024, 1025, max - 1, max])
        .filter(|size| *size <= max)
        .collect();
    let frames: Vec<_> = sizes.iter().map(|&size| frame(size as u64, size)).collect();
    let arrived = pair.transfer(&frames, 16);
    let lengths: Vec<_> = arrived.iter().map(Vec::len).collect();
    assert_eq!(lengths, sizes);
    assert!(arrived == frames, "bytes changed on the way");
}

/// Frames that cannot be sent are refused with their cause, counted, and harm nothing.
pub fn refusals(pair: &mut dyn FramePath) {
    let max = max_of(pair.near());
    let port = pair.near();
    assert_eq!(port.tx(&[]), Err(TxRefusal::Runt { len: 0 }));
    assert_eq!(port.tx(&[0; 13]), Err(TxRefusal::Runt { len: 13 }));
    assert_eq!(
        port.tx(&vec![0; max + 1]),
        Err(TxRefusal::TooLong { len: max + 1, max })
    );
    let counters = port.counters();
    assert_eq!(counters.tx_packets, 0);
    assert_eq!(cause(&counters.refusals, "runt"), 2);
    assert_eq!(cause(&counters.refusals, "too_long"), 1);
    let good = vec![frame(7, 64)];
    assert!(pair.transfer(&good, 1) == good);
}

/// A full port reports that it is full instead of losing or overwriting frames. It accepts frames
/// again once they have left.
pub fn back_pressure(pair: &mut LivePair) {
    let space = pair.near.tx_space();
    assert!(space > 0);
    let mut frames = Vec::new();
    loop {
        let next = frame(frames.len() as u64, 60);
        match pair.near.tx(&next) {
            Ok(()) => frames.push(next),
            Err(TxRefusal::Full) => break,
            Err(other) => panic!("expected the port to be full: {other}"),
        }
        assert!(frames.len() < 1 << 20, "the port never fills");
    }
    assert!(
        frames.len() >= space,
        "tx_space promised {space}, tx took {}",
        frames.len()
    );
    assert!(!pair.near.tx_idle());

    let mut arrived = Vec::new();
    until("everything that was taken arrives", || {
        pair.near.flush().unwrap();
        collect(&mut *pair.far, WINDOW, &mut arrived);
        arrived.len() >= frames.len()
    });
    expect_same(&arrived, &frames);
    returns_to_rest(&mut *pair.near, space);
    let second_batch: Vec<_> = (0..200).map(|number| frame(number, 64)).collect();
    assert!(pair.transfer(&second_batch, WINDOW) == second_batch);
}

fn returns_to_rest(port: &mut dyn Port, space: usize) {
    until("the port becomes idle", || {
        port.flush().unwrap();
        let now = port.tx_space();
        port.tx_idle() && now == space
    });
}

/// A million frames later the port has as much space as at first, and every frame is accounted for.
pub fn nothing_leaks(pair: &mut LivePair, count: u64) {
    let space = pair.near.tx_space();
    let wanted = frame(42, 64);
    let (mut sent, mut arrived) = (0_u64, 0_u64);
    let mut last_news = Instant::now();
    while arrived < count {
        let mut news = false;
        while sent < count && sent - arrived < WINDOW as u64 && pair.near.tx(&wanted).is_ok() {
            sent += 1;
            news = true;
        }
        pair.near.flush().unwrap();
        let mut exact = true;
        let seen = pair
            .far
            .receive(WINDOW, |got| exact &= got == wanted)
            .unwrap();
        assert!(exact, "a frame changed after {arrived}");
        arrived += seen as u64;
        if news || seen > 0 {
            last_news = Instant::now();
        }
        assert!(
            last_news.elapsed() < PATIENCE,
            "{sent} sent, {arrived} arrived, then nothing"
        );
    }
    returns_to_rest(&mut *pair.near, space);
    let (near, far) = (pair.near.counters(), pair.far.counters());
    assert_eq!((near.tx_packets, near.tx_bytes), (count, count * 64));
    assert_eq!((far.rx_packets, far.rx_bytes), (count, count * 64));
    assert_eq!(total(&far.drops), 0, "{:?}", far.drops);
}

/// Every frame offered is accepted or refused under a cause. Every frame accepted is received or
/// dropped under a cause.
pub fn counters_conserve(pair: &mut LivePair) {
    let max = max_of(pair.near());
    let mut numbers = Numbers(3);
    let (mut offered, mut offered_bytes) = (0_u64, 0_u64);
    let mut arrived = Vec::new();
    for number in 0..3_000 {
        let len = match numbers.between(0, 9) {
            0 => numbers.between(0, 13),
            1 => max + numbers.between(1, 100),
            _ => numbers.between(14, max.min(2_000)),
        };
        let bytes = if len < 14 {
            vec![0; len]
        } else {
            frame(number, len)
        };
        if pair.near.tx(&bytes).is_ok() {
            offered_bytes += len as u64;
        }
        offered += 1;
        if number % 32 == 31 {
            pair.near.flush().unwrap();
            collect(&mut *pair.far, WINDOW, &mut arrived);
        }
    }
    let taken = pair.near.counters();
    assert_eq!(
        taken.tx_packets + total(&taken.refusals),
        offered,
        "{taken:?}"
    );
    assert_eq!(taken.tx_bytes, offered_bytes);
    until(
        "everything taken is received or dropped under a cause",
        || {
            pair.near.flush().unwrap();
            collect(&mut *pair.far, WINDOW, &mut arrived);
            let counters = pair.far.counters();
            counters.rx_packets + total(&counters.drops) >= taken.tx_packets
        },
    );
    let PortCounters {
        rx_packets,
        rx_bytes,
        drops,
        ..
    } = pair.far.counters();
    assert_eq!(rx_packets + total(&drops), taken.tx_packets, "{drops:?}");
    assert_eq!(rx_packets, arrived.len() as u64);
    assert_eq!(
        rx_bytes,
        arrived.iter().map(|frame| frame.len() as u64).sum::<u64>()
    );
}

/// A disabled port has no carrier and carries nothing in either direction. Enabled again, it works
/// as before.
pub fn disabling(pair: &mut LivePair) {
    let good: Vec<_> = (0..10).map(|number| frame(number, 64)).collect();
    assert!(pair.near.carrier());
    pair.near.set_enabled(false).unwrap();
    assert!(!pair.near.carrier());
    assert_eq!(pair.near.tx(&good[0]), Err(TxRefusal::Down));
    assert_eq!(pair.near.tx_space(), 0);
    assert_eq!(cause(&pair.near.counters().refusals, "down"), 1);
    pair.near.set_enabled(true).unwrap();
    pair.wait_for_carrier();
    assert!(pair.transfer(&good, 1) == good);

    pair.far.set_enabled(false).unwrap();
    assert!(!pair.far.carrier());
    for frame in &good {
        // A port that learns of the other end's state refuses the frame. Another port sends it to
        // no receiver. Both are correct.
        let _ = pair.near.tx(frame);
    }
    let _ = pair.near.flush();
    let mut arrived = Vec::new();
    for _ in 0..20 {
        collect(&mut *pair.far, WINDOW, &mut arrived);
        thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(
        arrived.is_empty(),
        "a disabled port received {} frames",
        arrived.len()
    );
    pair.far.set_enabled(true).unwrap();
    pair.wait_for_carrier();
    assert!(pair.transfer(&good, 1) == good);
}

/// Each arrival wakes a lane that announced its sleep. Both ends sleep whenever they find nothing.
pub fn no_lost_wake_up(pair: LivePair, rounds: u64) {
    let LivePair { mut near, mut far } = pair;
    // No shorter than Ethernet's shortest, to which a NIC pads.
    let min = min_of(&*near).max(60);
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                let Some(got) = sleep_until_frame(&mut *far, &failed) else {
                    return;
                };
                far.tx(&got).unwrap();
                far.flush().unwrap();
            }
        });
        let mut numbers = Numbers(5);
        for round in 0..rounds {
            let echoed = frame(round, numbers.between(min, 128));
            near.tx(&echoed).unwrap();
            near.flush().unwrap();
            // Sometimes the reply is there before the sleep, and sometimes it arrives while the
            // lane falls asleep.
            for _ in 0..numbers.between(0, 3_000) {
                std::hint::spin_loop();
            }
            match sleep_until_frame(&mut *near, &failed) {
                Some(got) => assert!(got == echoed, "round {round}"),
                None => break,
            }
        }
    });
    assert!(!failed.load(Ordering::Relaxed), "a wake-up was lost");
}

/// Receives one frame, asleep whenever there is none. Returns `None` if a wake-up was lost here or
/// elsewhere.
fn sleep_until_frame(port: &mut dyn Port, failed: &AtomicBool) -> Option<Vec<u8>> {
    let mut got = None;
    let arrived = sleep_while(port, |port| {
        let _ = port.flush();
        port.receive(1, |frame| got = Some(frame.to_vec())).unwrap() == 0
            && !failed.load(Ordering::Relaxed)
    });
    if !arrived {
        failed.store(true, Ordering::Relaxed);
    }
    got
}

/// Sleeps as a lane does until `done` holds; no wake-up may be lost.
pub fn sleep_until(port: &mut dyn Port, mut done: impl FnMut(&mut dyn Port) -> bool) {
    assert!(sleep_while(port, |port| !done(port)), "a wake-up was lost");
}

/// Returns `false` when a sleep lasted so long that its wake-up must be lost.
fn sleep_while(port: &mut dyn Port, mut idle: impl FnMut(&mut dyn Port) -> bool) -> bool {
    while idle(port) {
        let mut woken = 1;
        if port.prepare_sleep() {
            let raw = port.wait_fds();
            let mut waits: Vec<_> = raw
                .iter()
                // SAFETY: the port keeps its descriptors open while it is borrowed here.
                .map(|&fd| PollFd::new(unsafe { BorrowedFd::borrow_raw(fd) }, PollFlags::POLLIN))
                .collect();
            woken = poll(&mut waits, PollTimeout::from(5_000_u16)).unwrap();
        }
        port.finish_sleep();
        if woken == 0 {
            return false;
        }
    }
    true
}

/// With frames waiting, a port does not agree to sleep.
pub fn work_forbids_sleep(pair: &mut LivePair) {
    pair.near.tx(&frame(1, 64)).unwrap();
    pair.near.flush().unwrap();
    until("the far end sees the frame and refuses to sleep", || {
        let sleeps = pair.far.prepare_sleep();
        pair.far.finish_sleep();
        !sleeps
    });
    let mut arrived = Vec::new();
    until("the frame arrives", || {
        collect(&mut *pair.far, 8, &mut arrived) > 0
    });
    assert!(arrived == [frame(1, 64)]);
}

/// The frames of a burst stay as they are while others arrive. A burst that is not released ends
/// at the next one, and leaks nothing.
pub fn a_burst_stays_until_the_next(pair: &mut LivePair) {
    const COUNT: u64 = 5_000;
    let LivePair { near, far } = pair;
    let (mut sent, mut arrived) = (0, 0);
    let mut last_news = Instant::now();
    while arrived < COUNT {
        let mut burst = Burst::new();
        let count = far.rx_burst(BURST_FRAMES, &mut burst).unwrap();
        assert_eq!(burst.frames().len(), count);
        while sent < COUNT && sent - arrived < WINDOW as u64 && near.tx(&frame(sent, 64)).is_ok() {
            sent += 1;
            last_news = Instant::now();
        }
        near.flush().unwrap();
        for got in burst.frames() {
            assert!(*got == frame(arrived, 64), "frame {arrived} changed");
            arrived += 1;
        }
        assert!(
            last_news.elapsed() < PATIENCE,
            "{sent} sent, {arrived} arrived, then nothing"
        );
    }
}

/// A port without a carrier refuses every frame under its proper cause, counts it, and has no
/// transmit space.
pub fn refuses_while_down(port: &mut dyn Port) {
    let max = max_of(port);
    assert!(!port.carrier());
    assert_eq!(port.tx_space(), 0);
    assert_eq!(port.tx(&[0; 13]), Err(TxRefusal::Runt { len: 13 }));
    assert_eq!(
        port.tx(&vec![0; max + 1]),
        Err(TxRefusal::TooLong { len: max + 1, max })
    );
    assert_eq!(port.tx(&frame(7, 64)), Err(TxRefusal::Down));
    let counters = port.counters();
    assert_eq!((counters.tx_packets, total(&counters.refusals)), (0, 3));
    for refusal in ["runt", "too_long", "down"] {
        assert_eq!(cause(&counters.refusals, refusal), 1, "{refusal}");
    }
}
