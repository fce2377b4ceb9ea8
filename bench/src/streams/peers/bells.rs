//! The session beside a pipe: notifications one way, doorbells the other. Without a session there
//! are neither: both sides poll the pipe itself continuously, as the ends of a memif do.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use covalent_pipe::{
    nic::NicPipe,
    session::{AppSession, NicSession, SessionMemory},
};

use crate::streams::part::session_slots;

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
        let memory = SessionMemory::create(session_slots(1)).context("making a session")?;
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
        let memory = SessionMemory::open(fd, session_slots(1)).context("opening a session")?;
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn the_session_is_as_large_as_that_of_a_daemon() {
        let mut fds = Vec::new();
        let near = NearBells::prepare(true, &mut fds).expect("a session");
        let bytes = |fd: &OwnedFd| nix::sys::stat::fstat(fd.as_fd()).expect("a file").st_size;
        // Twice the default of `dataplane.pipes_per_session_max`.
        let daemon = SessionMemory::create(2048).expect("a session");
        let daemon = daemon.fd().try_clone_to_owned().expect("a descriptor");
        assert_eq!(bytes(&fds[0]), bytes(&daemon));
        FarBells::prepare(true, &mut fds).expect("the same session");
        drop(near);
    }
}
