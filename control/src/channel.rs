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

    /// Connects to the listener at `path`. Never blocks: a listener that does not accept and has a
    /// full backlog causes an error of the first message.
    ///
    /// # Errors
    /// The error of the system call; [`io::ErrorKind::NotFound`] and
    /// [`io::ErrorKind::ConnectionRefused`] if there is no listener.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self::new(UnixSeqpacket::connect(path).await?))
    }

    /// The peer process at the time of the connection, if it has a number in this pid namespace.
    #[must_use]
    pub fn peer_pid(&self) -> Option<i32> {
        self.socket.peer_cred().ok()?.pid()
    }

    /// Sends `message`. Waits while the peer's buffer is full.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn send<T: Serialize>(&self, message: &T) -> Result<(), ChannelError> {
        let bytes = datagram::encode(message)?;
        // A datagram is sent completely or not at all, so the returned length carries no
        // information.
        self.socket.send(&bytes).await?;
        Ok(())
    }

    /// Waits for the next message. Cancel-safe: dropping the future loses no message. The kernel
    /// closes descriptors that come with the message before this returns, which takes as long as
    /// their sender chooses. The socket must prevent untrusted users from sending any
    /// ([`clients`](crate::clients)).
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn recv<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        Ok(datagram::decode(self.recv_bytes().await?)?)
    }

    /// As [`Channel::recv`], for a message of an unknown type. Never empty.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn recv_bytes(&mut self) -> Result<&[u8], ChannelError> {
        let info = self.socket.recv(&mut self.buffer).await?;
        if info.truncated() {
            return Err(DatagramError::TooLong {
                found: info.bytes_read().max(MAX_DATAGRAM_BYTES + 1),
            }
            .into());
        }
        match self.buffer.get(..info.bytes_read()) {
            None | Some([]) => Err(ChannelError::Closed),
            Some(bytes) => Ok(bytes),
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
