//! Stream sockets of the kernel: Unix, and TCP over the loopback interface.

use std::{
    io::{self, IoSlice, Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use crate::streams::{
    case::Test,
    part::{Means, Part, Side},
    peers::{
        TRIPS_PER_POLL,
        messages::{Messages, PREFIX_BYTES, Received, Sending},
    },
    role::{Act, Prepared, Stage, source},
    source::{AFTER, Source, TOUCHED},
    tally::Tally,
};

/// Requested buffer size of each socket, each way.
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes per read of the receiver, unless a message is longer.
const READ_BYTES: usize = 256 << 10;

/// Messages from this length on are not copied together before they are written.
const GATHERED_FROM_BYTES: usize = 4 << 10;

/// Describes the tuning of one kind, with the buffer sizes that the kernel granted.
pub fn tuning(means: Means) -> Result<String> {
    let (granted, no_delay) = match means {
        Means::Unix => (Buffers::of(&unix_pair()?.0)?, ""),
        _ => (Buffers::of(&tcp_pair()?.0)?, ", TCP_NODELAY"),
    };
    Ok(format!(
        "{} KiB requested each way, SO_SNDBUF reads {} KiB and SO_RCVBUF {} KiB (the kernel \
         doubles the granted size){no_delay}; blocking but for the round trip; a batch is copied \
         together and written at once, messages of {} KiB and more by writev without a copy; reads \
         of up to {} KiB",
        BUFFER_BYTES >> 10,
        granted.send_bytes >> 10,
        granted.receive_bytes >> 10,
        GATHERED_FROM_BYTES >> 10,
        READ_BYTES >> 10
    ))
}

/// The buffer sizes of a socket, as the kernel reports them.
struct Buffers {
    send_bytes: usize,
    receive_bytes: usize,
}

impl Buffers {
    fn of(socket: &impl AsFd) -> Result<Self> {
        let action = "asking for the size of a socket's buffers";
        Ok(Self {
            send_bytes: getsockopt(socket, sockopt::SndBuf).context(action)?,
            receive_bytes: getsockopt(socket, sockopt::RcvBuf).context(action)?,
        })
    }
}

/// A stream socket of any kind.
trait Stream: Read + Write + AsFd + Sized + 'static {
    fn unblock(&self) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn unblock(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

impl Stream for TcpStream {
    fn unblock(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

/// Gets one side ready.
pub fn prepare(part: &Part, fds: Vec<OwnedFd>) -> Result<Prepared> {
    match (part.means, part.side) {
        (Means::Unix, Side::Near) => {
            let (near, far) = unix_pair()?;
            near_side(part, near, far.into())
        }
        (_, Side::Near) => {
            let (near, far) = tcp_pair()?;
            near_side(part, near, far.into())
        }
        (means, Side::Far) => {
            let fd = fds
                .into_iter()
                .next()
                .context("the other end was not handed over")?;
            match means {
                Means::Unix => far_side(part, UnixStream::from(fd)),
                _ => far_side(part, TcpStream::from(fd)),
            }
        }
        (_, Side::Aid) => bail!("sockets need no third process"),
    }
}

fn unix_pair() -> Result<(UnixStream, UnixStream)> {
    let (near, far) = UnixStream::pair().context("making a pair of sockets")?;
    enlarge(&near);
    enlarge(&far);
    Ok((near, far))
}

fn tcp_pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
    let address = listener.local_addr().context("listening on loopback")?;
    let near = TcpStream::connect(address).context("connecting over loopback")?;
    let (far, _) = listener.accept().context("accepting over loopback")?;
    for end in [&near, &far] {
        end.set_nodelay(true).context("asking for no delay")?;
        enlarge(end);
    }
    Ok((near, far))
}

/// Requests larger buffers: beyond the system's limit if this process may, else up to it.
fn enlarge(socket: &impl AsFd) {
    // Ignore errors: a socket with smaller buffers works too, only slower. The kernel decides the
    // size.
    if setsockopt(socket, sockopt::SndBufForce, &BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &BUFFER_BYTES);
    }
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &BUFFER_BYTES);
    }
}

fn near_side<S: Stream>(part: &Part, mut socket: S, other: OwnedFd) -> Result<Prepared> {
    let act: Act = match part.case.test {
        Test::Stream | Test::StreamUnbatched => {
            let sending = Sending::of(part.case)?;
            let mut messages = Messages::new(sending.message_bytes);
            Box::new(move |stage| send(&mut socket, &mut messages, sending, stage))
        }
        Test::RoundTrip => {
            let mut source = source(part)?;
            socket.unblock().context("making a socket poll")?;
            Box::new(move |stage| ping(&mut socket, &mut source, stage))
        }
        Test::Echo | Test::OneWay => bail!("sockets carry streams, not packets"),
    };
    Ok(Prepared {
        note: String::new(),
        fds: vec![other],
        act,
    })
}

fn far_side<S: Stream>(part: &Part, mut socket: S) -> Result<Prepared> {
    Ok(match part.case.test {
        Test::RoundTrip => {
            socket.unblock().context("making a socket poll")?;
            let length = source(part)?.next_packet().len();
            Prepared::plain(move |stage| answer(&mut socket, length, stage))
        }
        _ => {
            let batch_bytes = Sending::of(part.case)?.batch_bytes();
            Prepared::plain(move |stage| receive(&mut socket, READ_BYTES.max(batch_bytes), stage))
        }
    })
}

fn send<S: Stream>(
    socket: &mut S,
    messages: &mut Messages,
    sending: Sending,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let mut sent = 0;
    let mut batch = vec![0; sending.batch_bytes()];
    let prefix = messages.prefix();
    // A single message is also written with one vectored call: its prefix and its bytes, without a
    // copy.
    let gather = sending.message_bytes >= GATHERED_FROM_BYTES;
    while stage.meter.continues(sent, 0) {
        let written = if sending.per_batch == 1 {
            let place = messages.next_place();
            let mut slices = [&prefix[..], messages.at(place)].map(IoSlice::new);
            write_all_vectored(socket, &mut slices)
        } else if gather {
            let places: Vec<_> = (0..sending.per_batch)
                .map(|_| messages.next_place())
                .collect();
            let mut slices: Vec<_> = places
                .into_iter()
                .flat_map(|place| [&prefix[..], messages.at(place)])
                .map(IoSlice::new)
                .collect();
            write_all_vectored(socket, &mut slices)
        } else {
            messages.fill(&mut batch);
            socket.write_all(&batch)
        };
        match written {
            Ok(()) => sent += sending.per_batch as u64,
            // The receiver has counted enough.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                break;
            }
            Err(error) => return Err(error).context("writing to a socket"),
        }
    }
    Ok(stage.meter.finish(sent, 0))
}

fn write_all_vectored(socket: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match socket.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive<S: Stream>(socket: &mut S, buffer_bytes: usize, mut stage: Stage<'_>) -> Result<Tally> {
    let mut buffer = vec![0; buffer_bytes + PREFIX_BYTES];
    let mut filled = 0;
    let mut received = Received::default();
    while stage.meter.continues(received.count, received.bytes) {
        let length = socket
            .read(&mut buffer[filled..])
            .context("reading from a socket")?;
        if length == 0 {
            break;
        }
        filled += length;
        let taken = received.take_all(&buffer[..filled]);
        if taken > 0 {
            buffer.copy_within(taken..filled, 0);
            filled -= taken;
        }
    }
    received.check()?;
    Ok(stage.meter.finish(received.count, received.bytes))
}

fn ping<S: Stream>(socket: &mut S, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut trips, mut wrong) = (0, 0);
    let mut answer = Vec::new();
    while stage.meter.observe(trips, 0) {
        let before = Instant::now();
        for _ in 0..TRIPS_PER_POLL {
            let packet = source.next_packet();
            answer.resize(packet.len(), 0);
            if !write_polling(socket, packet, &stage)?
                || !read_polling(socket, &mut answer, &stage)?
            {
                return Ok(stage.meter.finish(trips, 0));
            }
            wrong += u64::from(answer[TOUCHED] != AFTER);
            trips += 1;
        }
        stage.meter.time(before.elapsed() / TRIPS_PER_POLL);
    }
    ensure!(wrong == 0, "{wrong} messages were returned altered");
    Ok(stage.meter.finish(trips, 0))
}

fn answer<S: Stream>(socket: &mut S, length: usize, mut stage: Stage<'_>) -> Result<Tally> {
    let mut message = vec![0; length];
    let mut count = 0;
    while stage.meter.continues(count, 0) {
        if !read_polling(socket, &mut message, &stage)? {
            break;
        }
        message[TOUCHED] = message[TOUCHED].wrapping_add(1);
        if !write_polling(socket, &message, &stage)? {
            break;
        }
        count += 1;
    }
    Ok(stage.meter.finish(count, 0))
}

/// Returns `false` if a stop is requested or the other end has closed.
fn read_polling(socket: &mut impl Read, target: &mut [u8], stage: &Stage<'_>) -> Result<bool> {
    let mut filled = 0;
    while filled < target.len() {
        match stage.await_some(|| polled(socket.read(&mut target[filled..]))) {
            None | Some(Ok(0)) => return Ok(false),
            Some(length) => filled += length.context("reading from a socket")?,
        }
    }
    Ok(true)
}

fn write_polling(socket: &mut impl Write, message: &[u8], stage: &Stage<'_>) -> Result<bool> {
    let mut written = 0;
    while written < message.len() {
        match stage.await_some(|| polled(socket.write(&message[written..]))) {
            None => return Ok(false),
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
            Some(length) => written += length.context("writing to a socket")?,
        }
    }
    Ok(true)
}

fn polled(result: io::Result<usize>) -> Option<io::Result<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        result => Some(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_shows_the_requested_and_granted_buffers() {
        let (end, _other) = unix_pair().expect("sockets");
        let granted = Buffers::of(&end).expect("sizes");
        assert!(granted.send_bytes > 0 && granted.receive_bytes > 0);
        let unix = tuning(Means::Unix).expect("sockets");
        let words = format!(
            "SO_SNDBUF reads {} KiB and SO_RCVBUF {} KiB",
            granted.send_bytes >> 10,
            granted.receive_bytes >> 10
        );
        assert!(unix.contains(&words), "{words:?} is not in {unix}");
        assert!(!unix.contains("NODELAY"), "{unix}");
        assert!(tuning(Means::Tcp).expect("sockets").contains("TCP_NODELAY"));
    }
}
