//! The application's side: `covalent::Device` without its socket, its clock and its
//! deadlines.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use covalent_pipe::session::{AppWaiter, SessionMemory};
use loom::sync::Notify;

/// The event descriptors, and whether the application has ended.
#[derive(Debug)]
pub struct Events {
    pub application: Notify,
    pub lane: Notify,
    /// Visible at once to a lane that is awake: the checker only verifies wake-ups.
    pub done: AtomicBool,
}

impl Events {
    // Not the checker's own `Arc`: it counts references through its runtime, which is gone when a
    // deadlock unwinds.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            application: Notify::new(),
            lane: Notify::new(),
            done: AtomicBool::new(false),
        })
    }
}

/// Fault of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It looks once more, then announces that it sleeps.
    ChecksBeforeAnnouncing,
    /// It sleeps without paying the doorbells that it owes.
    NeverPays,
    /// It does not ring although the pipe reports that it must.
    NeverRings,
    /// It waits for the lane to take its packets and does not ring for that.
    NeverAsks,
    /// It sleeps for space without minding that there is some.
    SleepsInSpiteOfSpace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Spinning,
    BeforeSleep,
}

pub struct Device {
    waiter: AppWaiter,
    events: Arc<Events>,
    pub fault: Option<Fault>,
}

impl Device {
    pub fn new(memory: SessionMemory, events: Arc<Events>, fault: Option<Fault>) -> Self {
        Self {
            waiter: AppWaiter::new(memory),
            events,
            fault,
        }
    }

    pub fn ring(&mut self, pipe: u32) {
        let sleeps = self.waiter.ring(pipe).unwrap();
        self.wake_lane(sleeps);
    }

    pub fn owe_doorbell(&mut self, pipe: u32) {
        self.waiter.owe_doorbell(pipe);
    }

    /// Waits for news of any pipe.
    pub fn next_rx_pipe(&mut self) -> u32 {
        let mut ready = None;
        self.wait(|device, _| {
            ready = device.waiter.next_ready().unwrap();
            if ready.is_none() && device.fault != Some(Fault::NeverPays) {
                device.pay_doorbells();
            }
            ready.is_some()
        });
        ready.unwrap()
    }

    /// Waits until `attempt` returns `true`. It spins for one look.
    pub fn wait(&mut self, mut attempt: impl FnMut(&mut Self, Stage) -> bool) {
        if attempt(self, Stage::Spinning) {
            return;
        }
        loop {
            let ended_before = self.fault == Some(Fault::ChecksBeforeAnnouncing)
                && attempt(self, Stage::BeforeSleep);
            let may_sleep = self.waiter.prepare_sleep().unwrap();
            let ended = if self.fault == Some(Fault::ChecksBeforeAnnouncing) {
                ended_before
            } else {
                attempt(self, Stage::BeforeSleep)
            };
            if !ended && may_sleep {
                self.events.application.wait();
            }
            self.waiter.cancel_sleep();
            if ended {
                return;
            }
        }
    }

    /// One turn of an event loop: announces a sleep, looks at everything (before that, with a
    /// fault), and sleeps if `look` returns `true` and the announcement found no news.
    pub fn arm_look_sleep(&mut self, mut look: impl FnMut(&mut Self) -> bool) {
        self.pay_doorbells();
        let sleeps_after_early_look =
            self.fault == Some(Fault::ChecksBeforeAnnouncing) && look(self);
        let may_sleep = self.waiter.prepare_sleep().unwrap();
        let sleeps = if self.fault == Some(Fault::ChecksBeforeAnnouncing) {
            sleeps_after_early_look
        } else {
            look(self)
        };
        if sleeps && may_sleep {
            self.events.application.wait();
        }
    }

    /// Ends the lane, which may be asleep.
    pub fn end(mut self) {
        self.events.done.store(true, Ordering::Relaxed);
        self.ring(0);
    }

    fn pay_doorbells(&mut self) {
        while let Some(sleeps) = self.waiter.pay_doorbell().unwrap() {
            self.wake_lane(sleeps);
        }
    }

    fn wake_lane(&self, sleeps: bool) {
        if sleeps {
            self.events.lane.notify();
        }
    }
}
