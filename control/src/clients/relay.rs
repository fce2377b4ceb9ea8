//! A relay between a client and control, on kernels that cannot refuse the client's descriptors.
//!
//! The kernel closes an unsolicited descriptor in the thread that reads the message, or in the
//! thread that closes the socket in which it is queued. This thread does both, so only it can
//! block. Control holds the other end of a socket pair, in which no descriptor ever arrives.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
};

use covalent_api::MAX_DATAGRAM_BYTES;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair},
};

use super::Place;

/// One byte more than the longest message, so that an oversized one is still detected as such.
const BUFFER_BYTES: usize = MAX_DATAGRAM_BYTES + 1;

/// The thread calls the system and nothing else.
const STACK_BYTES: usize = 64 << 10;

/// Starts a relay thread between `client`, a socket of type `kind`, and the returned socket. The
/// thread exits when either side has closed. It holds `place` until `client` is closed.
///
/// # Errors
/// If descriptors or threads are exhausted. The caller's thread then closes `client`.
pub fn start(client: OwnedFd, kind: SocketType, place: Place) -> io::Result<OwnedFd> {
    let (inner, outer) = socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    thread::Builder::new()
        .name("relay".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            relay_messages(&client, &inner);
            // Control learns of the end first: closing the other socket may take long.
            drop(inner);
            drop(client);
            drop(place);
        })?;
    Ok(outer)
}

/// Relays messages in both directions until one side has closed and its messages are delivered.
fn relay_messages(client: &OwnedFd, inner: &OwnedFd) {
    let (client, inner) = (client.as_fd(), inner.as_fd());
    let mut directions = [Direction::new(client, inner), Direction::new(inner, client)];
    while !directions.iter().any(Direction::is_over) {
        let [forth, back] = &directions;
        // A descriptor without requested events would still report POLLHUP continuously.
        let wanted = [
            (client, forth.wants_to_read() | back.wants_to_write()),
            (inner, back.wants_to_read() | forth.wants_to_write()),
        ];
        let mut polled: Vec<PollFd<'_>> = wanted
            .iter()
            .filter(|(_, events)| !events.is_empty())
            .map(|(fd, events)| PollFd::from_borrowed_fd(*fd, *events))
            .collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        for direction in &mut directions {
            direction.advance();
        }
    }
}

/// One direction.
struct Direction<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    buffer: Box<[u8]>,
    /// `sent..filled`: bytes received but not sent yet.
    sent: usize,
    filled: usize,
    /// Nothing more comes.
    ended: bool,
    /// The receiver no longer accepts the rest.
    broken: bool,
}

impl<'a> Direction<'a> {
    fn new(from: BorrowedFd<'a>, to: BorrowedFd<'a>) -> Self {
        Self {
            from,
            to,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            sent: 0,
            filled: 0,
            ended: false,
            broken: false,
        }
    }

    const fn is_empty(&self) -> bool {
        self.sent == self.filled
    }

    const fn is_over(&self) -> bool {
        self.broken || self.ended && self.is_empty()
    }

    const fn wants_to_read(&self) -> PollFlags {
        if self.is_empty() && !self.ended {
            PollFlags::IN
        } else {
            PollFlags::empty()
        }
    }

    const fn wants_to_write(&self) -> PollFlags {
        if self.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        }
    }

    fn advance(&mut self) {
        if self.is_empty() && !self.ended {
            match recv(self.from, &mut *self.buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.ended = true,
                Ok((received, _)) => (self.sent, self.filled) = (0, received),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.ended = true,
            }
        }
        if !self.is_empty() {
            let left = &self.buffer[self.sent..self.filled];
            match send(self.to, left, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => self.sent += taken,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.broken = true,
            }
        }
    }
}
