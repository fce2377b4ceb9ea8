//! The bare echo, asked by a second thread: as burdened as a verb is.
//!
//! ```text
//!   application thread ◄─ two shared words ─► bare client's thread (near core) ◄══ veth ══► bare echo (far core)
//! ```
//! A verb's application and the lane that carries it are two: where they share a core, each round trip costs a switch to the lane and one
//! back, whatever the lane does. The plain bare client has no such other half. This one has, on the same core as the verb's application
//! and waiting in the same way, and no more passes between the halves than a number. What the verb takes beyond it is Covalent's own.
//!
//! It flatters the bare side still: the halves are threads of one process, between which the kernel switches without changing the address
//! space, while an application and the daemon are two processes.

use std::{
    hint,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    arguments::Wire,
    bare_echo::{End, Frames, beside_echo},
    beside::join,
    cores::{Cores, pin},
    stage::Stage,
    trips::Slice,
};

/// How long the client looks for a frame that was lost. The application counts it as lost by its own patience, which is longer.
const CLIENT_PATIENCE: Duration = Duration::from_millis(100);

/// One slice.
pub fn slice(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Slice> {
    let (core, shared) = cores.application_beside(cores.near);
    let desk = Desk::new(shared);
    beside_echo(stage, cores, arguments, Frames::Read, || {
        thread::scope(|scope| {
            let client = scope.spawn(|| {
                let _closing = Closing(&desk);
                let mut client = End::near(stage, cores, arguments, Frames::Read)?;
                desk.serve(|| client.trip(Instant::now() + CLIENT_PATIENCE))
            });
            let application = scope.spawn(|| {
                let _closing = Closing(&desk);
                pin(core)?;
                let mut asked = 0;
                Slice::of(arguments.slice(), |deadline| {
                    asked += 1;
                    desk.ask(asked, deadline)
                })
            });
            // A client that failed tells why; all that the application knows is that it is gone.
            let measured = join(application);
            join(client)?;
            measured
        })
    })
}

/// A word in a pair of cache lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Word(AtomicU32);

/// Where requests are handed over: each is a number, and so is its answer.
#[derive(Debug)]
struct Desk {
    asked: Word,
    answered: Word,
    closed: AtomicBool,
    /// Both sides have one core.
    shared: bool,
}

impl Desk {
    fn new(shared: bool) -> Self {
        Self {
            asked: Word::default(),
            answered: Word::default(),
            closed: AtomicBool::new(false),
            shared,
        }
    }

    /// Hands over request `number`, which is not the one before it. Whether it was answered before `deadline`.
    fn ask(&self, number: u32, deadline: Instant) -> Result<bool> {
        self.asked.0.store(number, Ordering::Release);
        while self.answered.0.load(Ordering::Acquire) != number {
            if self.closed.load(Ordering::Relaxed) {
                bail!("the bare client is gone");
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
            self.pause();
        }
        Ok(true)
    }

    /// Answers each request for which `trip` was made, until the desk is closed.
    fn serve(&self, mut trip: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut done = 0;
        while !self.closed.load(Ordering::Relaxed) {
            let number = self.asked.0.load(Ordering::Acquire);
            if number != done {
                if trip()? {
                    self.answered.0.store(number, Ordering::Release);
                }
                done = number;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    /// Runs `ask` against a desk whose trips are `trip`; gives what `ask` and the serving came to.
    fn at_desk<T: Send>(
        trip: impl FnMut() -> Result<bool> + Send,
        ask: impl FnOnce(&Desk) -> T + Send,
    ) -> (T, Result<()>) {
        let desk = Desk::new(true);
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let _closing = Closing(&desk);
                desk.serve(trip)
            });
            let asked = {
                let _closing = Closing(&desk);
                ask(&desk)
            };
            (asked, join(serving))
        })
    }

    #[test]
    fn each_request_is_one_trip() {
        let mut trips = 0;
        let (came, served) = at_desk(
            || {
                trips += 1;
                Ok(true)
            },
            |desk| {
                let came = (1..=100)
                    .filter(|&number| desk.ask(number, soon()).expect("served"))
                    .count();
                // Long enough for many looks at a request that is answered already.
                thread::sleep(Duration::from_millis(5));
                came
            },
        );
        served.expect("no problem");
        assert_eq!((came, trips), (100, 100));
    }

    #[test]
    fn a_lost_or_late_answer_is_not_the_next_ones() {
        let mut trips = 0;
        let (came, served) = at_desk(
            || {
                trips += 1;
                if trips == 2 {
                    thread::sleep(Duration::from_millis(60));
                }
                Ok(trips != 1)
            },
            |desk| {
                let hurried = || Instant::now() + Duration::from_millis(20);
                [
                    desk.ask(1, hurried()).expect("served"),
                    desk.ask(2, hurried()).expect("served"),
                    desk.ask(3, soon()).expect("served"),
                ]
            },
        );
        served.expect("no problem");
        assert_eq!((came, trips), ([false, false, true], 3));
    }

    #[test]
    fn nobody_waits_for_a_client_that_failed() {
        let began = Instant::now();
        let (asked, served) = at_desk(|| bail!("no frame leaves"), |desk| desk.ask(1, soon()));
        asked.expect_err("the client is gone");
        assert_eq!(
            served.expect_err("it failed").to_string(),
            "no frame leaves"
        );
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
