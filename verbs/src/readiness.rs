//! The descriptor of a device for event loops.

use std::{
    cell::Cell,
    os::fd::{AsFd, BorrowedFd},
};

use nix::{
    errno::Errno,
    sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags},
};

use crate::error::{Error, Result};

/// One descriptor for everything that ends a sleep: the session's wake-up, and the end of the
/// connection to the daemon. It watches those of the current incarnation only.
#[derive(Debug)]
pub(crate) struct Readiness {
    epoll: Epoll,
    /// Whether it is readable because this side has news itself, until [`Readiness::rest`].
    called: Cell<bool>,
}

impl Readiness {
    /// Watches `woken`, the session's wake-up, and `daemon`, the connection.
    pub(crate) fn new(woken: BorrowedFd<'_>, daemon: BorrowedFd<'_>) -> Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let called = Cell::new(false);
        let readiness = Self { epoll, called };
        readiness.watch(woken, daemon)?;
        Ok(readiness)
    }

    /// Watches the descriptors of the next incarnation in place of those before, and is readable
    /// until [`Readiness::rest`]: news may have come unannounced.
    pub(crate) fn follow(
        &self,
        before: [BorrowedFd<'_>; 2],
        [woken, daemon]: [BorrowedFd<'_>; 2],
    ) -> Result<()> {
        for fd in before {
            // Closing is not enough: a forked child may hold copies.
            match self.epoll.delete(fd) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        self.watch(woken, daemon)?;
        self.call(daemon)
    }

    /// Makes the descriptor readable until [`Readiness::rest`].
    pub(crate) fn call(&self, daemon: BorrowedFd<'_>) -> Result<()> {
        // The daemon's socket has room for a request at almost any time.
        self.want(daemon, EpollFlags::EPOLLOUT)?;
        self.called.set(true);
        Ok(())
    }

    /// Ends what [`Readiness::call`] began.
    pub(crate) fn rest(&self, daemon: BorrowedFd<'_>) -> Result<()> {
        if self.called.get() {
            self.want(daemon, EpollFlags::empty())?;
            self.called.set(false);
        }
        Ok(())
    }

    fn watch(&self, woken: BorrowedFd<'_>, daemon: BorrowedFd<'_>) -> Result<()> {
        let readable = EpollEvent::new(EpollFlags::EPOLLIN, 0);
        self.epoll.add(woken, readable).map_err(failed)?;
        // Without any flag: epoll always reports that the other end is closed.
        let end = EpollEvent::new(EpollFlags::empty(), 0);
        self.epoll.add(daemon, end).map_err(failed)
    }

    fn want(&self, daemon: BorrowedFd<'_>, flags: EpollFlags) -> Result<()> {
        let mut event = EpollEvent::new(flags, 0);
        self.epoll.modify(daemon, &mut event).map_err(failed)
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

fn failed(errno: Errno) -> Error {
    Error::System {
        what: "epoll",
        cause: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, Instant};

    use covalent_ipc::event::EventFd;
    use nix::poll::PollFlags;

    use super::*;
    use crate::wait;

    fn is_ready(readiness: &Readiness) -> bool {
        let mut fds = [(readiness.as_fd(), PollFlags::POLLIN)];
        let soon = Instant::now() + Duration::from_millis(1);
        !wait::poll(&mut fds, Some(soon)).unwrap()[0].is_empty()
    }

    #[test]
    fn it_is_readable_while_a_signal_waits_and_after_the_daemon() {
        let (woken, lane) = EventFd::pair().unwrap();
        let (connection, daemon) = EventFd::pair().unwrap();
        let readiness = Readiness::new(woken.as_fd(), connection.as_fd()).unwrap();
        assert!(!is_ready(&readiness));
        lane.notify().unwrap();
        assert!(is_ready(&readiness));
        woken.drain().unwrap();
        assert!(!is_ready(&readiness));
        daemon.notify().unwrap();
        assert!(!is_ready(&readiness), "a reply is no news");
        drop(daemon);
        assert!(is_ready(&readiness));
    }

    #[test]
    fn it_follows_to_the_next_incarnation() {
        let (woken, lane) = EventFd::pair().unwrap();
        let (connection, _daemon) = EventFd::pair().unwrap();
        let readiness = Readiness::new(woken.as_fd(), connection.as_fd()).unwrap();
        let (next_woken, next_lane) = EventFd::pair().unwrap();
        let (next_connection, _next_daemon) = EventFd::pair().unwrap();
        let next = [next_woken.as_fd(), next_connection.as_fd()];
        readiness
            .follow([woken.as_fd(), connection.as_fd()], next)
            .unwrap();
        assert!(
            is_ready(&readiness),
            "what came meanwhile was not announced"
        );
        readiness.rest(next_connection.as_fd()).unwrap();
        lane.notify().unwrap();
        assert!(!is_ready(&readiness), "the one before is not watched");
        next_lane.notify().unwrap();
        assert!(is_ready(&readiness));
    }
}
