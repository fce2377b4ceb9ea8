//! One slice: the sender offers the maximum load, and a receiver counts.

use std::{
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use super::load::Load;
use crate::{
    bare::open_patiently,
    beside::join,
    cores::{Cores, pin},
    stage::Stage,
    stop,
};

/// Frames moved at a time, by the sender and every receiver: the dataplane's default.
pub const BURST: u32 = 64;

/// How long after the sender's end the last frames may arrive.
const AFTERMATH: Duration = Duration::from_millis(30);

/// Polling interval of the sender for the remaining frames.
const AFTERMATH_INTERVAL: Duration = Duration::from_millis(1);

/// Where and how a slice is measured: the same for all that take turns.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// The cable from `a0` to `b0`.
    pub stage: &'a Stage,
    /// The near core for the sender, the far core for the receiver.
    pub cores: Cores,
    /// Descriptors in each ring, of both sides.
    pub ring_slots: u32,
    /// How long frames are sent.
    pub slice: Duration,
    /// The frames to send.
    pub load: &'a Load,
    /// The daemon's program.
    pub daemon: &'a Path,
}

/// The result of one slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// Frames that the sender's ring took.
    pub sent: u64,
    /// Frames that the receiver, or the application, had.
    pub received: u64,
    /// How long was sent.
    pub elapsed: Duration,
    /// How much of its core the sender took, the kernel's work there included.
    pub sender_cores: f64,
    /// How much of theirs the receiver, or the lane, took.
    pub receiver_cores: f64,
    /// How much the application beside a lane took; 0 where the receiver is all.
    pub application_cores: f64,
}

impl Slice {
    /// Millions of received frames in a second.
    pub fn mpps(&self) -> f64 {
        self.received as f64 / self.elapsed.as_secs_f64() / 1e6
    }

    /// Checks that it can be: nothing arrives that was not sent, and not nothing.
    fn checked(self) -> Result<Self> {
        let Self { sent, received, .. } = self;
        ensure!(received > 0, "no frame arrived of {sent} sent");
        ensure!(received <= sent, "{received} frames arrived of {sent} sent");
        Ok(self)
    }
}

/// The receiver's counts when the sender has finished.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// Frames.
    pub frames: u64,
    /// How much of a core the receiver took, and an application beside it.
    pub cores: [f64; 2],
}

/// Signals on drop that the receiver is ready.
pub struct Ready(#[expect(dead_code, reason = "its end is its message")] mpsc::Sender<()>);

impl Turn<'_> {
    /// Runs `receive` on a thread, and sends for one slice once `receive` has dropped its
    /// [`Ready`]. `receive` returns when the flag is set.
    pub fn receive_while_sending(
        &self,
        receive: impl FnOnce(Ready, &AtomicBool) -> Result<Received> + Send,
    ) -> Result<Slice> {
        let over = AtomicBool::new(false);
        let (ready, is_ready) = mpsc::channel();
        thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(Ready(ready), &over));
            // A failed receiver also drops it. Its error is returned when it is joined.
            let _ = is_ready.recv();
            let sent = self.send();
            over.store(true, Ordering::Relaxed);
            let received = join(receiver)?;
            sent?.received(received)
        })
    }

    /// As [`Turn::receive_while_sending`], for a receiver in another process: `read` returns its
    /// frames so far and its CPU time in seconds.
    pub fn read_around_sending(
        &self,
        mut read: impl FnMut() -> Result<(u64, f64)>,
    ) -> Result<Slice> {
        let (before, start) = (read()?, Instant::now());
        let sent = self.send()?;
        let (after, elapsed) = (read()?, start.elapsed());
        sent.received(Received {
            frames: after.0 - before.0,
            cores: [(after.1 - before.1) / elapsed.as_secs_f64(), 0.0],
        })
    }

    /// Sends for one slice, then waits until the frames in flight have arrived.
    fn send(&self) -> Result<Sent> {
        thread::scope(|scope| {
            join(scope.spawn(|| {
                self.stage.a.enter()?;
                pin(self.cores.near)?;
                let mut socket = open_patiently("a0", self.ring_slots, BURST)?;
                let mut frames = self.load.frames();
                let mut sent = 0;
                let start = Instant::now();
                let stopwatch = Stopwatch::start();
                while start.elapsed() < self.slice && !stop::is_requested() {
                    sent += socket.send_each(&mut frames).context("sending")? as u64;
                }
                let (elapsed, cores) = (start.elapsed(), stopwatch.cores());
                stop::check()?;
                let end = Instant::now() + AFTERMATH;
                while Instant::now() < end {
                    socket.kick().context("sending")?;
                    thread::sleep(AFTERMATH_INTERVAL);
                }
                Ok(Sent {
                    frames: sent,
                    elapsed,
                    cores,
                })
            }))
        })
    }
}

/// The counts of the sender.
#[derive(Debug, Clone, Copy)]
struct Sent {
    frames: u64,
    elapsed: Duration,
    cores: f64,
}

impl Sent {
    fn received(self, received: Received) -> Result<Slice> {
        Slice {
            sent: self.frames,
            received: received.frames,
            elapsed: self.elapsed,
            sender_cores: self.cores,
            receiver_cores: received.cores[0],
            application_cores: received.cores[1],
        }
        .checked()
    }
}

/// How much of a core the calling thread takes from now on.
#[derive(Debug)]
pub struct Stopwatch {
    start: Instant,
    cpu_s: f64,
}

impl Stopwatch {
    /// Begins.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            cpu_s: thread_cpu_s(),
        }
    }

    /// The share so far.
    pub fn cores(&self) -> f64 {
        (thread_cpu_s() - self.cpu_s) / self.start.elapsed().as_secs_f64()
    }
}

/// Processor time that the calling thread has taken, in seconds.
fn thread_cpu_s() -> f64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0.0, |usage| {
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cannot_arrive_than_was_sent_and_not_nothing() {
        let sent = Sent {
            frames: 1000,
            elapsed: Duration::from_millis(1),
            cores: 1.0,
        };
        let had = |frames| {
            sent.received(Received {
                frames,
                cores: [1.0, 0.0],
            })
        };
        assert_eq!(had(500).expect("half of them").mpps(), 0.5);
        assert!(had(1000).is_ok() && had(1001).is_err() && had(0).is_err());
    }
}
