//! The Unix `SOCK_SEQPACKET` socket over which processes meet: datagrams in order, descriptors beside them, and the kernel's word for who
//! is at the other end.

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

/// Most descriptors that the kernel passes at once (`SCM_MAX_FD`). Room for all, so that none can be lost on the way to being closed.
const KERNEL_DESCRIPTORS_MAX: usize = 253;

/// Looks at the lock of a name that somebody else is making, and the pause between them: a second in all, far beyond what it takes.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Unread datagrams that [`Connection::hang_up`] takes out. Who left more has them dropped aside.
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
    /// Nothing to receive, or no room to send, on a non-blocking connection.
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
    /// Descriptors came where none are taken. The datagram stays unread, and its descriptors with it.
    #[error("descriptors came with a datagram, and none are taken here")]
    Descriptors,
    /// The system could not hand over all descriptors, for want of room in this process's table. Those that came are closed.
    #[error("descriptors were lost on the way: this process has too many open")]
    DescriptorsLost,
    /// An empty datagram looks like the end of the connection, so none is sent.
    #[error("an empty datagram cannot be sent")]
    Empty,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Who is at the other end, as the kernel saw it when the connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Process id; 0 if it is not visible from here.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A socket with a name that others connect to. Its name goes with it, unless somebody else made it.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: PathBuf,
    /// The name's own device and inode, so that a successor's socket is not removed; `None` where the name is another's.
    identity: Option<(u64, u64)>,
    /// Never asks the kernel to refuse descriptors.
    lets_descriptors_pass: bool,
}

impl Listener {
    /// Listens at `path`. A socket that lies there and that nobody answers is removed first; anything else is left alone.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if somebody answers there or something other than a socket lies there; else what the system said.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        // Two starting at once must not each remove what the other has just made. The lock goes with this call.
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
            lets_descriptors_pass: false,
        };
        listen(&listener.fd, BACKLOG)?;
        Ok(listener)
    }

    /// Takes over a socket that listens already, and whose name its maker keeps: a service manager's, where connections wait while nobody serves.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is no listening socket of this kind with a path; else what the system said.
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
            lets_descriptors_pass: false,
        })
    }

    /// Takes the next connection; waits for one unless non-blocking.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none and the listener is non-blocking; else what the system said.
    pub fn accept(&self) -> io::Result<Connection> {
        let fd = retry_on_intr(|| accept_with(&self.fd, SocketFlags::CLOEXEC))?;
        Ok(Connection { fd })
    }

    /// Whether [`Listener::accept`] returns at once. Connections are blocking at first, whatever this is.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        set_nonblocking(self.fd.as_fd(), nonblocking)
    }

    /// Has the kernel refuse descriptors that others send over the connections accepted from now on: closing some descriptors takes
    /// as long as who sent them likes. Returns whether no connection can bring any: the kernel can (Linux 6.16), and none waits here from before.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn refuse_descriptors(&self) -> io::Result<bool> {
        if self.lets_descriptors_pass {
            return Ok(false);
        }
        let refuses = socket_options::refuse_descriptors(self.fd.as_fd())?;
        Ok(refuses && self.identity.is_some())
    }

    /// As on a kernel before Linux 6.16: [`Listener::refuse_descriptors`] does nothing. For tests of what such a kernel lets through.
    #[doc(hidden)]
    #[must_use]
    pub fn as_before_linux_6_16(mut self) -> Self {
        self.lets_descriptors_pass = true;
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
        "another process holds this lock: end it, or remove the file",
    ))
}

impl Drop for Listener {
    fn drop(&mut self) {
        // There is nobody to tell if the name cannot be removed; the next `bind` finds it stale.
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
    /// Connects to the listener at `path`. Waits as long as others wait there to be accepted: for ever, if the listener is stopped.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no socket, [`io::ErrorKind::ConnectionRefused`] if nobody listens; else what the system said.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::connect_on(new_socket(SocketFlags::empty())?, path)
    }

    /// As [`Connection::connect`], waiting no longer than `timeout`, and some microseconds at least. Later sends, if they block, wait no longer either.
    ///
    /// # Errors
    /// As [`Connection::connect`], and [`io::ErrorKind::WouldBlock`] if nobody accepted in time.
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

    /// Sends one datagram with descriptors beside it; all or nothing. The descriptors stay open here.
    ///
    /// # Errors
    /// [`SeqpacketError`]; a datagram that is too long for the system is [`SeqpacketError::Io`].
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

    /// Receives one datagram into `buffer`: its length, and the descriptors beside it (close-on-exec). For a peer that is trusted: closing
    /// a descriptor may take as long as its sender likes. [`Connection::recv_bytes`] takes none.
    ///
    /// # Errors
    /// [`SeqpacketError`]. After any but `WouldBlock` the datagram, if there was one, is gone, and its descriptors are closed.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), SeqpacketError> {
        let max = buffer.len();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(KERNEL_DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = self
            .receive(buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .map_err(from_errno)?;
        // Taken out before anything is refused: whatever is not returned is closed.
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

    /// Receives one datagram into `buffer` and gives its length. One that bears descriptors is left where it is, so that none is ever
    /// closed here: [`Connection::hang_up`], and drop the connection where that may take long. One receiver at a time.
    ///
    /// # Errors
    /// [`SeqpacketError`]. After `WouldBlock` and `Descriptors` nothing has been taken.
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

    /// Ends the connection in both directions, and takes out what the other end has sent and nobody has read. Returns whether nothing is left:
    /// only then does dropping the connection wait for nobody. What was sent to the other end can still be read there.
    #[must_use = "what is left may be slow to close: give the connection to a `Reaper`"]
    pub fn hang_up(&self) -> bool {
        // From here on nothing more arrives. With each datagram there is now the sender's name, so an empty one is not taken for the end.
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

    /// What the next datagram is. It stays where it is: the kernel counts the references of its descriptors up and down again.
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
            // An end that closed without reading all is told once, before what it had sent.
            Err(Errno::CONNRESET) => receive(),
            received => received,
        }
    }

    /// Sleeps until there is something to receive (or the other end has closed), or `timeout` has passed (`None`: for ever).
    /// Returns whether there is.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        wait_readable(self.fd.as_fd(), timeout)
    }

    /// Who is at the other end.
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

    /// The process that made the other end: readable once it has ended, whoever else holds that end by then. `None` where the kernel has
    /// no such thing to give (before Linux 6.5, of a process that is not visible from here), or has no descriptor left.
    #[must_use]
    pub fn peer_process(&self) -> Option<OwnedFd> {
        getsockopt(&self.fd, PeerPidfd).ok().or_else(|| {
            // By its number, which is still its own as long as it lives: it has just connected.
            let pid = Pid::from_raw(self.peer_credentials().ok()?.pid)?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        })
    }

    /// The supplementary groups that the process at the other end had when it connected, by the kernel's word.
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

/// What lies at the head of a connection.
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
        return Err(in_use(path, "something other than a socket lies there"));
    }
    // Non-blocking: a listener whose backlog is full is alive, and must not hold us up.
    match connect(&new_socket(SocketFlags::NONBLOCK)?, address) {
        Err(Errno::CONNREFUSED) => Ok(unlink(path)?),
        Err(Errno::NOENT) => Ok(()),
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => {
            Err(in_use(path, "somebody listens there already"))
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
