//! Event descriptors: how a sleeper is woken.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fs::{FileType, fstat},
    io::{Errno, read, retry_on_intr, write},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair},
};

/// One signal. An eventfd wants exactly eight bytes; a socket pair takes them too.
const SIGNAL: [u8; 8] = 1_u64.to_ne_bytes();

/// Signals read in one [`EventFd::drain`] at most. A flood leaves the descriptor readable, and the next round reads on.
const DRAIN_MAX: u32 = 1024;

/// A descriptor that one side signals and the other sleeps on with `poll(2)`. Never blocks. `Send` and `Sync`.
///
/// There are two makes. [`EventFd::new`] is an eventfd, for threads and processes that trust each other. [`EventFd::pair`] gives the two ends of a socket pair,
/// for those that do not: whoever shares an eventfd can clear its `O_NONBLOCK`, fill the counter, and so hold up the other's next
/// write for ever; the ends of a pair have no state in common, and every call on them is non-blocking by itself.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
    socket: bool,
}

impl EventFd {
    /// Makes an eventfd.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd, socket: false })
    }

    /// Makes a pair: a signal given at either end arrives at the other.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((
            Self {
                fd: one,
                socket: true,
            },
            Self {
                fd: other,
                socket: true,
            },
        ))
    }

    /// Signals. A signal that waits already is enough: then this does nothing.
    ///
    /// # Errors
    /// If the other end of a pair is closed.
    pub fn notify(&self) -> io::Result<()> {
        let written = if self.socket {
            retry_on_intr(|| send(&self.fd, &SIGNAL, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
        } else {
            retry_on_intr(|| write(&self.fd, &SIGNAL))
        };
        match written {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes the signals that wait. Returns whether there were any.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the other end of a pair is closed: it stays readable from then on, so stop polling it.
    pub fn drain(&self) -> io::Result<bool> {
        let mut bytes = [0; SIGNAL.len()];
        for drained in 0..DRAIN_MAX {
            let taken = if self.socket {
                retry_on_intr(|| recv(&self.fd, &mut bytes[..], RecvFlags::DONTWAIT))
                    .map(|(_, len)| len)
            } else {
                retry_on_intr(|| read(&self.fd, &mut bytes))
            };
            match taken {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(drained > 0),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    /// Sleeps until a signal waits or `timeout` has passed (`None`: for ever). Returns whether one waits; it is not taken.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        wait_readable(self.fd.as_fd(), timeout)
    }

    /// Another descriptor for the same end.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            socket: self.socket,
        })
    }
}

/// Takes a descriptor that was received: an eventfd or one end of a pair. Other descriptors give errors when they are used.
impl From<OwnedFd> for EventFd {
    fn from(fd: OwnedFd) -> Self {
        let socket =
            fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
        Self { fd, socket }
    }
}

impl From<EventFd> for OwnedFd {
    fn from(event: EventFd) -> Self {
        event.fd
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sleeps until `fd` is readable or hung up, or `timeout` has passed. A signal handler that ran meanwhile ends the sleep early.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn signals_collapse_and_are_drained() {
        let event = EventFd::new().unwrap();
        assert!(!event.drain().unwrap());
        event.notify().unwrap();
        event.notify().unwrap();
        assert!(event.wait(Some(Duration::ZERO)).unwrap());
        assert!(event.drain().unwrap());
        assert!(!event.drain().unwrap());
        assert!(!event.wait(Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_pair_signals_across_and_never_blocks() {
        let (one, other) = EventFd::pair().unwrap();
        for _ in 0..10_000 {
            one.notify().unwrap();
        }
        assert!(other.wait(Some(Duration::ZERO)).unwrap());
        assert!(other.drain().unwrap());
        assert!(!other.drain().unwrap());
        assert!(
            !one.drain().unwrap(),
            "a signal does not come back to its giver"
        );
    }

    #[test]
    fn a_received_descriptor_works_as_what_it_is() {
        let (one, other) = EventFd::pair().unwrap();
        let other = EventFd::from(OwnedFd::from(other));
        other.notify().unwrap();
        assert!(one.drain().unwrap());
        let event = EventFd::from(OwnedFd::from(EventFd::new().unwrap()));
        event.notify().unwrap();
        assert!(event.drain().unwrap());
    }

    #[test]
    fn a_clearing_of_the_flag_by_the_other_side_cannot_block_us() {
        let (ours, theirs) = EventFd::pair().unwrap();
        let fd: OwnedFd = theirs.into();
        let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
        rustix::fs::fcntl_setfl(&fd, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        for _ in 0..10_000 {
            ours.notify().unwrap();
        }
        assert!(!ours.drain().unwrap());
    }

    #[test]
    fn the_end_of_a_pair_is_told() {
        let (one, other) = EventFd::pair().unwrap();
        drop(other);
        assert!(one.notify().is_err());
        assert_eq!(
            one.drain().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
