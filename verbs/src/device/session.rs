//! A session of the daemon: its shared memory, and the descriptors that wake either side. A pipe is
//! named as ready only while it is open for receiving.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Instant,
};

use covalent_api::request::{Reply, Request};
use covalent_ipc::event::EventFd;
use covalent_pipe::session::{AppWaiter, NOTICE_WORDS, SessionMemory};

use crate::{
    client::{Client, take_fds, unexpected},
    error::{Error, Result, broken, foreign},
    pipe_id::PipeId,
};

#[derive(Debug)]
pub(super) struct Session {
    waiter: AppWaiter,
    /// Which pipes receive.
    receives: Box<[bool]>,
    /// Written by the daemon when it notifies while this side sleeps.
    woken: EventFd,
    /// Written by this side when the lane sleeps.
    lane_wake: EventFd,
}

impl Session {
    /// Opens the session of a connection: its number, and this side of it.
    pub(super) fn open(client: &mut Client, lane: u32, deadline: Instant) -> Result<(u64, Self)> {
        let request = Request::OpenSession { lane };
        let (reply, fds) = client.request_until(&request, "open a session", deadline)?;
        let Reply::Session {
            session: number,
            slots,
        } = reply
        else {
            return Err(unexpected("OpenSession", &reply));
        };
        let [memory, woken, lane_wake] = take_fds(fds)?;
        let memory = SessionMemory::open(memory, slots).map_err(foreign)?;
        client.done_until(&Request::Mapped, "serve the session", deadline)?;
        let session = Self {
            waiter: AppWaiter::new(memory),
            receives: vec![false; slots as usize].into_boxed_slice(),
            woken: EventFd::from(woken),
            lane_wake: EventFd::from(lane_wake),
        };
        Ok((number, session))
    }

    /// A pipe was opened.
    pub(super) fn opened(&mut self, pipe: u32, receives: bool) -> Result<()> {
        let place = self.receives.get_mut(pipe as usize).ok_or_else(|| {
            Error::Unintelligible(format!("pipe number {pipe} in a session of fewer pipes"))
        })?;
        *place = receives;
        Ok(())
    }

    pub(super) fn closed(&mut self, pipe: u32) {
        self.waiter.forget(pipe);
        self.receives[pipe as usize] = false;
    }

    /// Has [`Session::next_ready`] name a pipe as if it had news.
    pub(super) fn make_ready(&mut self, pipe: u32) {
        self.waiter.make_ready(pipe);
    }

    /// Takes the next receiving pipe that has news.
    pub(super) fn next_ready(&mut self) -> Result<Option<PipeId>> {
        while let Some(pipe) = self.waiter.next_ready().map_err(broken)? {
            if self.receives[pipe as usize] {
                return Ok(Some(PipeId(pipe)));
            }
        }
        Ok(None)
    }

    /// Rings a pipe's doorbell. Returns whether the lane sleeps.
    pub(super) fn ring(&mut self, pipe: u32) -> Result<bool> {
        self.waiter.ring(pipe).map_err(broken)
    }

    /// Records that the lane was not notified of freed memory.
    pub(super) fn owe_doorbell(&mut self, pipe: u32) {
        self.waiter.owe_doorbell(pipe);
    }

    /// Rings one of the doorbells that are owed. Returns whether the lane sleeps; `None` if none is
    /// owed.
    pub(super) fn pay_doorbell(&mut self) -> Result<Option<bool>> {
        self.waiter.pay_doorbell().map_err(broken)
    }

    pub(super) fn wake_lane(&self) -> io::Result<()> {
        self.lane_wake.notify()
    }

    /// Announces that this side is about to sleep. Returns `false` if there is news already.
    pub(super) fn prepare_sleep(&mut self) -> Result<bool> {
        self.waiter.prepare_sleep().map_err(broken)
    }

    pub(super) fn cancel_sleep(&mut self) {
        self.waiter.cancel_sleep();
    }

    /// Readable once the daemon has woken this side.
    pub(super) fn woken(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Takes the wake-up. Returns whether there was one.
    pub(super) fn drain(&self) -> io::Result<bool> {
        self.woken.drain()
    }

    /// Replaces a notice.
    pub(super) fn set_notice(&mut self, place: usize, words: &[u64; NOTICE_WORDS]) {
        self.waiter.set_notice(place, words);
    }
}
