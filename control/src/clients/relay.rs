//! What stands between a client and control where the client's descriptors cannot be refused.
//!
//! The kernel closes a descriptor that nobody asked for in the thread that reads the message, or that closes the socket in which it waits. This thread does both, so it
//! alone waits. Control holds the other end of a pair, in which no descriptor ever arrives.

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

/// One byte more than the longest message, so that a longer one is still too long when it arrives.
const BUFFER_BYTES: usize = MAX_DATAGRAM_BYTES + 1;

/// The thread calls the system and nothing else.
const STACK_BYTES: usize = 64 << 10;

/// Starts a thread between `client`, a socket of this kind, and the returned one. The thread ends when either side has ended, and holds `place` until `client` is closed.
///
/// # Errors
/// When descriptors or threads have run out. `client` is closed then, by the caller's thread.
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
            carry(&client, &inner);
            // Control learns of the end first: closing the other socket may take long.
            drop(inner);
            drop(client);
            drop(place);
        })?;
    Ok(outer)
}

/// Carries messages both ways until one side has ended and what it sent is delivered.
fn carry(client: &OwnedFd, inner: &OwnedFd) {
    let (client, inner) = (client.as_fd(), inner.as_fd());
    let mut ways = [Way::new(client, inner), Way::new(inner, client)];
    while !ways.iter().any(Way::is_over) {
        let [forth, back] = &ways;
        // A descriptor without a wanted event would still report a hang-up, for ever.
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
        for way in &mut ways {
            way.go_on();
        }
    }
}

/// One direction.
struct Way<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    buffer: Box<[u8]>,
    /// What was received and not sent yet.
    sent: usize,
    filled: usize,
    /// Nothing more comes.
    ended: bool,
    /// Nobody takes what is left.
    broken: bool,
}

impl<'a> Way<'a> {
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

    fn go_on(&mut self) {
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
