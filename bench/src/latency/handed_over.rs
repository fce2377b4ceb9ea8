//! The bare echo, requested by a second thread: it has the same burden as a verb.
//!
//! ```text
//!   application thread ◄─ two words ─► bare client thread (near core) ◄══ veth ══► echo (far core)
//! ```
//! A verb involves two threads, the application and the lane that carries it. Where they share a
//! core, each round trip costs two context switches, whatever the lane does. The plain bare client
//! has no second thread. This side has one: on the same core as the verb's application, with the
//! same way of waiting. Only a number passes between the two. The verb's additional time is the
//! cost of Covalent.
//!
//! This still favors the bare side. The two are threads of one process, between which the kernel
//! switches without changing the address space. An application and the daemon are two processes.
//! Only one request at a time passes; others wait.

use std::{
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use anyhow::{Result, ensure};

use super::{
    drive::{Client, Clock, Repeat},
    frames::{FRAME_BYTES, Frames, Requester, beside_bare_echo},
    peer::{Load, Medium, Peer, Scene},
};
use crate::{beside::join, cores::pin, link_end::BURST, report::Description};

struct HandedOver;

/// It.
pub fn peers() -> Vec<Box<dyn Peer>> {
    vec![Box::new(HandedOver)]
}

impl Peer for HandedOver {
    fn name(&self) -> &'static str {
        "af_xdp-handed-over"
    }

    fn medium(&self) -> Medium {
        Medium::Wire
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        let (core, shared) = scene.cores.application_beside(scene.cores.near);
        Ok(Description {
            what: "bare AF_XDP echo; its client serves a second thread, as a lane does".to_owned(),
            version: concat!("covalent-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            tuning: format!(
                "rings of {} descriptors, bursts of {BURST}, frames of {FRAME_BYTES} bytes; the \
                 second thread on core {core}{}",
                scene.ring_slots,
                if shared {
                    ", which they share by yielding"
                } else {
                    ""
                }
            ),
            commands: Vec::new(),
        })
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        (load.bytes != 8).then(|| "the threads exchange numbers of 8 bytes only".to_owned())
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        let (core, shared) = scene.cores.application_beside(scene.cores.near);
        let desk = Desk::new(shared);
        beside_bare_echo(scene, load.bytes, Frames::Read, || {
            thread::scope(|scope| {
                let client = scope.spawn(|| {
                    let _closing = Closing(&desk);
                    desk.serve(&mut Requester::open(scene, load.bytes, Frames::Read)?)
                });
                let application = scope.spawn(|| {
                    let _closing = Closing(&desk);
                    pin(core)?;
                    load.measure(&mut AtDesk {
                        desk: &desk,
                        awaited: None,
                    })
                });
                // The error of a failed client is the cause: the application only notices that the
                // client is gone.
                let measured = join(application);
                join(client)?;
                measured
            })
        })
    }
}

/// A word in its own pair of cache lines, because processors fetch lines in pairs. 0 is empty, else
/// the number of a request counted from 1.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Word(AtomicU64);

/// Where requests are handed over.
#[derive(Debug)]
struct Desk {
    requested: Word,
    answered: Word,
    closed: AtomicBool,
    /// Both sides have one core.
    shared: bool,
}

impl Desk {
    fn new(shared: bool) -> Self {
        Self {
            requested: Word::default(),
            answered: Word::default(),
            closed: AtomicBool::new(false),
            shared,
        }
    }

    /// Passes each request to `client` and its replies back, until the desk is closed.
    fn serve(&self, client: &mut dyn Client) -> Result<()> {
        let mut done = 0;
        while !self.closed.load(Ordering::Relaxed) {
            let number = self.requested.0.load(Ordering::Acquire);
            if number != done && client.send(number)? {
                done = number;
            }
            client.answers(&mut |number| self.answered.0.store(number, Ordering::Release))?;
            self.pause();
        }
        Ok(())
    }

    /// Between two looks.
    fn pause(&self) {
        if self.shared {
            thread::yield_now();
        } else {
            hint::spin_loop();
        }
    }
}

/// Closes the desk when its side ends, however it ends.
struct Closing<'a>(&'a Desk);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Relaxed);
    }
}

/// The application's end: submits one request at a time.
struct AtDesk<'a> {
    desk: &'a Desk,
    awaited: Option<u64>,
}

impl Client for AtDesk<'_> {
    fn send(&mut self, number: u64) -> Result<bool> {
        if self.awaited.is_some() {
            return Ok(false);
        }
        self.desk.requested.0.store(number + 1, Ordering::Release);
        self.awaited = Some(number);
        Ok(true)
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        if let Some(number) = self.awaited
            && self.desk.answered.0.load(Ordering::Acquire) == number + 1
        {
            self.awaited = None;
            answered(number);
        }
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        ensure!(
            !self.desk.closed.load(Ordering::Relaxed),
            "the bare client exited"
        );
        self.desk.pause();
        Ok(())
    }

    fn pause(&mut self) {
        self.desk.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{Keep, Monotonic, Pacing, Plan, drive::drive};

    /// Answers pending requests on every second poll, and fails at request `fails_at`.
    struct Slow {
        fails_at: u64,
        in_flight: Vec<u64>,
        polls: u32,
    }

    impl Client for Slow {
        fn send(&mut self, number: u64) -> Result<bool> {
            ensure!(number != self.fails_at, "no cable");
            self.in_flight.push(number);
            Ok(true)
        }

        fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
            self.polls += 1;
            if self.polls.is_multiple_of(2) {
                self.in_flight.drain(..).for_each(answered);
            }
            Ok(())
        }

        fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
            Ok(())
        }
    }

    fn handed_over(fails_at: u64) -> (Result<Repeat>, Result<()>) {
        let desk = Desk::new(true);
        let plan = Plan {
            pacing: Pacing::Open { rate_per_s: 2000.0 },
            warm_up: 10,
            slice_ns: 50_000_000,
            patience_ns: 5_000_000_000,
        };
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let _closing = Closing(&desk);
                desk.serve(&mut Slow {
                    fails_at,
                    in_flight: Vec::new(),
                    polls: 0,
                })
            });
            let requested = {
                let _closing = Closing(&desk);
                let mut client = AtDesk {
                    desk: &desk,
                    awaited: None,
                };
                drive(&mut client, &Monotonic, &plan, Keep::Histogram)
            };
            (requested, join(serving))
        })
    }

    #[test]
    fn every_request_is_answered_once() {
        let (requested, served) = handed_over(u64::MAX);
        served.expect("no problem");
        let requested = requested.expect("answers");
        assert_eq!((requested.answered, requested.lost), (100, 0));
    }

    #[test]
    fn a_client_that_fails_ends_both_threads() {
        let (requested, served) = handed_over(5);
        let problem = requested.expect_err("no thread replies").to_string();
        assert_eq!(problem, "the bare client exited");
        assert_eq!(served.expect_err("it failed").to_string(), "no cable");
    }
}
