//! Two ports that face each other.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_dataplane::port::{Port, TxRefusal};

/// Maximum wait of a test for something that must arrive. Reaching it is a failure, never a
/// measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A way from one port to another.
pub trait FramePath {
    /// The end that sends.
    fn near(&mut self) -> &mut dyn Port;

    /// Sends `frames` with at most `window` in flight. Returns the frames that arrived at the other
    /// end, in order. Stops waiting after a long time without a frame.
    fn transfer(&mut self, frames: &[Vec<u8>], window: usize) -> Vec<Vec<u8>>;
}

/// Two ports that are connected while both are open, in both directions.
pub struct LivePair {
    pub near: Box<dyn Port>,
    pub far: Box<dyn Port>,
}

impl LivePair {
    /// Waits until both ends have a carrier. Nothing may be on its way.
    pub fn wait_for_carrier(&mut self) {
        until("both ends have a carrier", || {
            for port in [&mut self.near, &mut self.far] {
                port.receive(1, |frame| {
                    panic!("an unexpected frame of {} bytes arrived", frame.len())
                })
                .unwrap();
            }
            self.near.carrier() && self.far.carrier()
        });
    }
}

impl FramePath for LivePair {
    fn near(&mut self) -> &mut dyn Port {
        &mut *self.near
    }

    fn transfer(&mut self, frames: &[Vec<u8>], window: usize) -> Vec<Vec<u8>> {
        let mut arrived = Vec::with_capacity(frames.len());
        let mut sent = 0;
        let mut last_news = Instant::now();
        while arrived.len() < frames.len() {
            let before = (sent, arrived.len());
            while sent < frames.len() && sent - arrived.len() < window {
                match self.near.tx(&frames[sent]) {
                    Ok(()) => sent += 1,
                    Err(TxRefusal::Full) => break,
                    Err(other) => panic!(
                        "frame {sent} of {} bytes was refused: {other}",
                        frames[sent].len()
                    ),
                }
            }
            self.near.flush().unwrap();
            collect(&mut *self.far, 64, &mut arrived);
            if before != (sent, arrived.len()) {
                last_news = Instant::now();
            } else if last_news.elapsed() > PATIENCE {
                break;
            } else {
                sleep(Duration::from_micros(20));
            }
        }
        arrived
    }
}

/// Receives once into `arrived`.
pub fn collect(port: &mut dyn Port, max: usize, arrived: &mut Vec<Vec<u8>>) -> usize {
    port.receive(max, |frame| arrived.push(frame.to_vec()))
        .unwrap()
}

/// Waits until `done` holds, running it again and again.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "timed out: {what}");
        sleep(Duration::from_micros(50));
    }
}
