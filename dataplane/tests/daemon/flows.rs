//! Numbered UDP packets of many flows, sent without end and taken as they come.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{JoinHandle, spawn},
    time::{Duration, Instant},
};

use covalent_api::rule::{Match, Transport};
use covalent_pipe::app::RxPipe;

use super::{client::App, node::PATIENCE};

/// Offset of the number in a frame of [`udp`].
const NUMBER_AT: usize = 42;

/// Maximum frames in flight: fewer than any ring on the path holds.
const WINDOW: u64 = 256;

/// One packet to `dst_port`, with a number in it.
pub fn udp(src_port: u16, dst_port: u16, number: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [4; 6])
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 9)
        .udp(src_port, dst_port)
        .write(&mut frame, &[&number.to_be_bytes()[..], &[0; 10]].concat())
        .expect("memory");
    frame
}

/// Source port, destination port and number of a packet of [`udp`].
pub fn read(frame: &[u8]) -> (u16, u16, u64) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let number = frame[NUMBER_AT..].first_chunk().expect("a number");
    (word(34), word(36), u64::from_be_bytes(*number))
}

pub fn to_port(dst_port: u16) -> Match {
    Match::Port {
        transport: Transport::Udp,
        dst_port,
    }
}

/// An application that sends rounds of packets, one to each of its flows, until it is stopped.
pub struct Sender {
    thread: Option<JoinHandle<u64>>,
    stop: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
}

impl Sender {
    /// `flows`: source and destination ports. The sender waits when more than a window is sent and
    /// not [`Sender::took`].
    pub fn start(socket: PathBuf, port: &'static str, flows: Vec<(u16, u16)>) -> Self {
        let (stop, taken) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&taken));
        let thread =
            spawn(move || {
                let mut app = App::attach(&socket);
                let (pipe, mut tx) = app.tx(port);
                let (mut rounds, each) = (0, flows.len() as u64);
                while !stopped.load(Ordering::Acquire) {
                    if (rounds + 1) * each > counted.load(Ordering::Acquire) + WINDOW.max(each) {
                        std::thread::sleep(Duration::from_micros(200));
                        continue;
                    }
                    for &(src_port, dst_port) in &flows {
                        app.send(pipe, &mut tx, &udp(src_port, dst_port, rounds));
                    }
                    rounds += 1;
                }
                // The last frames must not be lost with their pipe.
                let deadline = Instant::now() + PATIENCE;
                while app.client.status().pipes.iter().any(|status| {
                    status.session == app.session && status.tx_packets < rounds * each
                }) {
                    assert!(Instant::now() < deadline, "the lane sends in time");
                    std::thread::sleep(Duration::from_millis(1));
                }
                rounds
            });
        Self {
            thread: Some(thread),
            stop,
            taken,
        }
    }

    /// So many packets need not be waited for any more.
    pub fn took(&self, packets: u64) {
        self.taken.fetch_add(packets, Ordering::Release);
    }

    /// Ends it; how many rounds it sent.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take().expect("it was started");
        thread.join().expect("the sender ends well")
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // A test that fails must not leave it running.
        self.stop.store(true, Ordering::Release);
    }
}

/// A pipe that is read to its end now and then.
pub struct Taker {
    pub pipe: u32,
    rx: RxPipe,
}

impl Taker {
    pub fn new(app: &mut App, port: Option<&str>) -> Self {
        let (pipe, rx) = app.rx(port);
        Self { pipe, rx }
    }

    /// Shows every packet that lies in the pipe to `visit`; returns how many there were.
    pub fn take(&mut self, app: &mut App, mut visit: impl FnMut(&[u8])) -> u64 {
        let mut taken = 0;
        while let Some(batch) = self.rx.recv() {
            taken += batch.iter().inspect(|packet| visit(packet)).count() as u64;
            if batch.free_all() {
                app.ring(self.pipe);
            }
        }
        if self.rx.wait_for_more() {
            app.ring(self.pipe);
        }
        taken
    }
}
