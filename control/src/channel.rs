//! JSON messages over a seqpacket socket, without blocking the thread.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    datagram::{self, DatagramError},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio_seqpacket::UnixSeqpacket;

/// Why a message was not sent or received. After any but `Datagram` the channel is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other end has closed, or its process is gone.
    #[error("the other end closed the connection")]
    Closed,
    /// The datagram is too long or not the expected message.
    #[error(transparent)]
    Datagram(#[from] DatagramError),
    /// The socket failed.
    #[error(transparent)]
    Io(io::Error),
}

/// One end of a connection.
pub struct Channel {
    socket: UnixSeqpacket,
    buffer: Box<[u8]>,
}

impl Channel {
    fn new(socket: UnixSeqpacket) -> Self {
        Self {
            socket,
            buffer: vec![0; MAX_DATAGRAM_BYTES].into_boxed_slice(),
        }
    }

    /// A connection that is open already. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If it is not of this kind, or cannot be watched.
    pub fn of(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self::new(UnixSeqpacket::try_from(socket)?))
    }

    /// Connects to the listener at `path`. Never blocks: a listener that accepts nobody and has a full backlog shows as an
    /// error of the first message.
    ///
    /// # Errors
    /// What the system said; [`io::ErrorKind::NotFound`] and [`io::ErrorKind::ConnectionRefused`] if nobody listens.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self::new(UnixSeqpacket::connect(path).await?))
    }

    /// The process at the other end when the connection was made, if it has a number in this pid namespace.
    #[must_use]
    pub fn peer_pid(&self) -> Option<i32> {
        self.socket.peer_cred().ok()?.pid()
    }

    /// Sends `message`; waits while the other end has no room for it.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn send<T: Serialize>(&self, message: &T) -> Result<(), ChannelError> {
        let bytes = datagram::encode(message)?;
        // A datagram goes whole or not at all, so its length tells nothing.
        self.socket.send(&bytes).await?;
        Ok(())
    }

    /// Waits for the next message. Nothing is lost if the future is dropped. Descriptors that come with it are closed by the kernel before this returns, which takes as long as
    /// their sender likes: strangers must be kept from sending any ([`clients`](crate::clients)).
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn recv<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        let info = self.socket.recv(&mut self.buffer).await?;
        if info.truncated() {
            return Err(DatagramError::TooLong {
                found: info.bytes_read().max(MAX_DATAGRAM_BYTES + 1),
            }
            .into());
        }
        match self.buffer.get(..info.bytes_read()) {
            None | Some([]) => Err(ChannelError::Closed),
            Some(bytes) => Ok(datagram::decode(bytes)?),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}
