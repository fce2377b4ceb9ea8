//! Where clients come in.

use std::{
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::fs::chown,
    },
    path::Path,
    thread,
};

use covalent_ipc::socket_options;
use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::Group,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{AtFlags, CWD, Mode, chmodat},
    io::{Errno, retry_on_intr},
    net::{
        RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown,
        sockopt::socket_type,
    },
};
use tokio::{net::UnixListener, sync::mpsc, task::yield_now};
use tracing::warn;

use super::{Full, Place, Places, Principal, relay};

/// Accepted clients that control has not processed yet.
const WAITING_MAX: usize = 4;

/// Messages read from a refused client. Unread messages would reset the connection, and the client
/// could not read the reason.
const DISCARDED_MAX: usize = 4;

/// Handling of descriptors that clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// The kernel refuses them at the sender (`SO_PASSRIGHTS`, Linux 6.16).
    Refused,
    /// They arrive, and are closed by threads that may wait.
    Arrive,
}

impl Descriptors {
    /// Makes the kernel refuse descriptors sent to `listener`'s future clients, if it supports
    /// this.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn refuse(listener: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(if socket_options::refuse_descriptors(listener)? {
            Self::Refused
        } else {
            Self::Arrive
        })
    }

    /// Sets the permissions of the socket at `path`: all users if descriptors are refused,
    /// otherwise the owner and `group`, if that is not empty.
    ///
    /// # Errors
    /// The error of the system call. An unusable group is only logged: the owner can still connect.
    pub fn open_name(self, path: &Path, group: &str) -> io::Result<()> {
        let mode = match self {
            Self::Refused => 0o666,
            Self::Arrive => {
                if let Err(problem) = give_to(path, group) {
                    warn!(
                        socket = %path.display(),
                        "group `{group}` (`node.group`) cannot have this socket, and only its \
                         owner can connect: {problem}"
                    );
                }
                0o660
            }
        };
        Ok(chmodat(
            CWD,
            path,
            Mode::from_raw_mode(mode),
            AtFlags::empty(),
        )?)
    }
}

fn give_to(path: &Path, group: &str) -> io::Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such group");
    let group = Group::from_name(group)?.ok_or_else(missing)?;
    chown(path, None, Some(group.gid.as_raw()))
}

/// An accepted client.
#[derive(Debug)]
pub struct Client {
    /// Its socket, non-blocking.
    pub socket: OwnedFd,
    /// Its user.
    pub principal: Principal,
    /// Its place. It is free when this is dropped and the socket is closed.
    pub place: Place,
}

/// Builds the message to a refused client; may be empty.
pub type Refusal = fn(&Full) -> Vec<u8>;

/// A listening socket.
pub struct Door(Kind);

enum Kind {
    /// Clients are accepted by the thread that serves them.
    Refusing { listener: UnixListener, hall: Hall },
    /// A thread accepts them. It exits when `_stop` is dropped, unless it is waiting for a client's
    /// descriptor.
    Relaying {
        clients: mpsc::Receiver<io::Result<Client>>,
        _stop: OwnedFd,
    },
}

impl Door {
    /// Accepts clients of `listener` while `places` has free slots for them. Must be called inside
    /// a tokio runtime.
    ///
    /// # Errors
    /// If the socket cannot be watched, or the thread cannot be created.
    pub fn new(
        listener: OwnedFd,
        descriptors: Descriptors,
        places: Places,
        refusal: Refusal,
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&listener, true)?;
        let hall = Hall { places, refusal };
        Ok(Self(match descriptors {
            Descriptors::Refused => Kind::Refusing {
                // The type is for streams; accepting is the same for every Unix socket.
                listener: UnixListener::from_std(listener.into())?,
                hall,
            },
            Descriptors::Arrive => {
                let (stopped, stop) = io::pipe()?;
                let (sender, clients) = mpsc::channel(WAITING_MAX);
                thread::Builder::new()
                    .name("accept".to_owned())
                    .spawn(move || hall.accept_all(&listener, &stopped.into(), &sender))?;
                Kind::Relaying {
                    clients,
                    _stop: stop.into(),
                }
            }
        }))
    }

    /// Waits for the next client.
    ///
    /// # Errors
    /// The error of the system call, for example that descriptors are exhausted. The `Door` stays
    /// usable.
    pub async fn next(&mut self) -> io::Result<Client> {
        match &mut self.0 {
            Kind::Refusing { listener, hall } => loop {
                let (socket, _) = listener.accept().await?;
                let socket = OwnedFd::from(socket.into_std()?);
                match hall.admit(&socket) {
                    Ok((principal, place)) => {
                        return Ok(Client {
                            socket,
                            principal,
                            place,
                        });
                    }
                    Err(full) => {
                        hall.turn_away(socket, &full);
                        // A flood of refused clients must not starve other tasks.
                        yield_now().await;
                    }
                }
            },
            Kind::Relaying { clients, .. } => {
                let ended = || {
                    Err(io::Error::other(
                        "the thread that accepts clients has ended",
                    ))
                };
                clients.recv().await.unwrap_or_else(ended)
            }
        }
    }
}

/// Admission of clients.
struct Hall {
    places: Places,
    refusal: Refusal,
}

impl Hall {
    fn admit(&self, socket: &OwnedFd) -> Result<(Principal, Place), Full> {
        // Without credentials the client counts as an unknown network client.
        let principal = getsockopt(socket, PeerCredentials)
            .map_or(Principal::Network, |it| Principal::of(it.uid()));
        Ok((principal, self.places.take(principal)?))
    }

    /// Sends the reason, and closes the socket in the calling thread.
    fn turn_away(&self, socket: OwnedFd, full: &Full) {
        // Every step may fail because the client has left.
        let _ = shutdown(&socket, Shutdown::Read);
        let mut unread = [0_u8; 512];
        for _ in 0..DISCARDED_MAX {
            if !matches!(
                recv(&socket, &mut unread, RecvFlags::DONTWAIT),
                Ok((1.., _))
            ) {
                break;
            }
        }
        let reason = (self.refusal)(full);
        if !reason.is_empty() {
            let _ = send(&socket, &reason, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Accepts clients until the receiver is dropped.
    fn accept_all(
        &self,
        listener: &OwnedFd,
        stopped: &OwnedFd,
        clients: &mpsc::Sender<io::Result<Client>>,
    ) {
        loop {
            let mut polled = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !polled[1].revents().is_empty() {
                return;
            }
            let client = match accept(listener) {
                Ok(socket) => self.relayed(socket).transpose(),
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => None,
                Err(problem) => Some(Err(problem)),
            };
            if client.is_some_and(|client| clients.blocking_send(client).is_err()) {
                return;
            }
        }
    }

    /// The client behind a thread of its own; `None` if it was turned away.
    fn relayed(&self, socket: OwnedFd) -> io::Result<Option<Client>> {
        let (principal, place) = match self.admit(&socket) {
            Ok(admitted) => admitted,
            Err(full) => {
                self.turn_away(socket, &full);
                return Ok(None);
            }
        };
        let kind = socket_type(&socket)?;
        let socket = relay::start(socket, kind, place.clone())?;
        Ok(Some(Client {
            socket,
            principal,
            place,
        }))
    }
}

fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(retry_on_intr(|| accept_with(listener, flags))?)
}
