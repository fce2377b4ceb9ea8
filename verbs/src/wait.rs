//! Waiting in `poll(2)`.

use std::{
    io,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout},
};

use crate::error::{Error, Result};

/// Events of `poll` for a socket whose other end is closed. `poll` reports the first of them
/// whether requested or not.
pub(crate) const HANG_UP: PollFlags = PollFlags::POLLHUP.union(PollFlags::POLLERR);

/// Whether the error of a read or write means that the other end is closed.
pub(crate) fn is_hang_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
    )
}

/// More than any program runs, and little enough to be added to any moment.
pub(crate) const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// Waits until one of the descriptors has an event or the deadline passes, forever without one.
/// Returns the events of each descriptor. All are empty if the deadline passed or a signal arrived.
pub(crate) fn poll<const N: usize>(
    fds: &mut [(BorrowedFd<'_>, PollFlags); N],
    deadline: Option<Instant>,
) -> Result<[PollFlags; N]> {
    let mut polled = fds.each_ref().map(|(fd, events)| PollFd::new(*fd, *events));
    match nix::poll::poll(&mut polled, timeout(deadline)) {
        Ok(_) => Ok(polled
            .each_ref()
            .map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR))),
        Err(Errno::EINTR) => Ok([PollFlags::empty(); N]),
        Err(errno) => Err(Error::System {
            what: "poll",
            cause: errno.into(),
        }),
    }
}

/// `poll` counts milliseconds. Rounding up avoids a return before the deadline and a useless
/// further call.
fn timeout(deadline: Option<Instant>) -> PollTimeout {
    let Some(deadline) = deadline else {
        return PollTimeout::NONE;
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let left_ms = left
        .saturating_add(Duration::from_nanos(999_999))
        .as_millis();
    PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::fd::AsFd;

    use covalent_ipc::event::EventFd;

    use super::*;

    #[test]
    fn a_wake_up_with_a_closed_peer_fails_in_both_directions() {
        let (here, there) = EventFd::pair().unwrap();
        here.notify().unwrap();
        assert!(!here.drain().unwrap());
        drop(there);
        assert!(is_hang_up(&here.drain().unwrap_err()));
        assert!(is_hang_up(&here.notify().unwrap_err()));
        assert!(!is_hang_up(&io::ErrorKind::WouldBlock.into()));
    }

    #[test]
    fn a_wait_never_ends_before_the_deadline_and_sees_ready_data() {
        let (reader, writer) = io::pipe().unwrap();
        let deadline = Instant::now() + Duration::from_micros(1500);
        let reported = poll(&mut [(reader.as_fd(), PollFlags::POLLIN)], Some(deadline)).unwrap();
        assert!(Instant::now() >= deadline);
        assert!(reported[0].is_empty());
        drop(writer);
        let reported = poll(&mut [(reader.as_fd(), PollFlags::POLLIN)], None).unwrap();
        assert!(reported[0].intersects(HANG_UP));
    }
}
