//! UDP, TCP and packet sockets of the kernel over the same virtual cable.
//!
//! ```text
//!   client (near core) ─► socket, IP ─► veth ─► IP, socket ─► server (far core)    and back
//! ```
//! There is one thread at either end, with its own core. The sides differ in how both threads wait.
//! They sleep in `recv`, as programs do (`udp`, `tcp`). Or they call it repeatedly (`-spin`), which
//! uses a whole core as a polling lane does. Or they wait in the kernel, which polls the interface
//! (`-busy`: `SO_BUSY_POLL` and `SO_PREFER_BUSY_POLL` with deferred interrupts, as in
//! Documentation/networking/napi.rst). `tcp-rto` is `tcp` with a shorter minimum retransmission
//! timeout.

use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::{
        prctl,
        socket::{MsgFlags, recv, send, setsockopt, sockopt::ReceiveTimeout},
        time::{TimeSpec, TimeVal, TimeValLike},
    },
};

use super::{
    busy_poll::{self, BusyPolling},
    drive::{Client, Clock, Repeat},
    frames,
    peer::{Load, Medium, Peer, Scene},
};
use crate::{
    bare::packet_ring,
    beside::{beside, join},
    cores::pin,
    host::Host,
    report::Description,
    stage::{Namespace, Stage, ip},
};

/// The client's address.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 1);

/// The server's.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 87, 0, 2)), 7);

/// The network of both.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 0);

/// Maximum sleep of a thread in a call before it checks for the end of the measurement.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Largest request in a datagram: an MTU of 1500 less headers of IPv4 and UDP.
const DATAGRAM_BYTES_MAX: usize = 1500 - 20 - 8;

/// Largest request over TCP.
const STREAM_BYTES_MAX: usize = 64 << 10;

/// Minimum retransmission timeout over a cable: round trips are far shorter, and a tick of the
/// kernel's clock is not longer.
const RTO_MIN_MS: u32 = 5;

/// Answers that are taken at a time.
const ANSWERS_MAX: usize = 64;

/// Which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Udp,
    Tcp,
    /// Frames, by packet sockets.
    Packet,
}

/// How both ends wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Asleep.
    Asleep,
    /// By asking again and again.
    Spinning,
    /// In the kernel, which polls the interface.
    BusyPoll,
}

/// One of them.
struct Sockets {
    name: &'static str,
    protocol: Protocol,
    waiting: Waiting,
    /// Least time to a retransmission, where it is not the kernel's own.
    rto_min_ms: Option<u32>,
}

/// All of them.
pub fn peers() -> Vec<Box<dyn Peer>> {
    use Protocol::{Packet, Tcp, Udp};
    use Waiting::{Asleep, BusyPoll, Spinning};
    [
        ("udp", Udp, Asleep),
        ("udp-spin", Udp, Spinning),
        ("udp-busy", Udp, BusyPoll),
        ("tcp", Tcp, Asleep),
        ("tcp-spin", Tcp, Spinning),
        ("tcp-busy", Tcp, BusyPoll),
        ("tcp-rto", Tcp, Asleep),
        ("af_packet", Packet, Asleep),
        ("af_packet-spin", Packet, Spinning),
        ("af_packet-busy", Packet, BusyPoll),
    ]
    .into_iter()
    .map(|(name, protocol, waiting)| {
        Box::new(Sockets {
            name,
            protocol,
            waiting,
            rto_min_ms: (name == "tcp-rto").then_some(RTO_MIN_MS),
        }) as Box<dyn Peer>
    })
    .collect()
}

/// Returns the server's address.
pub const fn server_at() -> IpAddr {
    SERVER.ip()
}

/// Gives both ends of the cable their addresses, unless they have them.
///
/// # Errors
/// Among others: the kernel is set to poll all sockets busily, which is another measurement.
pub fn give_addresses(stage: &Stage) -> Result<()> {
    let path = "/proc/sys/net/core/busy_read";
    let busy_us = fs::read_to_string(path).unwrap_or_else(|_| "0".to_owned());
    ensure!(
        busy_us.trim() == "0",
        "new sockets are polled busily for {} µs ({path})\n  cure: sysctl net.core.busy_read=0 \
         while this measures",
        busy_us.trim()
    );
    let server = SERVER.ip().to_string();
    for (namespace, address, interface) in [
        (&stage.a, CLIENT.to_string(), "a0"),
        (&stage.b, server, "b0"),
    ] {
        let address = format!("{address}/24");
        namespace.within(|| ip(&["addr", "replace", &address, "dev", interface]))?;
    }
    Ok(())
}

impl Peer for Sockets {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        Medium::Wire
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        let stage = scene.stage()?;
        give_addresses(stage)?;
        let busy = match self.waiting {
            Waiting::BusyPoll => Some(BusyPolling::on(stage)?),
            _ => None,
        };
        drop(busy);
        let protocol = match self.protocol {
            Protocol::Udp => "UDP, connected sockets",
            Protocol::Tcp => "TCP, one connection, TCP_NODELAY",
            Protocol::Packet => {
                "AF_PACKET, SOCK_RAW sockets at both ends bound to one EtherType, \
                 PACKET_QDISC_BYPASS, no ring: usually one frame is in flight, not many"
            }
        };
        let waiting = match self.waiting {
            Waiting::Asleep => {
                "both ends sleep in the kernel (recv and ppoll; timer slack 1 ns), busy polling off"
                    .to_owned()
            }
            Waiting::Spinning => "both ends call recv again and again, busy polling off".to_owned(),
            Waiting::BusyPoll => busy_poll::words(),
        };
        let rto = self.rto_min_ms.map_or_else(String::new, |ms| {
            format!("; rto_min {ms} ms on the route (`ip route change`; the kernel's own is 200)")
        });
        Ok(Description {
            what: format!("kernel {protocol}"),
            version: format!("Linux {}", Host::observed().kernel),
            tuning: waiting + &rto,
            commands: Vec::new(),
        })
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        let most = match self.protocol {
            Protocol::Udp => DATAGRAM_BYTES_MAX,
            Protocol::Tcp => STREAM_BYTES_MAX,
            Protocol::Packet => frames::PAYLOAD_BYTES_MAX,
        };
        (load.bytes > most).then(|| format!("a request of {} has at most {most} bytes", self.name))
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        let stage = scene.stage()?;
        let _busy = match self.waiting {
            Waiting::BusyPoll => Some(BusyPolling::on(stage)?),
            _ => None,
        };
        let _rto = self
            .rto_min_ms
            .map(|ms| RtoMin::set(stage, ms))
            .transpose()?;
        exchange(
            self.protocol,
            self.waiting,
            [&stage.a, &stage.b],
            SERVER,
            scene,
            load,
        )
    }
}

/// A minimum retransmission timeout at both ends, restored on drop.
struct RtoMin<'a>(&'a Stage);

impl<'a> RtoMin<'a> {
    fn set(stage: &'a Stage, ms: u32) -> Result<Self> {
        let this = Self(stage);
        this.change(&["rto_min", &format!("{ms}ms")])?;
        Ok(this)
    }

    fn change(&self, metric: &[&str]) -> Result<()> {
        let (client, server) = (CLIENT.to_string(), SERVER.ip().to_string());
        for (namespace, address, interface) in
            [(&self.0.a, client, "a0"), (&self.0.b, server, "b0")]
        {
            let network = format!("{NETWORK}/24");
            let route = ["route", "change", &network, "dev", interface];
            let own = ["proto", "kernel", "scope", "link", "src", &address];
            namespace.within(|| ip(&[&route[..], &own, metric].concat()))?;
        }
        Ok(())
    }
}

impl Drop for RtoMin<'_> {
    fn drop(&mut self) {
        // The namespaces vanish with this process, but a later side would still use the setting. So
        // report the failure.
        if let Err(problem) = self.change(&[]) {
            let _ = writeln!(
                io::stderr(),
                "covalent-bench: cannot restore rto_min: {problem:#}"
            );
        }
    }
}

/// Requests and answers between two namespaces that have addresses.
pub fn exchange(
    protocol: Protocol,
    waiting: Waiting,
    [near, far]: [&Namespace; 2],
    server: SocketAddr,
    scene: &Scene<'_>,
    load: &Load,
) -> Result<Repeat> {
    let bytes = load.bytes;
    let listener = match protocol {
        Protocol::Udp | Protocol::Packet => None,
        Protocol::Tcp => Some(far.within(|| {
            TcpListener::bind(server).with_context(|| format!("listening on {server}"))
        })?),
    };
    let open = || {
        far.enter()?;
        pin(scene.cores.far)?;
        let socket = match protocol {
            Protocol::Udp => {
                Socket::Udp(UdpSocket::bind(server).context("binding the UDP server")?)
            }
            Protocol::Tcp => Socket::None,
            Protocol::Packet => Socket::packet("b0")?,
        };
        Server::new(socket, waiting, bytes, listener.as_ref())
    };
    let measure = || {
        near.enter()?;
        pin(scene.cores.near)?;
        // The default timer slack delays wakeups by up to 50 µs.
        prctl::set_timerslack(1).context("asking for exact timers")?;
        let socket = match protocol {
            Protocol::Udp => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
                    .context("binding the UDP client")?;
                socket
                    .connect(server)
                    .context("connecting the UDP client")?;
                Socket::Udp(socket)
            }
            Protocol::Tcp => {
                let stream = TcpStream::connect(server).context("connecting the TCP client")?;
                stream.set_nodelay(true).context("asking for no delay")?;
                Socket::Tcp(stream)
            }
            Protocol::Packet => Socket::packet("a0")?,
        };
        let mut requester = Requester::new(socket, waiting, bytes)?;
        let mut repeat = load.measure(&mut requester)?;
        if waiting == Waiting::BusyPoll && !requester.socket.is_polled()? {
            repeat.note = Some(busy_poll::NO_EFFECT);
        }
        Ok(repeat)
    };
    // In a thread of its own, for it enters a namespace.
    beside(open, Server::round, || {
        thread::scope(|scope| join(scope.spawn(measure)))
    })
}

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Packet(OwnedFd),
    /// No client is connected yet.
    None,
}

impl Socket {
    /// Sets how its calls wait, at most for [`RECHECK_INTERVAL`].
    fn prepare(&self, waiting: Waiting) -> Result<()> {
        let action = "setting how a socket waits";
        let spins = waiting == Waiting::Spinning;
        match self {
            Self::Udp(socket) => {
                socket.set_nonblocking(spins).context(action)?;
                socket
                    .set_read_timeout(Some(RECHECK_INTERVAL))
                    .context(action)?;
                if waiting == Waiting::BusyPoll {
                    busy_poll::enable(socket)?;
                }
            }
            Self::Tcp(stream) => {
                stream.set_nonblocking(spins).context(action)?;
                stream
                    .set_read_timeout(Some(RECHECK_INTERVAL))
                    .context(action)?;
                if waiting == Waiting::BusyPoll {
                    busy_poll::enable(stream)?;
                }
            }
            Self::Packet(socket) => {
                setsockopt(
                    socket,
                    ReceiveTimeout,
                    &TimeVal::microseconds(RECHECK_INTERVAL.as_micros() as i64),
                )
                .context(action)?;
                if waiting == Waiting::BusyPoll {
                    busy_poll::enable(socket)?;
                }
            }
            Self::None => {}
        }
        Ok(())
    }

    /// One for our frames on `interface` in the calling thread's namespace.
    fn packet(interface: &str) -> Result<Self> {
        let socket = packet_ring::plain(interface, frames::ETHERTYPE)
            .with_context(|| format!("opening a packet socket on {interface}"))?;
        Ok(Self::Packet(socket))
    }

    /// Whether the kernel knows which queue to poll for it.
    fn is_polled(&self) -> Result<bool> {
        match self {
            Self::Udp(socket) => busy_poll::polls(socket),
            Self::Tcp(stream) => busy_poll::polls(stream),
            Self::Packet(socket) => busy_poll::polls(socket),
            Self::None => Ok(false),
        }
    }

    /// A request of so many bytes as it is handed over, and where its number stands.
    fn request(&self, bytes: usize) -> (Vec<u8>, usize) {
        match self {
            Self::Packet(_) => (frames::frame(bytes), frames::HEADER_BYTES),
            _ => (vec![0x5a; bytes], 0),
        }
    }

    fn fd(&self) -> Option<RawFd> {
        match self {
            Self::Udp(socket) => Some(socket.as_raw_fd()),
            Self::Tcp(stream) => Some(stream.as_raw_fd()),
            Self::Packet(socket) => Some(socket.as_raw_fd()),
            Self::None => None,
        }
    }

    /// Receives pending data, or waits for it. Returns 0 if nothing arrived.
    fn receive(&mut self, buffer: &mut [u8], wait: bool) -> Result<usize> {
        let flags = if wait {
            MsgFlags::empty()
        } else {
            MsgFlags::MSG_DONTWAIT
        };
        let Some(fd) = self.fd() else {
            return Ok(0);
        };
        match recv(fd, buffer, flags) {
            Ok(0) if matches!(self, Self::Tcp(_)) => {
                anyhow::bail!("the other end has closed the connection")
            }
            Ok(count) => Ok(count),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => Err(errno).context("receiving"),
        }
    }
}

/// Received bytes, split into messages of one size: a UDP datagram is one message, a TCP stream
/// holds several in sequence.
struct Inbox {
    bytes: usize,
    buffer: Vec<u8>,
    filled: usize,
}

impl Inbox {
    fn new(bytes: usize) -> Self {
        Self {
            bytes,
            buffer: vec![0; bytes * ANSWERS_MAX],
            filled: 0,
        }
    }

    /// Receives once and calls `each` for every complete message. Returns whether anything arrived.
    fn take(
        &mut self,
        socket: &mut Socket,
        wait: bool,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let room = match socket {
            Socket::Udp(_) | Socket::Packet(_) => self.bytes,
            _ => self.buffer.len() - self.filled,
        };
        let count = socket.receive(&mut self.buffer[self.filled..self.filled + room], wait)?;
        if count == 0 {
            return Ok(false);
        }
        self.filled += count;
        let whole = self.filled / self.bytes * self.bytes;
        for message in self.buffer[..whole].chunks_exact(self.bytes) {
            each(message)?;
        }
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        if matches!(socket, Socket::Udp(_) | Socket::Packet(_)) {
            ensure!(
                self.filled == 0,
                "a datagram has {} bytes instead of {}",
                count,
                self.bytes
            );
        }
        Ok(true)
    }
}

/// The client.
struct Requester {
    socket: Socket,
    waiting: Waiting,
    request: Vec<u8>,
    /// Offset of the number in it.
    number_at: usize,
    /// Bytes of the request that the kernel has not taken.
    unsent: usize,
    inbox: Inbox,
    /// Answers that were received while waiting.
    came: Vec<u64>,
}

impl Requester {
    fn new(socket: Socket, waiting: Waiting, bytes: usize) -> Result<Self> {
        socket.prepare(waiting)?;
        let (request, number_at) = socket.request(bytes);
        Ok(Self {
            socket,
            waiting,
            inbox: Inbox::new(request.len()),
            request,
            number_at,
            unsent: 0,
            came: Vec::with_capacity(ANSWERS_MAX),
        })
    }

    fn receive(&mut self, wait: bool) -> Result<bool> {
        let Self {
            socket,
            inbox,
            came,
            number_at,
            ..
        } = self;
        inbox.take(socket, wait, |message| {
            came.push(number_of(&message[*number_at..]));
            Ok(())
        })
    }

    /// Hands the rest of a request over. Whether all of it was taken.
    fn write(&mut self) -> Result<bool> {
        while self.unsent > 0 {
            let rest = &self.request[self.request.len() - self.unsent..];
            let Some(fd) = self.socket.fd() else {
                return Ok(true);
            };
            match send(fd, rest, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => self.unsent -= count,
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => return Ok(false),
                Err(errno) => return Err(errno).context("sending a request"),
            }
        }
        Ok(true)
    }
}

impl Client for Requester {
    fn send(&mut self, number: u64) -> Result<bool> {
        // First send the rest of the previous request, if the kernel has taken only a part of it.
        if !self.write()? {
            return Ok(false);
        }
        self.request[self.number_at..][..8].copy_from_slice(&number.to_le_bytes());
        self.unsent = self.request.len();
        let before = self.unsent;
        // A part is as good as taken: the rest follows before the next.
        if !self.write()? && self.unsent == before {
            self.unsent = 0;
            return Ok(false);
        }
        Ok(true)
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        self.write()?;
        // After a wait that returned a reply, do not receive again at once.
        if self.came.is_empty() {
            self.receive(false)?;
        }
        self.came.drain(..).for_each(answered);
        Ok(())
    }

    fn wait(&mut self, until_ns: u64, clock: &dyn Clock) -> Result<()> {
        if self.waiting == Waiting::Spinning || !self.came.is_empty() {
            std::hint::spin_loop();
            return Ok(());
        }
        let left = Duration::from_nanos(until_ns.saturating_sub(clock.now_ns()));
        if left >= RECHECK_INTERVAL {
            self.receive(true)?;
        } else if self.waiting == Waiting::BusyPoll {
            // ppoll would sleep; each look polls the interface once.
            self.receive(false)?;
        } else {
            let fd = match &self.socket {
                Socket::Udp(socket) => socket.as_fd(),
                Socket::Tcp(stream) => stream.as_fd(),
                Socket::Packet(socket) => socket.as_fd(),
                Socket::None => return Ok(()),
            };
            let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
            match ppoll(&mut fds, Some(TimeSpec::from_duration(left)), None) {
                Ok(0) | Err(Errno::EINTR) => return Ok(()),
                Ok(_) => {}
                Err(errno) => return Err(errno).context("waiting for an answer"),
            }
            self.receive(false)?;
        }
        Ok(())
    }
}

/// The server.
struct Server<'a> {
    socket: Socket,
    waiting: Waiting,
    listener: Option<&'a TcpListener>,
    inbox: Inbox,
}

impl<'a> Server<'a> {
    fn new(
        socket: Socket,
        waiting: Waiting,
        bytes: usize,
        listener: Option<&'a TcpListener>,
    ) -> Result<Self> {
        socket.prepare(waiting)?;
        let bytes = socket.request(bytes).0.len();
        if let Some(listener) = listener {
            listener
                .set_nonblocking(true)
                .context("making a listener nonblocking")?;
        }
        Ok(Self {
            socket,
            waiting,
            listener,
            inbox: Inbox::new(bytes),
        })
    }

    /// Replies to pending requests.
    fn round(&mut self) -> Result<()> {
        match self.socket {
            Socket::Udp(_) => self.answer_datagram(),
            Socket::Tcp(_) => self.answer_stream(),
            Socket::Packet(_) => self.answer_frame(),
            Socket::None => self.accept(),
        }
    }

    fn answer_datagram(&mut self) -> Result<()> {
        let Socket::Udp(socket) = &self.socket else {
            return Ok(());
        };
        match socket.recv_from(&mut self.inbox.buffer) {
            Ok((count, from)) => {
                socket
                    .send_to(&self.inbox.buffer[..count], from)
                    .context("answering a datagram")?;
            }
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error).context("receiving a datagram"),
        }
        Ok(())
    }

    fn answer_frame(&mut self) -> Result<()> {
        let wait = self.waiting != Waiting::Spinning;
        let count = self.socket.receive(&mut self.inbox.buffer, wait)?;
        if let (1.., Some(fd)) = (count, self.socket.fd()) {
            send(fd, &self.inbox.buffer[..count], MsgFlags::MSG_NOSIGNAL)
                .context("answering a frame")?;
        }
        Ok(())
    }

    fn answer_stream(&mut self) -> Result<()> {
        let Socket::Tcp(stream) = &mut self.socket else {
            return Ok(());
        };
        match stream.read(&mut self.inbox.buffer) {
            // The client is done.
            Ok(0) => self.socket = Socket::None,
            Ok(count) => {
                let mut rest = &self.inbox.buffer[..count];
                while !rest.is_empty() {
                    match stream.write(rest) {
                        Ok(count) => rest = &rest[count..],
                        Err(error) if is_later(&error) => std::hint::spin_loop(),
                        // The client may also close with replies in flight.
                        Err(error) if is_gone(&error) => {
                            self.socket = Socket::None;
                            break;
                        }
                        Err(error) => return Err(error).context("answering over TCP"),
                    }
                }
            }
            Err(error) if is_later(&error) => {}
            Err(error) if is_gone(&error) => self.socket = Socket::None,
            Err(error) => return Err(error).context("receiving over TCP"),
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<()> {
        let Some(listener) = self.listener else {
            return Ok(());
        };
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nodelay(true).context("asking for no delay")?;
                self.socket = Socket::Tcp(stream);
                self.socket.prepare(self.waiting)?;
            }
            Err(error) if is_later(&error) => thread::sleep(Duration::from_micros(100)),
            Err(error) => return Err(error).context("accepting a connection"),
        }
        Ok(())
    }
}

fn number_of(message: &[u8]) -> u64 {
    message
        .first_chunk()
        .map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns whether a call found no data or no space.
fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}
