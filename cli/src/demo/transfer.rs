//! A TCP transfer through the kernel's network stack, over one of the veth pairs, while the
//! dataplane uses it.
//!
//! It shows that steering takes only the frames that its rules match. The rate is low on purpose:
//! the transfer shares two cores with everything else.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use crc_fast::{CrcAlgorithm, Digest};
use serde::Serialize;

use super::{namespace::Namespace, patience::stretched};

/// The kernel's address on node a.
pub const ADDRESS_A: Ipv4Addr = Ipv4Addr::new(198, 18, 55, 1);

/// The kernel's address on node b.
pub const ADDRESS_B: Ipv4Addr = Ipv4Addr::new(198, 18, 55, 2);

/// Length of the prefix that both addresses share, in bits.
pub const PREFIX_BITS: u8 = 24;

const PORT: u16 = 5001;

/// Bytes written at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks are this far apart: 26 MB/s.
const CHUNK_INTERVAL: Duration = Duration::from_micros(2_500);

/// Longest wait for a single read, write, connect or accept. A transfer that stalls longer has
/// failed.
const PATIENCE: Duration = Duration::from_secs(3);

/// The result of the transfer.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Bytes that the sender gave to its socket.
    pub sent_bytes: u64,
    /// Bytes that the receiver read.
    pub received_bytes: u64,
    /// Whether the checksums (CRC-64) of both sides agree.
    pub checksums_agree: bool,
    /// Segments that the sender's kernel retransmitted; `None` if the kernel does not report it.
    pub retransmitted_segments: Option<u64>,
    /// How long it ran, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Outcome {
    /// Returns whether nothing was changed or lost. TCP recovers from a loss and delivers all bytes
    /// anyway; only a retransmission reveals it.
    pub fn is_whole(&self) -> bool {
        self.sent_bytes > 0
            && self.sent_bytes == self.received_bytes
            && self.checksums_agree
            && self.retransmitted_segments == Some(0)
    }
}

/// A running transfer. Dropping it stops it.
pub struct Transfer {
    stop: Arc<AtomicBool>,
    began: Instant,
    sender: Option<JoinHandle<Result<Sent>>>,
    receiver: Option<JoinHandle<Result<Side>>>,
}

/// The result of one side.
struct Side {
    bytes: u64,
    checksum: u64,
}

/// The result of the sender and of its kernel.
struct Sent {
    side: Side,
    retransmitted_segments: Option<u64>,
}

impl Transfer {
    /// Starts sending from `a` to `b`, until it is stopped.
    ///
    /// # Errors
    /// When the listener cannot be opened.
    pub fn start(a: &Arc<Namespace>, b: &Arc<Namespace>) -> Result<Self> {
        let listener = b.run(|| {
            let listener = TcpListener::bind((ADDRESS_B, PORT))
                .context("cannot listen for the TCP transfer")?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        // A socket belongs to the namespace in which it was created, so only the connecting thread
        // must be inside.
        let receiver = thread::Builder::new()
            .name("tcp-in".into())
            .spawn(move || receive(&accept(&listener)?))?;
        let sender = {
            let (namespace, stop) = (Arc::clone(a), Arc::clone(&stop));
            thread::Builder::new()
                .name("tcp-out".into())
                .spawn(move || {
                    namespace.enter()?;
                    Ok(Sent {
                        side: send(&stop)?,
                        retransmitted_segments: retransmitted_segments(),
                    })
                })?
        };
        Ok(Self {
            stop,
            began: Instant::now(),
            sender: Some(sender),
            receiver: Some(receiver),
        })
    }

    /// Stops it and compares both sides.
    ///
    /// # Errors
    /// When one side broke off.
    pub fn finish(mut self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let Sent {
            side: sent,
            retransmitted_segments,
        } = join(self.sender.take()).context("the TCP sender broke off")?;
        let received = join(self.receiver.take()).context("the TCP receiver broke off")?;
        Ok(Outcome {
            sent_bytes: sent.bytes,
            received_bytes: received.bytes,
            checksums_agree: sent.checksum == received.checksum,
            retransmitted_segments,
            elapsed_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Both threads exit within PATIENCE. Their results are no longer needed.
        let _ = join(self.sender.take());
        let _ = join(self.receiver.take());
    }
}

fn join<T>(thread: Option<JoinHandle<Result<T>>>) -> Result<T> {
    thread.map_or_else(
        || bail!("it was ended before"),
        |thread| thread.join().map_err(|_| anyhow!("its thread panicked"))?,
    )
}

fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let deadline = Instant::now() + stretched(PATIENCE);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error).context("no client connected"),
        }
    }
}

fn receive(mut stream: &TcpStream) -> Result<Side> {
    stream.set_read_timeout(Some(stretched(PATIENCE)))?;
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let mut bytes = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match stream
            .read(&mut chunk)
            .with_context(|| format!("after {bytes} bytes"))?
        {
            0 => {
                return Ok(Side {
                    bytes,
                    checksum: digest.finalize(),
                });
            }
            count => {
                digest.update(&chunk[..count]);
                bytes += count as u64;
            }
        }
    }
}

fn send(stop: &AtomicBool) -> Result<Side> {
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((ADDRESS_B, PORT)), stretched(PATIENCE))
            .with_context(|| format!("cannot connect to {ADDRESS_B}"))?;
    stream.set_write_timeout(Some(stretched(PATIENCE)))?;
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let mut bytes = 0;
    let mut noise = Noise(1);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        noise.fill(&mut chunk);
        stream
            .write_all(&chunk)
            .with_context(|| format!("after {bytes} bytes"))?;
        digest.update(&chunk);
        bytes += chunk.len() as u64;
        next += CHUNK_INTERVAL;
        // A delayed sender does not catch up. It continues at its normal rate.
        let now = Instant::now();
        next = next.max(now);
        thread::sleep(next - now);
    }
    stream.shutdown(Shutdown::Write)?;
    // The receiver closes after it has read everything: only then has the kernel nothing left to
    // retransmit.
    stream.set_read_timeout(Some(stretched(PATIENCE)))?;
    let _ = stream
        .read(&mut [0])
        .context("the receiver did not close")?;
    Ok(Side {
        bytes,
        checksum: digest.finalize(),
    })
}

/// Bytes that differ between chunks, so that a lost, duplicated or moved chunk changes the
/// checksum.
struct Noise(u64);

impl Noise {
    /// Marsaglia's xorshift64.
    fn fill(&mut self, chunk: &mut [u8]) {
        for word in chunk.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes());
        }
    }
}

/// Returns the number of retransmissions in the calling thread's network namespace since its
/// creation.
fn retransmitted_segments() -> Option<u64> {
    counter(
        &fs::read_to_string("/proc/thread-self/net/snmp").ok()?,
        "Tcp:",
        "RetransSegs",
    )
}

/// A value of `/proc/net/snmp`, where a line of names stands above a line of values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names
        .split_whitespace()
        .position(|candidate| candidate == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{
        super::veth::{self, End},
        *,
    };

    #[test]
    fn the_kernels_counters_are_read_by_name() {
        let text =
            "Ip: Forwarding\nIp: 1\nTcp: RtoMin InSegs RetransSegs OutRsts\nTcp: 200 7 42 0\n";
        assert_eq!(counter(text, "Tcp:", "RetransSegs"), Some(42));
        assert_eq!(counter(text, "Tcp:", "Absent"), None);
        assert_eq!(counter("", "Tcp:", "RetransSegs"), None);
    }

    #[test]
    fn a_transfer_between_two_namespaces_is_whole() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: making network namespaces needs root");
            return;
        }
        let a = Arc::new(Namespace::create().expect("namespace"));
        let b = Arc::new(Namespace::create().expect("namespace"));
        let ends = [
            End {
                namespace: &a,
                interface: "v0",
                mac: [2, 0, 0, 0, 0, 1],
            },
            End {
                namespace: &b,
                interface: "v0",
                mac: [2, 0, 0, 0, 0, 2],
            },
        ];
        veth::join(ends[0], ends[1]).expect("pair");
        veth::address(ends[0], ADDRESS_A, PREFIX_BITS, ADDRESS_B, ends[1].mac).expect("address");
        veth::address(ends[1], ADDRESS_B, PREFIX_BITS, ADDRESS_A, ends[0].mac).expect("address");

        let transfer = Transfer::start(&a, &b).expect("started");
        thread::sleep(Duration::from_millis(200));
        let outcome = transfer.finish().expect("both sides ended well");
        assert!(outcome.is_whole(), "{outcome:?}");
        assert_eq!(outcome.retransmitted_segments, Some(0));
    }
}
