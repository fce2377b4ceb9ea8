//! The suite on the cable, and guarantees that only a cable makes: its peer is met, lost and met
//! again.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use covalent_config::{FaultsConfig, PortConfig, PortKind};
use covalent_dataplane::port::{LaneMemory, Port, PortError, TxRefusal, open};
use covalent_ipc::seqpacket::{Connection, Listener};
use covalent_pipe::cable::CableEnd;
use tempfile::TempDir;

use crate::{
    frames::frame,
    pair::{FramePath, LivePair, collect, until},
    suite,
};

const RING_SLOTS: u32 = 256;

fn end(path: &Path, faults: Option<FaultsConfig>) -> Result<Box<dyn Port>, PortError> {
    let config = PortConfig {
        name: "cable".to_owned(),
        lane: 0,
        link: true,
        kind: PortKind::Cable {
            path: path.to_owned(),
            ring_slots: RING_SLOTS,
        },
        faults,
    };
    open(
        &config,
        &Default::default(),
        &Default::default(),
        &mut LaneMemory::default(),
    )
}

pub struct Place {
    path: PathBuf,
    _directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = TempDir::new().unwrap();
        Self {
            path: directory.path().join("cable.sock"),
            _directory: directory,
        }
    }

    fn end(&self) -> Box<dyn Port> {
        self.damaged_end(None)
    }

    fn damaged_end(&self, faults: Option<FaultsConfig>) -> Box<dyn Port> {
        end(&self.path, faults).unwrap()
    }

    fn pair(&self) -> LivePair {
        self.damaged_pair(None, None)
    }

    /// Two ends that meet, each with its damage.
    pub fn damaged_pair(&self, near: Option<FaultsConfig>, far: Option<FaultsConfig>) -> LivePair {
        let mut pair = LivePair {
            near: self.damaged_end(near),
            far: self.damaged_end(far),
        };
        pair.wait_for_carrier();
        pair
    }
}

fn on_cable(test: impl FnOnce(&mut LivePair)) {
    test(&mut Place::new().pair());
}

fn wait_for(port: &mut dyn Port, carrier: bool) {
    until("the carrier changes", || {
        collect(port, 64, &mut Vec::new());
        port.carrier() == carrier
    });
}

#[test]
fn frames_keep_order_and_bytes() {
    on_cable(|pair| suite::order_and_bytes(pair, 20_000));
}

#[test]
fn every_size_crosses() {
    on_cable(|pair| suite::every_size(pair));
}

#[test]
fn an_unsendable_frame_is_refused() {
    on_cable(|pair| suite::refusals(pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    on_cable(suite::back_pressure);
}

#[test]
fn a_million_frames_leak_nothing() {
    on_cable(|pair| suite::nothing_leaks(pair, 1_000_000));
}

#[test]
fn counters_conserve() {
    on_cable(suite::counters_conserve);
}

#[test]
fn disabling_is_pulling_the_cable() {
    on_cable(suite::disabling);
}

#[test]
fn no_wake_up_is_lost() {
    suite::no_lost_wake_up(Place::new().pair(), 20_000);
}

#[test]
fn work_forbids_sleep() {
    on_cable(suite::work_forbids_sleep);
}

#[test]
fn a_burst_stays_until_the_next() {
    on_cable(suite::a_burst_stays_until_the_next);
}

/// The peer reads the first frames of a burst while the rest of it is written.
#[test]
fn long_frames_are_shown_before_the_burst_ends_and_short_ones_with_it() {
    on_cable(|pair| {
        let seen = |far: &mut dyn Port| far.receive(64, |_| {}).unwrap();
        for number in 0..10 {
            pair.near.tx(&frame(number, 64)).unwrap();
        }
        assert_eq!(seen(&mut *pair.far), 0, "ten short frames");
        pair.near.flush().unwrap();
        assert_eq!(seen(&mut *pair.far), 10);
        pair.near.tx(&frame(10, 1500)).unwrap();
        assert_eq!(seen(&mut *pair.far), 1, "a long frame");
        pair.near.tx(&frame(11, 1000)).unwrap();
        assert_eq!(seen(&mut *pair.far), 0);
        pair.near.tx(&frame(12, 100)).unwrap();
        assert_eq!(seen(&mut *pair.far), 2, "long enough together");
    });
}

#[test]
fn a_port_alone_has_no_carrier_and_sleeps() {
    let place = Place::new();
    let mut port = place.end();
    assert!(!port.carrier());
    assert_eq!(port.tx(&frame(1, 64)), Err(TxRefusal::Down));
    assert!(port.prepare_sleep());
    port.finish_sleep();
    assert!(port.tx_idle());
}

#[test]
fn each_end_may_close_and_reopen() {
    let place = Place::new();
    let frames: Vec<_> = (0..500).map(|number| frame(number, 64)).collect();
    let LivePair { mut near, mut far } = place.pair();
    for round in 0..6 {
        // Either of them may be the one that listens.
        if round % 2 == 0 {
            drop(far);
            wait_for(&mut *near, false);
            assert_eq!(near.tx(&frames[0]), Err(TxRefusal::Down));
            far = place.end();
        } else {
            drop(near);
            wait_for(&mut *far, false);
            near = place.end();
        }
        let mut pair = LivePair { near, far };
        pair.wait_for_carrier();
        assert!(pair.transfer(&frames, 64) == frames, "round {round}");
        LivePair { near, far } = pair;
    }
}

#[test]
fn a_sleeping_port_is_woken_when_its_peer_opens_or_closes() {
    let place = Place::new();
    let mut near = place.end();
    let path = place.path.clone();
    let (seen, sees) = mpsc::channel();
    let far = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        let mut far = end(&path, None).unwrap();
        until("the peer is connected", || {
            collect(&mut *far, 1, &mut Vec::new());
            far.carrier()
        });
        // Wait until the near end has seen it. Otherwise the near end would find no peer and sleep
        // forever.
        sees.recv().unwrap();
        thread::sleep(Duration::from_millis(50));
    });
    for carrier in [true, false] {
        suite::sleep_until(&mut *near, |port| {
            collect(port, 1, &mut Vec::new());
            port.carrier() == carrier
        });
        // The far end has gone when this is sent the second time.
        let _ = seen.send(());
    }
    far.join().unwrap();
}

#[test]
fn a_peer_that_is_killed_is_noticed_without_a_word() {
    let place = Place::new();
    let listener = Listener::bind(&place.path).unwrap();
    let mut near = place.end();
    let connection = listener.accept().unwrap();
    let (mut far, parts) = CableEnd::create_pair(RING_SLOTS, 1514).unwrap();
    far.set_enabled(true);
    connection
        .send(&greeting(1, 1514, parts.capacity_bytes()), &parts.fds())
        .unwrap();
    wait_for(&mut *near, true);
    drop(parts);
    // A killed process closes its descriptors and throws no switch.
    drop(connection);
    wait_for(&mut *near, false);
}

fn greeting(version: u32, frame_bytes_max: u32, capacity_bytes: u64) -> Vec<u8> {
    [
        b"CVLCABLE",
        &version.to_le_bytes()[..],
        &frame_bytes_max.to_le_bytes(),
        &capacity_bytes.to_le_bytes(),
    ]
    .concat()
}

#[test]
fn unauthenticated_peers_at_the_socket_do_no_harm() {
    let place = Place::new();
    let listener = Listener::bind(&place.path).unwrap();
    let mut near = place.end();
    let nonsense: [&[u8]; 3] = [b"?", &[0; 24], &greeting(2, 1514, 1 << 20)];
    for words in nonsense {
        let unauthenticated_peer = listener.accept().unwrap();
        unauthenticated_peer.send(words, &[]).unwrap();
        wait_for(&mut *near, false);
    }
    // One that speaks well but gives no cable.
    let unauthenticated_peer = listener.accept().unwrap();
    unauthenticated_peer
        .send(&greeting(1, 1514, u64::MAX), &[])
        .unwrap();
    drop(listener);

    let mut pair = LivePair {
        near,
        far: place.end(),
    };
    pair.wait_for_carrier();
    suite::order_and_bytes(&mut pair, 500);
}

#[test]
fn a_third_end_is_refused() {
    let place = Place::new();
    let mut pair = place.pair();
    let mut third = place.end();
    let uninvited = Connection::connect(&place.path).unwrap();
    assert!(
        uninvited.recv(&mut [0; 64]).is_err(),
        "a closed connection, and no cable"
    );
    for _ in 0..20 {
        collect(&mut *third, 1, &mut Vec::new());
        assert!(!third.carrier());
        thread::sleep(Duration::from_millis(1));
    }
    suite::order_and_bytes(&mut pair, 500);
}

/// Offset of the producer's cursor in the control memory of a pipe.
const TAIL: i64 = 128;

#[test]
fn a_peer_with_false_shared_words_loses_the_cable() {
    let place = Place::new();
    let listener = Listener::bind(&place.path).unwrap();
    let mut near = place.end();
    let connection = listener.accept().unwrap();
    let (mut liar, parts) = CableEnd::create_pair(RING_SLOTS, 1514).unwrap();
    connection
        .send(&greeting(1, 1514, parts.capacity_bytes()), &parts.fds())
        .unwrap();
    let words = parts.fds()[0].try_clone_to_owned().unwrap();
    liar.set_enabled(true);
    wait_for(&mut *near, true);
    nix::sys::uio::pwrite(&words, &u64::MAX.to_le_bytes(), TAIL).unwrap();
    until("the lie is noticed", || {
        near.receive(8, |_| panic!("there is no frame")).unwrap();
        !near.carrier()
    });
    let counters = near.counters();
    assert!(
        counters.drops.contains(&("peer_violation", 1)),
        "{:?}",
        counters.drops
    );
}

#[test]
fn an_unusable_socket_path_is_refused() {
    let refused = |path: &str| {
        end(Path::new(path), None)
            .map(|_| ())
            .expect_err("must be refused")
            .to_string()
    };
    assert!(refused("/nowhere/at/all/cable.sock").contains("no directory for the cable's socket"));
    assert!(refused(&format!("/tmp/{}", "x".repeat(110))).contains("longer than 107 bytes"));
}

#[test]
fn another_kind_of_file_is_left_alone() {
    let place = Place::new();
    fs::write(&place.path, b"precious").unwrap();
    let mut near = place.end();
    for _ in 0..20 {
        collect(&mut *near, 1, &mut Vec::new());
        assert!(!near.carrier());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(fs::read(&place.path).unwrap(), b"precious");
}
