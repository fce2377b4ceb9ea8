//! The Unix `SOCK_SEQPACKET` socket that connects processes: ordered datagrams with descriptors,
//! and the peer's credentials as reported by the kernel.

use std::{
    ffi::OsStr,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::socket::{
    getsockopt,
    sockopt::{PeerCredentials, PeerPidfd},
};
use rustix::{
    cmsg_space,
    fs::{AtFlags, CWD, FileType, OFlags, Stat, fcntl_getfl, fcntl_setfl, statat, unlink},
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
        SocketFlags, SocketType, accept_with, bind, connect, getsockname, listen, recvmsg, sendmsg,
        shutdown, socket_with,
        sockopt::{
            Timeout, set_socket_passcred, set_socket_timeout, socket_acceptconn, socket_type,
        },
    },
    process::{Pid, PidfdFlags, pidfd_open},
};

use crate::{event::wait_readable, lock_file::LockFile, socket_options};

/// Most descriptors beside one datagram. More are an error at either end.
pub const DESCRIPTORS_MAX: usize = 16;

/// Most descriptors that the kernel passes at once (`SCM_MAX_FD`). The receive buffer has space for
/// all, so none is lost before it is closed.
const KERNEL_DESCRIPTORS_MAX: usize = 253;

/// Attempts to take the lock of a name that another process is making, and the pause between them.
/// The total is one second, far more than needed.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Most unread datagrams that [`Connection::hang_up`] takes out. A connection with more left is
/// dropped elsewhere.
const UNREAD_MAX: u32 = 64;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Why a datagram was not sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeqpacketError {
    /// The other end has closed the connection, or its process is gone.
    #[error("the other end closed the connection")]
    Closed,
    /// Nothing to receive, or no space to send, on a non-blocking connection.
    #[error("the call would block")]
    WouldBlock,
    /// A datagram was longer than the buffer. It and its descriptors are gone.
    #[error("a datagram was longer than {max} bytes")]
    Truncated {
        /// Length of the buffer.
        max: usize,
    },
    /// More descriptors than allowed. They are closed.
    #[error("{found} descriptors beside a datagram, at most {DESCRIPTORS_MAX} are allowed")]
    TooManyDescriptors {
        /// How many.
        found: usize,
    },
    /// Descriptors arrived where none are accepted. The datagram and its descriptors stay unread.
    #[error("descriptors arrived with a datagram, and none are accepted here")]
    Descriptors,
    /// The kernel could not pass all descriptors, because this process's descriptor table is full.
    /// Those received are closed.
    #[error("descriptors were lost on the way: this process has too many open")]
    DescriptorsLost,
    /// An empty datagram looks like the end of the connection, so none is sent.
    #[error("an empty datagram cannot be sent")]
    Empty,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Identity of the process at the other end, as recorded by the kernel when the connection was
/// made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Process id; 0 if it is not visible from here.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A listening socket with a path. Dropping it removes the path, unless another process made the
/// socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: PathBuf,
    /// Device and inode of the path, so that the socket of a successor is not removed. `None` if
    /// another process owns the path.
    identity: Option<(u64, u64)>,
    /// Never requests the kernel to refuse descriptors.
    passes_descriptors: bool,
}

impl Listener {
    /// Listens at `path`. Removes an existing socket there first if no process listens on it.
    /// Leaves anything else alone.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if a process listens there, or the path is not a socket.
    /// Otherwise the error of the system call.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        // Two processes that start at once must not remove each other's new socket. This call drops
        // the lock on return.
        let _lock = lock_name(path)?;
        let fd = new_socket(SocketFlags::empty())?;
        match bind(&fd, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, &address)?;
                bind(&fd, &address)?;
            }
            result => result?,
        }
        let stat = lstat(path)?;
        let listener = Self {
            fd,
            path: path.to_owned(),
            identity: Some((stat.st_dev, stat.st_ino)),
            passes_descriptors: false,
        };
        listen(&listener.fd, BACKLOG)?;
        Ok(listener)
    }

    /// Adopts a socket that already listens and whose path its maker keeps, such as a service
    /// manager's. Connections wait there while no process serves them.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is not a listening socket of this kind with a path.
    /// Otherwise the error of the system call.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
        if socket_type(&fd)? != SocketType::SEQPACKET {
            return Err(wrong("the socket is not of the kind SOCK_SEQPACKET"));
        }
        if !socket_acceptconn(&fd)? {
            return Err(wrong("the socket does not listen"));
        }
        let address = SocketAddrUnix::try_from(getsockname(&fd)?)?;
        let path = address
            .path_bytes()
            .ok_or_else(|| wrong("the socket has no path"))?;
        let path = PathBuf::from(OsStr::from_bytes(path));
        Ok(Self {
            fd,
            path,
            identity: None,
            passes_descriptors: false,
        })
    }

    /// Accepts the next connection. Waits for one unless non-blocking.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none and the listener is non-blocking. Otherwise
    /// the error of the system call.
    pub fn accept(&self) -> io::Result<Connection> {
        let fd = retry_on_intr(|| accept_with(&self.fd, SocketFlags::CLOEXEC))?;
        Ok(Connection { fd })
    }

    /// Sets whether [`Listener::accept`] returns at once. New connections are blocking regardless
    /// of this setting.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        set_nonblocking(self.fd.as_fd(), nonblocking)
    }

    /// Requests the kernel to refuse descriptors sent over connections accepted from now on. The
    /// sender of some descriptors controls how long it takes to close them.
    ///
    /// Returns whether no connection can bring any: the kernel supports it (Linux 6.16), and no
    /// connection from before is waiting.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn refuse_descriptors(&self) -> io::Result<bool> {
        if self.passes_descriptors {
            return Ok(false);
        }
        let refuses = socket_options::refuse_descriptors(self.fd.as_fd())?;
        Ok(refuses && self.identity.is_some())
    }

    /// Behaves as on a kernel before Linux 6.16: [`Listener::refuse_descriptors`] does nothing. For
    /// tests of the behavior on such a kernel.
    #[doc(hidden)]
    #[must_use]
    pub fn as_before_linux_6_16(mut self) -> Self {
        self.passes_descriptors = true;
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Takes the right to make or remove a socket's name: the lock of a file beside it.
fn lock_name(socket: &Path) -> io::Result<LockFile> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(lock) = LockFile::try_take(&path)? {
            return Ok(lock);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(in_use(
        &path,
        "another process holds this lock: stop it, or remove the file",
    ))
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A failure to remove the name cannot be reported. The next `bind` finds it stale.
        if let Some(identity) = self.identity
            && lstat(&self.path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity)
        {
            let _ = unlink(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end of a connection. `Send` and `Sync`; a datagram goes to one of several receivers.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
}

impl Connection {
    /// Connects to the listener at `path`. Waits while the listener's backlog is full: forever, if
    /// the listener is stopped.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no socket. [`io::ErrorKind::ConnectionRefused`] if
    /// no process listens. Otherwise the error of the system call.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::connect_on(new_socket(SocketFlags::empty())?, path)
    }

    /// As [`Connection::connect`], with a limit of `timeout`, at least some microseconds. The limit
    /// also applies to later sends that block.
    ///
    /// # Errors
    /// As [`Connection::connect`], and [`io::ErrorKind::WouldBlock`] if the listener did not accept
    /// in time.
    pub fn connect_timeout(path: &Path, timeout: Duration) -> io::Result<Self> {
        let fd = new_socket(SocketFlags::empty())?;
        // The kernel takes 0 for no timeout.
        let timeout = timeout.max(Duration::from_micros(1));
        set_socket_timeout(&fd, Timeout::Send, Some(timeout))?;
        Self::connect_on(fd, path)
    }

    fn connect_on(fd: OwnedFd, path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        retry_on_intr(|| connect(&fd, &address))?;
        Ok(Self { fd })
    }

    /// Two ends that are connected to each other.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self { fd: one }, Self { fd: other }))
    }

    /// Sends one datagram with descriptors, all or nothing. The descriptors stay open here.
    ///
    /// # Errors
    /// [`SeqpacketError`]. A datagram that is too long for the system is [`SeqpacketError::Io`].
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), SeqpacketError> {
        if bytes.is_empty() {
            return Err(SeqpacketError::Empty);
        }
        if fds.len() > DESCRIPTORS_MAX {
            return Err(SeqpacketError::TooManyDescriptors { found: fds.len() });
        }
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            let pushed = ancillary.push(SendAncillaryMessage::ScmRights(fds));
            assert!(
                pushed,
                "the buffer holds as many descriptors as are allowed"
            );
        }
        retry_on_intr(|| {
            sendmsg(
                &self.fd,
                &[IoSlice::new(bytes)],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            )
        })
        .map_err(from_errno)?;
        Ok(())
    }

    /// Receives one datagram into `buffer`. Returns its length and its descriptors (close-on-exec).
    ///
    /// Use it only with a trusted peer: closing a descriptor may take as long as its sender
    /// chooses. [`Connection::recv_bytes`] accepts no descriptors.
    ///
    /// # Errors
    /// [`SeqpacketError`]. After any error but `WouldBlock` the datagram, if there was one, is
    /// gone, and its descriptors are closed.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), SeqpacketError> {
        let max = buffer.len();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(KERNEL_DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = self
            .receive(buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .map_err(from_errno)?;
        // Extract them before any refusal: all that are not returned are closed.
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(SeqpacketError::DescriptorsLost);
        }
        if message.flags.contains(ReturnFlags::TRUNC) {
            return Err(SeqpacketError::Truncated { max });
        }
        if fds.len() > DESCRIPTORS_MAX {
            return Err(SeqpacketError::TooManyDescriptors { found: fds.len() });
        }
        if message.bytes == 0 {
            return Err(SeqpacketError::Closed);
        }
        Ok((message.bytes, fds))
    }

    /// Receives one datagram into `buffer` and returns its length. One receiver at a time.
    ///
    /// A datagram with descriptors stays in the socket, so that this call closes none. In that case
    /// call [`Connection::hang_up`], then drop the connection where a delay is acceptable.
    ///
    /// # Errors
    /// [`SeqpacketError`]. After `WouldBlock` and `Descriptors` nothing has been consumed.
    pub fn recv_bytes(&self, buffer: &mut [u8]) -> Result<usize, SeqpacketError> {
        let max = buffer.len();
        match self.head().map_err(from_errno)? {
            Head::End => return Err(SeqpacketError::Closed),
            Head::WithDescriptors => return Err(SeqpacketError::Descriptors),
            Head::Plain => {}
        }
        let nothing = &mut RecvAncillaryBuffer::default();
        let message = self
            .receive(buffer, nothing, RecvFlags::empty())
            .map_err(from_errno)?;
        if message.flags.contains(ReturnFlags::TRUNC) {
            return Err(SeqpacketError::Truncated { max });
        }
        if message.bytes == 0 {
            return Err(SeqpacketError::Closed);
        }
        Ok(message.bytes)
    }

    /// Shuts down the connection in both directions and discards unread data from the other end.
    ///
    /// Returns whether nothing is left: only then does dropping the connection not wait. Data sent
    /// to the other end can still be read there.
    #[must_use = "unread data may be slow to close: give the connection to a `Reaper`"]
    pub fn hang_up(&self) -> bool {
        // No more data arrives after this. Each datagram now has the sender's credentials, so an
        // empty one is not mistaken for the end.
        if shutdown(&self.fd, Shutdown::Both).is_err()
            || set_socket_passcred(&self.fd, true).is_err()
        {
            return false;
        }
        for _ in 0..UNREAD_MAX {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1))];
            let mut names = RecvAncillaryBuffer::new(&mut space);
            let looked = self.receive(&mut [], &mut names, RecvFlags::PEEK | RecvFlags::DONTWAIT);
            match looked {
                Ok(message) if message.flags.contains(ReturnFlags::CTRUNC) => return false,
                Ok(_) if names.drain().next().is_none() => return true,
                Ok(_) => {
                    // Cut off, it is gone all the same.
                    let nothing = &mut RecvAncillaryBuffer::default();
                    let _ = self.receive(&mut [0], nothing, RecvFlags::DONTWAIT);
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// Returns the kind of the next datagram without consuming it. The kernel takes and drops
    /// references to its descriptors.
    fn head(&self) -> rustix::io::Result<Head> {
        let nothing = &mut RecvAncillaryBuffer::default();
        let message = self.receive(&mut [], nothing, RecvFlags::PEEK)?;
        Ok(if message.flags.contains(ReturnFlags::CTRUNC) {
            Head::WithDescriptors
        } else if message.flags.contains(ReturnFlags::TRUNC) {
            Head::Plain
        } else {
            Head::End
        })
    }

    fn receive(
        &self,
        buffer: &mut [u8],
        ancillary: &mut RecvAncillaryBuffer<'_>,
        flags: RecvFlags,
    ) -> rustix::io::Result<RecvMsg> {
        let mut receive = || {
            retry_on_intr(|| recvmsg(&self.fd, &mut [IoSliceMut::new(buffer)], ancillary, flags))
        };
        match receive() {
            // The kernel reports once that the peer closed without reading all data, before it
            // returns the peer's data.
            Err(Errno::CONNRESET) => receive(),
            received => received,
        }
    }

    /// Sleeps until there is something to receive, the other end has closed, or `timeout` has
    /// passed (`None`: no limit). Returns whether there is something to receive or the other end
    /// has closed.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        wait_readable(self.fd.as_fd(), timeout)
    }

    /// Returns the identity of the process at the other end.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn peer_credentials(&self) -> io::Result<Credentials> {
        let credentials = getsockopt(&self.fd, PeerCredentials)?;
        Ok(Credentials {
            pid: credentials.pid(),
            uid: credentials.uid(),
            gid: credentials.gid(),
        })
    }

    /// Returns a descriptor of the process that made the other end. The descriptor becomes readable
    /// when that process exits, regardless of which process holds the end by then.
    ///
    /// Returns `None` if the kernel cannot provide one (before Linux 6.5, for a process that is not
    /// visible from here), or if descriptors are exhausted.
    #[must_use]
    pub fn peer_process(&self) -> Option<OwnedFd> {
        getsockopt(&self.fd, PeerPidfd).ok().or_else(|| {
            // Fall back to the process id. It is valid as long as the process runs, and the process
            // has just connected.
            let pid = Pid::from_raw(self.peer_credentials().ok()?.pid)?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        })
    }

    /// Returns the supplementary groups of the process at the other end when it connected, as
    /// reported by the kernel.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn peer_groups(&self) -> io::Result<Vec<u32>> {
        socket_options::peer_groups(self.fd.as_fd())
    }

    /// Whether [`Connection::send`] and [`Connection::recv`] return at once.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        set_nonblocking(self.fd.as_fd(), nonblocking)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Kind of the next datagram of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Nothing, and nothing will; or an empty datagram, which looks like that.
    End,
    /// A datagram.
    Plain,
    /// A datagram with descriptors beside it.
    WithDescriptors,
}

fn new_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags | SocketFlags::CLOEXEC,
        None,
    )?)
}

fn remove_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    if FileType::from_raw_mode(lstat(path)?.st_mode) != FileType::Socket {
        return Err(in_use(path, "a file that is not a socket is there"));
    }
    // Non-blocking: a listener with a full backlog is running, and must not block this process.
    match connect(&new_socket(SocketFlags::NONBLOCK)?, address) {
        Err(Errno::CONNREFUSED) => Ok(unlink(path)?),
        Err(Errno::NOENT) => Ok(()),
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => {
            Err(in_use(path, "another process listens there already"))
        }
        Err(errno) => Err(errno.into()),
    }
}

fn in_use(path: &Path, problem: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("{}: {problem}", path.display()),
    )
}

fn lstat(path: &Path) -> rustix::io::Result<Stat> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

fn set_nonblocking(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(fd)?;
    flags.set(OFlags::NONBLOCK, nonblocking);
    Ok(fcntl_setfl(fd, flags)?)
}

fn from_errno(errno: Errno) -> SeqpacketError {
    match errno {
        Errno::AGAIN => SeqpacketError::WouldBlock,
        Errno::PIPE | Errno::CONNRESET => SeqpacketError::Closed,
        errno => SeqpacketError::Io(errno.into()),
    }
}
