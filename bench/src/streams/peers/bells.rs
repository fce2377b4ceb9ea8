//! The session beside a pipe: notifications one way, doorbells the other. Without a session there
//! are neither: both sides poll the pipe itself continuously, as the ends of a memif do.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use covalent_pipe::{
    nic::NicPipe,
    session::{AppSession, NicSession, SessionMemory},
};

/// Slots of the session.
const SLOTS: u32 = 64;

/// The pipe's number.
const NUMBER: u32 = 0;

/// The daemon's side.
#[derive(Debug)]
pub struct NearBells(Option<NicSession>);

impl NearBells {
    /// Makes a session if there is to be one, with its descriptor for the other side behind `fds`.
    pub fn prepare(session: bool, fds: &mut Vec<OwnedFd>) -> Result<Self> {
        if !session {
            return Ok(Self(None));
        }
        let memory = SessionMemory::create(SLOTS).context("making a session")?;
        let fd = memory.fd().try_clone_to_owned();
        fds.push(fd.context("handing a session over")?);
        Ok(Self(Some(NicSession::new(memory))))
    }

    /// Publishes the pushed packets and notifies the application.
    #[inline]
    pub fn publish(&mut self, nic: &mut NicPipe) -> Result<()> {
        if let (Some(tail), Some(session)) = (nic.publish(), &mut self.0) {
            session.notify(NUMBER, tail)?;
            session.app_sleeping();
        }
        Ok(())
    }

    /// Processes the doorbells. The pipe is polled anyway, as a lane polls recently emptied pipes.
    #[inline]
    pub fn answer(&mut self, nic: &mut NicPipe) -> Result<()> {
        let Some(session) = &mut self.0 else {
            return Ok(());
        };
        while session.next_doorbell()?.is_some() {
            if let Some(tail) = nic.on_doorbell()? {
                session.notify(NUMBER, tail)?;
            }
        }
        session.app_sleeping();
        Ok(())
    }
}

/// The application's side.
#[derive(Debug)]
pub struct FarBells(Option<AppSession>);

impl FarBells {
    /// Takes the session over, if there is to be one: its descriptor is the last of `fds`.
    pub fn prepare(session: bool, fds: &mut Vec<OwnedFd>) -> Result<Self> {
        if !session {
            return Ok(Self(None));
        }
        let fd = fds.pop().context("a session has a descriptor")?;
        let memory = SessionMemory::open(fd, SLOTS).context("opening a session")?;
        Ok(Self(Some(AppSession::new(memory))))
    }

    /// Rings the doorbell: the pipe has packets to send.
    #[inline]
    pub fn ring(&mut self) -> Result<()> {
        if let Some(session) = &mut self.0 {
            session.ring(NUMBER)?;
        }
        Ok(())
    }
}
