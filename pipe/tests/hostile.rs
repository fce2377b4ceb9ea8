//! A hostile application: a thread writes seeded garbage into every shared word while the daemon's
//! halves run. The only allowed result is a violation: no panic, no access outside the memory, no
//! endless loop.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec, Violation,
    cable::CableEnd,
    nic::NicPipe,
    session::{NicSession, SessionMemory},
};
use rustix::{fs::fstat, io::pwrite};
use support::{Random, memories};

const CAPACITY_BYTES: u64 = 4096;
const ATTACK: Duration = Duration::from_millis(1500);
/// How long the attack lasts on a machine so busy that its two threads seldom run at the same time.
const PATIENCE: Duration = Duration::from_secs(60);
const VIOLATIONS_WANTED: u64 = 10;

/// Whether the attack that began at `start` has more to do.
fn continues(start: Instant, violations: u64) -> bool {
    let elapsed = start.elapsed();
    elapsed < ATTACK || (violations <= VIOLATIONS_WANTED && elapsed < PATIENCE)
}

/// Writes garbage into `memfd` until dropped.
struct Attacker {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<u64>>,
}

impl Attacker {
    fn start(memfd: OwnedFd, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let words = fstat(&memfd).unwrap().st_size as u64 / 4;
            let mut random = Random(seed);
            let mut written = 0;
            while !stopped.load(Ordering::Relaxed) {
                // Half of the writes hit the cursors, the rest anything.
                let word = if random.below(2) == 0 {
                    random.below(256) * 4
                } else {
                    random.below(words)
                } % words;
                let value = plausible(&mut random);
                let bytes = value.to_le_bytes();
                let len = if word.is_multiple_of(2) { 8 } else { 4 };
                pwrite(&memfd, &bytes[..len], word * 4).unwrap();
                written += 1;
            }
            written
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Values that a hostile application writes: nearly valid cursors and lengths, marks, extremes,
/// noise.
fn plausible(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => random.below(70) * 64,
        2 => random.below(4096),
        3 => u64::MAX,
        4 => (1 << 31) | random.below(200),
        5 => random.below(70) * 64 + random.below(64),
        6 => (1 << 63) | random.next(),
        _ => random.next(),
    }
}

/// One round of all operations that a lane performs on a pipe. The capacity of the ring bounds
/// every loop.
fn drive(nic: &mut NicPipe, random: &mut Random, scratch: &mut [u8]) -> Result<(), Violation> {
    for _ in 0..random.below(20) {
        let _ = nic.push(&scratch[..random.below(400) as usize]);
    }
    nic.publish();
    nic.on_doorbell()?;
    for _ in 0..random.below(100) {
        if random.below(2) == 0 {
            let Some(bytes) = nic.peek_tx()? else { break };
            let len = bytes.len();
            assert!(
                len > 0 && len as u64 <= CAPACITY_BYTES - 64,
                "a length of {len} got through"
            );
            bytes.copy_to(&mut scratch[..len]);
            nic.advance_tx();
        } else {
            let (most, taken) = (random.below(80) as usize, random.below(80) as usize);
            let mut offered = 0;
            let looked = nic.take_tx(most, |bytes| {
                let len = bytes.len();
                assert!(
                    len > 0 && len as u64 <= CAPACITY_BYTES - 64,
                    "a length of {len} got through"
                );
                bytes.copy_to(&mut scratch[..len]);
                offered += 1;
                offered <= taken
            })?;
            assert!(looked <= most && offered <= most, "more than was requested");
        }
    }
    nic.complete_tx();
    assert!(nic.free_bytes() <= CAPACITY_BYTES - 64);
    assert!(nic.used_bytes() <= CAPACITY_BYTES - 64);
    nic.violation().map_or(Ok(()), Err)
}

fn attack_pipe(direction: Direction, seed: u64) {
    let start = Instant::now();
    let mut random = Random(seed);
    let mut scratch = vec![0; 8192];
    let (mut violations, mut rounds, mut lies) = (0, 0, 0);
    while continues(start, violations) {
        let (ours, theirs) = memories(direction, CAPACITY_BYTES);
        let control = theirs.fds()[0].try_clone_to_owned().unwrap();
        let mut nic = NicPipe::new(ours);
        let attacker = Attacker::start(control, random.next());
        for _ in 0..2000 {
            rounds += 1;
            if let Err(violation) = drive(&mut nic, &mut random, &mut scratch) {
                // From now on the result is the same for any written values.
                assert_eq!(
                    nic.on_doorbell().err().or(nic.peek_tx().err()),
                    Some(violation)
                );
                assert_eq!(nic.violation(), Some(violation));
                assert!(!violation.to_string().is_empty());
                violations += 1;
                break;
            }
        }
        lies += attacker.stop();
    }
    assert!(
        violations > VIOLATIONS_WANTED,
        "{direction:?}: {violations} violations in {rounds} rounds under {lies} lies"
    );
}

#[test]
fn an_rx_pipe_survives() {
    attack_pipe(Direction::Rx, 1);
}

#[test]
fn a_pipe_of_bytes_survives() {
    attack_pipe(Direction::RxBytes, 6);
}

#[test]
fn a_tx_pipe_survives() {
    attack_pipe(Direction::Tx, 2);
}

#[test]
fn an_rx_tx_pipe_survives() {
    attack_pipe(Direction::RxTx, 3);
}

#[test]
fn a_session_survives() {
    const SLOTS: u32 = 16;
    let start = Instant::now();
    let mut random = Random(4);
    let mut violations = 0;
    while continues(start, violations) {
        let memory = SessionMemory::create(SLOTS).unwrap();
        let shared = memory.fd().try_clone_to_owned().unwrap();
        let mut session = NicSession::new(memory);
        let attacker = Attacker::start(shared, random.next());
        for round in 0..2000 {
            let outcome = (|| {
                for _ in 0..SLOTS {
                    session.notify(random.below(u64::from(SLOTS)) as u32, round)?;
                }
                session.app_sleeping();
                for _ in 0..SLOTS {
                    let Some(pipe) = session.next_doorbell()? else {
                        break;
                    };
                    assert!(pipe < SLOTS, "pipe {pipe} got through");
                }
                session.set_lane_sleeping(round % 2 == 0);
                let _ = session.doorbell_waits();
                Ok::<_, Violation>(())
            })();
            if let Err(violation) = outcome {
                assert_eq!(session.next_doorbell(), Err(violation));
                assert!(session.doorbell_waits(), "the lane must not sleep over it");
                violations += 1;
                break;
            }
        }
        attacker.stop();
    }
    assert!(violations > VIOLATIONS_WANTED, "{violations} violations");
}

#[test]
fn a_cable_end_survives() {
    let start = Instant::now();
    let mut random = Random(5);
    let mut violations = 0;
    while continues(start, violations) {
        let (mut ours, parts) = CableEnd::create_pair(16, 128).unwrap();
        ours.set_enabled(true);
        let attackers: Vec<_> = [0, 2, 4]
            .map(|index| parts.fds()[index].try_clone_to_owned().unwrap())
            .into_iter()
            .map(|fd| Attacker::start(fd, random.next()))
            .collect();
        for _ in 0..2000 {
            for _ in 0..random.below(20) {
                let _ = ours.push(&[1; 100]);
            }
            ours.publish();
            for _ in 0..64 {
                match ours.peek() {
                    Ok(Some(bytes)) => assert!(bytes.len() < 4096),
                    Ok(None) => break,
                    Err(_) => break,
                }
                ours.advance();
            }
            ours.release();
            let carrier = ours.carrier();
            let _ = ours.prepare_sleep(carrier);
            ours.finish_sleep();
            if ours.violation().is_some() {
                violations += 1;
                break;
            }
        }
        for attacker in attackers {
            attacker.stop();
        }
    }
    assert!(violations > VIOLATIONS_WANTED, "{violations} violations");
}

const TAIL: u64 = 128;
const HEAD: u64 = 256;
const SEEN: u64 = 264;
const TX_TAIL: u64 = 384;

/// Each exact false value, and the violation that it causes.
#[test]
fn each_violation_is_reported_under_its_name() {
    const LENGTHS: u64 = 4096;
    let lie = |direction,
               offset: u64,
               bytes: &[u8],
               act: &mut dyn FnMut(&mut NicPipe) -> Option<Violation>| {
        let (ours, theirs) = memories(direction, CAPACITY_BYTES);
        let mut nic = NicPipe::new(ours);
        let _ = nic.push(&[1; 64]);
        nic.publish();
        pwrite(theirs.fds()[0], bytes, offset).unwrap();
        act(&mut nic).map(|violation| violation.to_string())
    };
    let word = |value: u64| value.to_le_bytes();
    let mut doorbell = |nic: &mut NicPipe| nic.on_doorbell().err();
    let mut peek = |nic: &mut NicPipe| nic.peek_tx().err();

    let message = lie(Direction::Rx, HEAD, &word(128), &mut doorbell);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: head is 128, expected 0 to 64")
    );
    let message = lie(Direction::Rx, HEAD, &word(63), &mut doorbell);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: head is 63, not a multiple of 64")
    );
    let message = lie(Direction::Rx, SEEN, &word(128), &mut doorbell);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: end of the seen data is 128, expected 0 to 64")
    );
    let message = lie(Direction::RxBytes, SEEN, &word(65), &mut doorbell);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: end of the seen data is 65, expected 0 to 64")
    );
    let message = lie(Direction::RxTx, TX_TAIL, &word(128), &mut doorbell);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: transmit tail is 128, expected 0 to 64")
    );
    let message = lie(Direction::RxTx, TX_TAIL, &word(128), &mut peek);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: transmit tail is 128, expected 0 to 64")
    );
    let message = lie(Direction::Tx, TAIL, &word(4096), &mut peek);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: tail is 4096, expected 0 to 4032")
    );
    let message = lie(Direction::Tx, TAIL, &word(64), &mut peek);
    assert_eq!(
        message.as_deref(),
        Some("shared memory: a packet's length is 0 bytes, expected 1 to 64")
    );
    // One packet of 64 bytes is there; its length is made longer, then the end is shown.
    let (ours, theirs) = memories(Direction::Tx, CAPACITY_BYTES);
    let mut nic = NicPipe::new(ours);
    pwrite(theirs.fds()[0], &65_u32.to_le_bytes(), LENGTHS).unwrap();
    pwrite(theirs.fds()[0], &word(64), TAIL).unwrap();
    assert_eq!(
        nic.peek_tx().err(),
        Some(Violation::PacketLength {
            found: 65,
            most: 64
        })
    );
    // A skip mark in a TX pipe, where every packet is to be sent: otherwise one call could walk a
    // whole ring of them.
    let (ours, theirs) = memories(Direction::Tx, CAPACITY_BYTES);
    let mut nic = NicPipe::new(ours);
    pwrite(theirs.fds()[0], &(64_u32 | 1 << 31).to_le_bytes(), LENGTHS).unwrap();
    pwrite(theirs.fds()[0], &word(64), TAIL).unwrap();
    let mark = Violation::Mark {
        found: 64 | 1 << 31,
    };
    assert_eq!(nic.take_tx(1, |_| panic!("not to be sent")), Err(mark));
    assert_eq!(nic.peek_tx().err(), Some(mark), "and ever after");
    // A tail that goes back after it was accepted.
    let (ours, theirs) = memories(Direction::Tx, CAPACITY_BYTES);
    let mut nic = NicPipe::new(ours);
    pwrite(theirs.fds()[0], &64_u32.to_le_bytes(), LENGTHS).unwrap();
    pwrite(theirs.fds()[0], &word(64), TAIL).unwrap();
    assert!(nic.peek_tx().unwrap().is_some());
    nic.advance_tx();
    pwrite(theirs.fds()[0], &word(0), TAIL).unwrap();
    assert!(matches!(
        nic.peek_tx(),
        Err(Violation::OutOfRange {
            found: 0,
            least: 64,
            ..
        })
    ));
}

/// The daemon's own words are not read back: overwriting them does not affect it.
#[test]
fn the_daemon_keeps_its_own_cursors_to_itself() {
    let (ours, theirs) = memories(Direction::Rx, CAPACITY_BYTES);
    let mut nic = NicPipe::new(ours);
    for round in 0..200_u64 {
        nic.push(&[1; 64]).unwrap();
        nic.publish();
        pwrite(theirs.fds()[0], &[0xff; 8], 128).unwrap();
        pwrite(theirs.fds()[0], &[0xff; 256], 4096).unwrap();
        pwrite(theirs.fds()[0], &[0xff; 80], 1024).unwrap();
        for word in [SEEN, HEAD] {
            pwrite(theirs.fds()[0], &(64 * (round + 1)).to_le_bytes(), word).unwrap();
        }
        assert_eq!(nic.on_doorbell(), Ok(None));
    }
    assert_eq!(nic.violation(), None);
    assert_eq!(nic.counters().rx_packets, 200);
}

/// No client can take pages away under the daemon, or add some.
#[test]
fn sizes_are_sealed() {
    for direction in [Direction::Rx, Direction::Tx, Direction::RxTx] {
        let (_ours, theirs) = memories(direction, CAPACITY_BYTES);
        for fd in theirs.fds() {
            let size = fstat(fd).unwrap().st_size as u64;
            assert!(rustix::fs::ftruncate(fd, 0).is_err());
            assert!(rustix::fs::ftruncate(fd, size + 4096).is_err());
            assert_eq!(fstat(fd).unwrap().st_size as u64, size);
            assert!(rustix::fs::fcntl_add_seals(fd, rustix::fs::SealFlags::WRITE).is_err());
        }
    }
    let session = SessionMemory::create(2).unwrap();
    assert!(rustix::fs::ftruncate(session.fd(), 0).is_err());
    let (_region, fd) = covalent_pipe::region::RegionMemory::create(8).unwrap();
    assert!(rustix::fs::ftruncate(fd, 0).is_err());
}

/// The receiver of an RX pipe can only read its data: it can neither write it nor punch holes into
/// it.
#[test]
fn rx_data_cannot_be_written_by_the_application() {
    let (ours, theirs) = memories(Direction::Rx, CAPACITY_BYTES);
    let data = theirs.fds()[1];
    assert!(pwrite(data, &[1], 0).is_err());
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert!(rustix::fs::fallocate(data, punch, 0, 4096).is_err());
    // It cannot be opened as the memory of a writable pipe either.
    let fds = ours.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    assert!(PipeMemory::open(fds, Direction::Tx, CAPACITY_BYTES).is_err());
}

/// Descriptors that an application refuses to map.
#[test]
fn foreign_descriptors_are_refused() {
    let spec = PipeSpec {
        direction: Direction::Tx,
        capacity_bytes: 8192,
        pages: PagePolicy::Never,
    };
    let memory = PipeMemory::create(&spec).unwrap();
    let clone = || memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    let message =
        |result: Result<PipeMemory, covalent_pipe::PipeError>| result.unwrap_err().to_string();

    assert!(message(PipeMemory::open(clone(), Direction::Tx, 4096)).contains("another size"));
    assert!(message(PipeMemory::open(clone(), Direction::RxTx, 8192)).contains("direction"));
    let [words, data] = clone();
    assert!(PipeMemory::open([data, words], Direction::Tx, 8192).is_err());
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    let [words, _] = clone();
    assert!(message(PipeMemory::open([words, file], Direction::Tx, 8192)).contains("not a memfd"));
    let loose = rustix::fs::memfd_create(
        "loose",
        rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING,
    )
    .unwrap();
    rustix::fs::ftruncate(&loose, 8192).unwrap();
    let [words, _] = clone();
    assert!(message(PipeMemory::open([words, loose], Direction::Tx, 8192)).contains("not sealed"));
    assert!(memory.fds()[0].as_fd().try_clone_to_owned().is_ok());
}
