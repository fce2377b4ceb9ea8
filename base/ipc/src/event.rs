//! Event descriptors: how a sleeper is woken.

use std::{
    io::{self, IoSliceMut},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fs::{FileType, fstat},
    io::{Errno, ReadWriteFlags, preadv2, retry_on_intr, write},
    net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send,
        shutdown, socketpair,
    },
};

/// One signal. An eventfd requires exactly eight bytes. A socket pair accepts them too.
const SIGNAL: [u8; 8] = 1_u64.to_ne_bytes();

/// The offset that means "no offset" to `preadv2(2)`.
const CURRENT_POSITION: u64 = u64::MAX;

/// Most signals that one [`EventFd::drain`] reads. After a flood the descriptor stays readable and
/// the next call reads more.
const DRAIN_MAX: u32 = 1024;

/// A descriptor that one side signals and the other side waits on with `poll(2)`. Never blocks.
/// `Send` and `Sync`.
///
/// There are three kinds, because processes that share a descriptor share its state. A peer can
/// clear the `O_NONBLOCK` of an eventfd, fill its counter, and so block the next *write* forever.
/// Over a socket, a peer can send descriptors that take arbitrarily long to close, at the expense
/// of the receiver.
///
/// | constructor | parties | safe for |
/// |---|---|---|
/// | [`EventFd::new`], cloned | waiter and untrusted signaler | waiter: reads use `RWF_NOWAIT` |
/// | [`EventFd::one_way`] | signaler and untrusted waiter | signaler: its end receives nothing |
/// | [`EventFd::pair`] | two processes that trust each other not to send descriptors | |
///
/// `RWF_NOWAIT` applies to each read, regardless of the descriptor's flags.
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

    /// Makes a pair in which the first end signals the second. Nothing can be sent to the first
    /// end, not even descriptors. The holder of the second end can therefore neither fill the first
    /// end nor make it slow to close.
    ///
    /// # Errors
    /// If descriptors are exhausted.
    pub fn one_way() -> io::Result<(Self, Self)> {
        let (giver, taker) = Self::pair()?;
        // For good: no call at either end takes it back.
        shutdown(&giver, Shutdown::Read)?;
        Ok((giver, taker))
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

    /// Consumes the pending signals. Returns whether there were any.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the other end of a pair is closed. The descriptor stays
    /// readable from then on, so stop polling it.
    pub fn drain(&self) -> io::Result<bool> {
        let mut bytes = [0; SIGNAL.len()];
        if !self.socket {
            // One read returns the whole counter. `O_NONBLOCK` is unreliable on a shared
            // descriptor.
            let mut buffers = [IoSliceMut::new(&mut bytes)];
            let taken = retry_on_intr(|| {
                preadv2(
                    &self.fd,
                    &mut buffers,
                    CURRENT_POSITION,
                    ReadWriteFlags::NOWAIT,
                )
            });
            return match taken {
                Ok(_) => Ok(true),
                Err(Errno::AGAIN) => Ok(false),
                Err(errno) => Err(errno.into()),
            };
        }
        for drained in 0..DRAIN_MAX {
            match retry_on_intr(|| recv(&self.fd, &mut bytes[..], RecvFlags::DONTWAIT)) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(drained > 0),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    /// Sleeps until a signal is pending or `timeout` has passed (`None`: no limit). Returns whether
    /// a signal is pending. Does not consume it.
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

/// Wraps a received descriptor: an eventfd or one end of a pair. Other descriptors return errors on
/// use.
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

/// Sleeps until `fd` is readable or hung up, or `timeout` has passed. A signal handler that runs
/// meanwhile ends the sleep early.
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
            "a signal does not return to its sender"
        );
    }

    #[test]
    fn a_received_descriptor_works_by_its_kind() {
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
    fn a_taker_of_a_shared_eventfd_never_blocks() {
        let taker = EventFd::new().unwrap();
        let giver: OwnedFd = taker.try_clone().unwrap().into();
        let flags = rustix::fs::fcntl_getfl(&giver).unwrap();
        rustix::fs::fcntl_setfl(&giver, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        // No signal: the giver may have read back the signal that `poll` reported.
        assert!(!taker.drain().unwrap());
        rustix::io::write(&giver, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        assert!(taker.drain().unwrap());
        assert!(!taker.drain().unwrap());
    }

    #[test]
    fn a_one_way_pair_passes_nothing_back() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
        let (giver, taker) = EventFd::one_way().unwrap();
        assert!(taker.notify().is_err());
        let file = EventFd::new().unwrap();
        let fds = [file.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        assert!(rights.push(SendAncillaryMessage::ScmRights(&fds)));
        let sent = sendmsg(
            &taker,
            &[io::IoSlice::new(&SIGNAL)],
            &mut rights,
            SendFlags::NOSIGNAL,
        );
        assert_eq!(sent.unwrap_err(), Errno::PIPE);
        assert!(!taker.wait(Some(Duration::ZERO)).unwrap());
        giver.notify().unwrap();
        assert!(taker.drain().unwrap());
        assert!(!taker.drain().unwrap());
        drop(giver);
        assert_eq!(
            taker.drain().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn the_end_of_a_pair_is_reported() {
        let (one, other) = EventFd::pair().unwrap();
        drop(other);
        assert!(one.notify().is_err());
        assert_eq!(
            one.drain().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
