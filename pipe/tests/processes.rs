//! Two processes: an application killed at any moment, and a cable.
//!
//! The child is this test binary again, with one of the `child_…` tests selected and the socket's
//! path in its environment.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    env,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use covalent_ipc::{
    event::EventFd,
    seqpacket::{Connection, Listener, SeqpacketError},
};
use covalent_pipe::{
    Direction, PipeMemory, SharedBytes,
    app::{RxPipe, RxTxPipe, TxPipe},
    cable::{CABLE_DESCRIPTORS, CableEnd, CableParts},
    nic::NicPipe,
    session::{AppSession, NicSession, SessionMemory},
};
use support::{Random, memories, packet};

const SOCKET: &str = "COVALENT_PIPE_TEST_SOCKET";
const CAPACITY_BYTES: u64 = 64 * 1024;
const SLOTS: u32 = 4;
/// Longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child of this test. Dropping it kills the child, so that a failing test leaves none behind.
struct Process(Child);

impl Process {
    fn start(role: &str, socket: &Path) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args([role, "--exact", "--nocapture"])
            .env(SOCKET, socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// kill -9.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn socket_of_child() -> Option<PathBuf> {
    env::var_os(SOCKET).map(PathBuf::from)
}

fn accept(listener: &Listener) -> Connection {
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok(connection) => return connection,
            Err(error) if Instant::now() > end => panic!("the child did not connect: {error}"),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Normal operation of an application at full speed, until it is killed.
#[test]
fn child_uses_its_pipes() {
    let Some(socket) = socket_of_child() else {
        return;
    };
    let connection = Connection::connect(&socket).unwrap();
    let (_, fds) = connection.recv(&mut [0; 8]).unwrap();
    let mut fds = fds.into_iter();
    let mut two = || -> [OwnedFd; 2] { [fds.next().unwrap(), fds.next().unwrap()] };
    let mut rx =
        RxPipe::new(PipeMemory::open(two(), Direction::Rx, CAPACITY_BYTES).unwrap()).unwrap();
    let mut tx =
        TxPipe::new(PipeMemory::open(two(), Direction::Tx, CAPACITY_BYTES).unwrap()).unwrap();
    let mut echo =
        RxTxPipe::new(PipeMemory::open(two(), Direction::RxTx, CAPACITY_BYTES).unwrap()).unwrap();
    let mut session = AppSession::new(SessionMemory::open(fds.next().unwrap(), SLOTS).unwrap());
    let event = EventFd::from(fds.next().unwrap());
    connection.send(b"ready", &[]).unwrap();
    let mut number = 0;
    loop {
        while session.next_notification().unwrap().is_some() {}
        if rx.recv().is_some_and(|batch| batch.free_all()) {
            session.ring(0).unwrap();
        }
        for _ in 0..16 {
            if tx
                .send(&packet(number, 1 + (number % 1500) as usize))
                .is_ok()
            {
                number += 1;
            }
        }
        if tx.publish() {
            session.ring(1).unwrap();
        }
        if let Some(mut batch) = echo.recv_mut() {
            while let Some(mut packet) = batch.next_packet() {
                packet[0] ^= 0xff;
            }
            batch.send_all();
            session.ring(2).unwrap();
        }
        if tx.want_space(2048) && session.prepare_sleep() {
            event.wait(Some(Duration::from_millis(1))).unwrap();
        }
        session.cancel_sleep();
        event.drain().unwrap();
    }
}

#[test]
fn an_application_killed_at_any_moment_leaves_the_daemon_half_working() {
    let directory = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&directory.path().join("socket")).unwrap();
    let mut random = Random(7);
    let mut taken_in_all = 0;
    for _ in 0..12 {
        let mut process = Process::start("child_uses_its_pipes", listener.path());
        let connection = accept(&listener);
        let memory = [Direction::Rx, Direction::Tx, Direction::RxTx]
            .map(|direction| memories(direction, CAPACITY_BYTES).0);
        let session = SessionMemory::create(SLOTS).unwrap();
        let (event, their_event) = EventFd::pair().unwrap();
        let their_event = OwnedFd::from(their_event);
        let mut fds: Vec<_> = memory.iter().flat_map(PipeMemory::fds).collect();
        fds.push(session.fd());
        fds.push(std::os::fd::AsFd::as_fd(&their_event));
        connection.send(b"pipes", &fds).unwrap();
        drop(their_event);
        let [mut rx, mut tx, mut echo] = memory.map(NicPipe::new);
        let mut session = NicSession::new(session);
        assert!(connection.wait(Some(PATIENCE)).unwrap());
        assert_eq!(connection.recv(&mut [0; 8]).unwrap().0, 5);

        let mut taken = 0;
        let mut kill_after = 1 + random.below(3000);
        let mut killed = false;
        let end = Instant::now() + PATIENCE;
        // A lane's loop, going on for a while after the kill.
        for round in 0_u64.. {
            assert!(Instant::now() < end, "stalled after {taken} packets");
            for number in 0..8 {
                let _ = rx.push(&packet(round + number, 1 + random.below(300) as usize));
                let _ = echo.push(&packet(round + number, 1 + random.below(300) as usize));
            }
            for (number, pipe) in [(0, &mut rx), (2, &mut echo)] {
                if let Some(tail) = pipe.publish() {
                    session.notify(number, tail).unwrap();
                }
            }
            for _ in 0..SLOTS {
                match session.next_doorbell().unwrap() {
                    Some(number @ (0 | 2)) => {
                        let pipe = if number == 0 { &mut rx } else { &mut echo };
                        if let Some(tail) = pipe.on_doorbell().unwrap() {
                            session.notify(number, tail).unwrap();
                        }
                    }
                    Some(1) => {}
                    Some(number) => panic!("doorbell of pipe {number}"),
                    None => break,
                }
            }
            while let Some(bytes) = tx.peek_tx().unwrap() {
                assert_eq!(bytes.to_vec(), packet(taken, 1 + (taken % 1500) as usize));
                tx.advance_tx();
                taken += 1;
            }
            while echo.peek_tx().unwrap().is_some() {
                echo.advance_tx();
            }
            echo.complete_tx();
            if let Some(head) = tx.complete_tx() {
                session.notify(1, head).unwrap();
            }
            if session.app_sleeping() && event.notify().is_err() {
                assert!(killed, "the application's end closed before it was killed");
            }
            if !killed && taken >= kill_after {
                process.kill();
                killed = true;
                kill_after = round + 200;
            } else if killed && round >= kill_after {
                break;
            } else if round % 16 == 0 {
                thread::yield_now();
            }
        }
        taken_in_all += taken;
        // The RX pipe is no longer emptied: it fills, and no other pipe does. Packets that the
        // application gave back are sent.
        while rx.push(&[1; 64]).is_ok() {}
        assert_eq!(rx.violation(), None);
        assert_eq!(tx.violation(), None);
        assert_eq!(echo.violation(), None);
        assert!(tx.peek_tx().unwrap().is_none());
        assert!(matches!(
            connection.recv(&mut [0; 8]),
            Err(SeqpacketError::Closed)
        ));
        assert!(
            event.drain().is_err(),
            "the application's end of the event is closed"
        );
    }
    assert!(taken_in_all > 12);
}

const FRAMES: u64 = 100_000;
const FRAME_BYTES_MAX: u32 = 1514;

fn frame(number: u64) -> Vec<u8> {
    packet(number, 60 + (number % 1455) as usize)
}

/// Sends every frame back, sleeping whenever there is nothing to do, until it is killed.
#[test]
fn child_echoes_over_a_cable() {
    let Some(socket) = socket_of_child() else {
        return;
    };
    let connection = Connection::connect(&socket).unwrap();
    let mut capacity = [0; 8];
    let (len, fds) = connection.recv(&mut capacity).unwrap();
    assert_eq!(len, 8);
    let fds: [OwnedFd; CABLE_DESCRIPTORS] = fds.try_into().unwrap();
    let mut end = CableEnd::from_parts(CableParts::new(fds, u64::from_le_bytes(capacity))).unwrap();
    end.set_enabled(true);
    let mut waiting: Option<Vec<u8>> = None;
    loop {
        let carrier = end.carrier();
        loop {
            if waiting.is_none() {
                waiting = end.peek().unwrap().map(SharedBytes::to_vec);
            }
            let Some(frame) = waiting.take() else { break };
            if end.push(&frame).is_err() {
                waiting = Some(frame);
                break;
            }
            end.advance();
        }
        end.release();
        end.publish();
        // The refused frame is still in the cable, so only space can end the wait: push it again
        // first.
        if waiting.is_some() {
            thread::yield_now();
        } else if end.prepare_sleep(carrier) {
            covalent_wait(&end);
        }
        end.finish_sleep();
        if end.peer_gone() {
            return;
        }
    }
}

fn covalent_wait(end: &CableEnd) -> bool {
    let timeout = rustix::event::Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    let mut fds = [rustix::event::PollFd::new(
        end,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut fds, Some(&timeout)).unwrap() > 0
}

#[test]
fn a_cable_between_processes_passes_every_frame_and_its_carrier() {
    let directory = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&directory.path().join("socket")).unwrap();
    let mut process = Process::start("child_echoes_over_a_cable", listener.path());
    let connection = accept(&listener);
    let (mut end, parts) = CableEnd::create_pair(64, FRAME_BYTES_MAX).unwrap();
    connection
        .send(&parts.capacity_bytes().to_le_bytes(), &parts.fds())
        .unwrap();
    drop(parts);

    // The carrier comes when both switches are on.
    assert!(!end.carrier());
    end.set_enabled(true);
    let deadline = Instant::now() + PATIENCE;
    while !end.carrier() {
        assert!(Instant::now() < deadline, "no carrier");
        if end.prepare_sleep(false) {
            assert!(covalent_wait(&end), "the wake-up for the carrier was lost");
        }
        end.finish_sleep();
    }

    let (mut sent, mut received) = (0, 0);
    let mut sleeps = 0;
    while received < FRAMES {
        while sent < FRAMES && sent < received + 50 && end.push(&frame(sent)).is_ok() {
            sent += 1;
        }
        end.publish();
        while let Some(bytes) = end.peek().unwrap() {
            assert_eq!(bytes.to_vec(), frame(received), "frame {received}");
            end.advance();
            received += 1;
        }
        end.release();
        if sent == received + 50 || sent == FRAMES && received < FRAMES {
            if end.prepare_sleep(true) {
                sleeps += 1;
                assert!(
                    covalent_wait(&end),
                    "a wake-up was lost after {received} frames"
                );
            }
            end.finish_sleep();
        }
    }
    assert!(sleeps > 0);
    assert!(end.is_idle());

    // Pulled here: the peer sees it too, and each throw is counted.
    let changes = end.carrier_changes();
    end.set_enabled(false);
    assert!(!end.carrier());
    end.set_enabled(true);
    assert!(end.carrier());
    assert_eq!(end.carrier_changes(), changes + 2);

    process.kill();
    assert!(end.check_peer());
    assert!(!end.carrier());
    assert!(
        !end.prepare_sleep(true),
        "the loss of the carrier is something to do"
    );
    end.finish_sleep();
    // Frames for a peer that is gone are refused only when the ring is full.
    while end.push(&[0; 1500]).is_ok() {}
    end.publish();
    assert_eq!(end.violation(), None);
}
