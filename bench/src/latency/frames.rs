//! Raw frames and their echoes. The AF_XDP client is the same for all, so only the echoing side
//! differs.
//!
//! ```text
//!   bare AF_XDP client (near core) ◄══ veth ══► echo (far core)
//!       [af_xdp]         a bare AF_XDP echo
//!       [af_xdp-unread]  the same, and no end reads a frame
//!       [covalent-echo]  covalentd's lane ◄─► an application that echoes a pipe
//!       [dpdk-…]         dpdk-testpmd, which swaps addresses and sends back
//! ```
//! A frame is as long as a link-protocol frame with one record, or longer where the request is.
//! This makes the echo comparable with a verb.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use anyhow::{Context, Result, ensure};
use covalent::{Device, Match};

use super::{
    drive::{Client, Clock, Repeat},
    peer::{Load, Medium, Peer, Scene},
};
use crate::{
    bare::{Steered, Wanted},
    beside::{beside, join},
    cores::pin,
    link_end::BURST,
    node::{Node, Plan},
    rate::Driver,
    report::{Description, without_places},
    streams::{HugePages, TESTPMD, Testpmd, testpmd_version},
};

/// EtherType of the frames (IEEE 802 "local experimental 2"). It differs from the links' EtherType,
/// so the frames go to pipes.
pub const ETHERTYPE: u16 = 0x88b6;

/// Bytes of an Ethernet header.
pub const HEADER_BYTES: usize = 14;

/// Bytes of one record of the link protocol.
const RECORD_BYTES: usize = 64;

/// A frame with one record.
pub const FRAME_BYTES: usize = HEADER_BYTES + RECORD_BYTES;

/// Largest request in a frame.
pub const PAYLOAD_BYTES_MAX: usize = 1500;

/// Bytes of the pipe of an application that echoes.
const PIPE_BYTES: u64 = 2 << 20;

/// How the ends handle received frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frames {
    /// Read them: the echo returns their content, and the client reads the request number.
    Read,
    /// Count them.
    Unread,
}

/// The echoing side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Far {
    Bare(Frames),
    Application,
    Dpdk(Driver),
}

/// One side.
struct Echoed {
    name: &'static str,
    far: Far,
}

/// All that there are, ours first.
pub fn peers() -> Vec<Box<dyn Peer>> {
    [
        ("covalent-echo", Far::Application),
        ("af_xdp", Far::Bare(Frames::Read)),
        ("af_xdp-unread", Far::Bare(Frames::Unread)),
        ("dpdk-af_xdp", Far::Dpdk(Driver::Xdp)),
        ("dpdk-af_xdp-busy", Far::Dpdk(Driver::XdpBusyPoll(BURST))),
        ("dpdk-af_packet", Far::Dpdk(Driver::Packet)),
    ]
    .into_iter()
    .map(|(name, far)| Box::new(Echoed { name, far }) as Box<dyn Peer>)
    .collect()
}

impl Peer for Echoed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        Medium::Wire
    }

    fn is_ours(&self) -> bool {
        self.far == Far::Application
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        let tuning_text = format!(
            "requests from a bare AF_XDP client that polls, rings of {} descriptors, bursts of \
             {BURST}, frames of {FRAME_BYTES} bytes or more",
            scene.ring_slots
        );
        Ok(match self.far {
            Far::Bare(frames) => Description {
                what: match frames {
                    Frames::Read => "bare AF_XDP echo, which returns each received frame",
                    Frames::Unread => "the same, where neither end reads a frame",
                }
                .to_owned(),
                version: concat!("covalent-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
                tuning: tuning_text,
                commands: Vec::new(),
            },
            Far::Application => {
                let (node, shared) = (
                    start(scene)?,
                    scene.cores.application_beside(scene.cores.far).1,
                );
                Description {
                    what:
                        "echo of frames by an application: the lane copies each into a pipe, the \
                        application sends it back from where it lies"
                            .to_owned(),
                    version: concat!("covalent ", env!("CARGO_PKG_VERSION")).to_owned(),
                    tuning: format!(
                        "{tuning_text}; lane polls, RX/TX pipe of {} KiB{}",
                        PIPE_BYTES >> 10,
                        if shared {
                            ", the application on the lane's core, which they share by yielding"
                        } else {
                            ""
                        }
                    ),
                    commands: vec![without_places(&node.command().join(" "))],
                }
            }
            Far::Dpdk(driver) => {
                // Report missing pages before the run.
                drop(HugePages::reserve(Driver::PAGES)?);
                Description {
                    what: format!(
                        "{}; testpmd in mode macswap sends each frame back",
                        driver.what()
                    ),
                    version: testpmd_version()?,
                    tuning: tuning_text,
                    commands: vec![format!("{TESTPMD} {}", arguments(driver, scene).join(" "))],
                }
            }
        })
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        (load.bytes > PAYLOAD_BYTES_MAX).then(|| {
            format!(
                "a request of {} has at most {PAYLOAD_BYTES_MAX} bytes",
                self.name
            )
        })
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        match self.far {
            Far::Bare(frames) => {
                beside_bare_echo(scene, load.bytes, frames, || measure(scene, load, frames))
            }
            Far::Application => beside_application(scene, || measure(scene, load, Frames::Read)),
            Far::Dpdk(driver) => {
                // Reserve the pages only for this repeat: in other repeats the kernel would give
                // them to any process.
                let _pages = HugePages::reserve(Driver::PAGES)?;
                let folder = tempfile::tempdir().context("making a folder")?;
                let mut testpmd = scene.stage()?.b.within(|| {
                    let testpmd = HugePages::start(Driver::PAGES, || {
                        Testpmd::start(TESTPMD, &arguments(driver, scene), folder.path())
                    })?;
                    driver.ensure_native()?;
                    Ok(testpmd)
                })?;
                testpmd.send_command("start")?;
                measure(scene, load, Frames::Read)
            }
        }
    }
}

fn arguments(driver: Driver, scene: &Scene<'_>) -> Vec<String> {
    driver.arguments("macswap", scene.cores, scene.ring_slots)
}

/// Sends requests from the near end.
fn measure(scene: &Scene<'_>, load: &Load, frames: Frames) -> Result<Repeat> {
    thread::scope(|scope| {
        join(scope.spawn(|| load.measure(&mut Requester::open(scene, load.bytes, frames)?)))
    })
}

/// Does `work` while a bare echo answers far away.
pub fn beside_bare_echo<T>(
    scene: &Scene<'_>,
    bytes: usize,
    frames: Frames,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    beside(|| Echo::open(scene, bytes, frames), Echo::round, work)
}

/// A frame for requests of so many bytes.
pub fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; HEADER_BYTES + bytes.max(RECORD_BYTES)];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0]);
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    frame
}

/// The number of the request in a frame.
pub fn number_in(frame: &[u8]) -> Option<u64> {
    let bytes = frame.get(HEADER_BYTES..HEADER_BYTES + 8)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn open(scene: &Scene<'_>, far: bool) -> Result<Steered> {
    let stage = scene.stage()?;
    let (namespace, core, interface) = if far {
        (&stage.b, scene.cores.far, "b0")
    } else {
        (&stage.a, scene.cores.near, "a0")
    };
    namespace.enter()?;
    pin(core)?;
    Steered::open(
        interface,
        Wanted::EtherType(ETHERTYPE),
        scene.ring_slots,
        BURST,
    )
}

/// The requesting end.
pub struct Requester {
    steered: Steered,
    frames: Frames,
    frame: Vec<u8>,
    /// Sent requests, and with unread frames the received replies. The cable preserves their order.
    sent: u64,
    came: u64,
    first: u64,
}

impl Requester {
    /// Opens the near end and pins the calling thread.
    pub fn open(scene: &Scene<'_>, bytes: usize, frames: Frames) -> Result<Self> {
        Ok(Self {
            steered: open(scene, false)?,
            frames,
            frame: frame(bytes),
            sent: 0,
            came: 0,
            first: 0,
        })
    }
}

impl Client for Requester {
    fn send(&mut self, number: u64) -> Result<bool> {
        self.frame[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&number.to_le_bytes());
        let taken = self
            .steered
            .socket
            .send(&self.frame, 1)
            .context("sending a frame")?;
        if taken == 0 {
            return Ok(false);
        }
        if self.sent == 0 {
            self.first = number;
        }
        self.sent += 1;
        Ok(true)
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        let Self {
            steered,
            frames,
            frame,
            came,
            first,
            ..
        } = self;
        steered.socket.receive(|arrived| match frames {
            // Other frames may arrive too: the kernel sends some on a new interface.
            Frames::Read if arrived.len() == frame.len() => {
                if let Some(number) = number_in(arrived) {
                    answered(number);
                }
            }
            Frames::Read => {}
            Frames::Unread => {
                answered(*first + *came);
                *came += 1;
            }
        });
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        Ok(())
    }
}

/// The bare echo.
struct Echo {
    steered: Steered,
    frames: Frames,
    /// Frames received in one round.
    held: Vec<Vec<u8>>,
}

impl Echo {
    fn open(scene: &Scene<'_>, bytes: usize, frames: Frames) -> Result<Self> {
        Ok(Self {
            steered: open(scene, true)?,
            frames,
            held: vec![frame(bytes); BURST as usize],
        })
    }

    fn round(&mut self) -> Result<()> {
        let Self {
            steered,
            frames,
            held,
        } = self;
        let mut came = 0;
        steered.socket.receive(|arrived| {
            let place = &mut held[came];
            if *frames == Frames::Unread {
                came += 1;
            } else if arrived.len() == place.len() {
                place.copy_from_slice(arrived);
                came += 1;
            }
        });
        if came > 0 {
            let mut back = held[..came].iter().map(Vec::as_slice);
            let sent = steered.socket.send_each(&mut back).context("echoing")?;
            ensure!(sent == came, "an echo has no room for {came} frames");
        }
        Ok(())
    }
}

fn start(scene: &Scene<'_>) -> Result<Node> {
    let plan = Plan {
        name: "b",
        idle: "poll",
        core: Some(scene.cores.far),
        interfaces: &["b0"],
        cables: &[],
        link: false,
        ring_slots: scene.ring_slots,
        link_settings: &[],
        faulty: false,
    };
    Node::start(scene.daemon, &scene.stage()?.b, &plan)
}

/// Does `work` while an application echoes a pipe of a daemon far away.
fn beside_application<T>(scene: &Scene<'_>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let node = start(scene)?;
    let place = scene.cores.application_beside(scene.cores.far);
    let over = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let echoing = scope.spawn(|| echo_pipe(&node, place, &over, ready));
        // A failed thread also drops its sender. Its error is returned when it is joined.
        let _ = is_ready.recv();
        let done = work();
        over.store(true, Ordering::Relaxed);
        join(echoing)?;
        done
    })
}

/// Sends back each frame from where it lies, until it is over.
fn echo_pipe(
    node: &Node,
    (core, shared): (usize, bool),
    over: &AtomicBool,
    ready: mpsc::Sender<()>,
) -> Result<()> {
    pin(core)?;
    let device = Device::attach(node.socket(), "bench-echo").context("attaching to covalentd")?;
    let mut pipe = device
        .rx_tx_pipe(PIPE_BYTES, "b0")
        .context("opening a pipe")?;
    pipe.bind(&Match::EtherType {
        ethertype: ETHERTYPE,
    })
    .context("binding a pipe")?;
    drop(ready);
    while !over.load(Ordering::Relaxed) {
        match pipe.try_recv().context("receiving")? {
            Some(mut batch) => {
                let mut count = 0;
                while batch.next_packet().is_some() {
                    count += 1;
                }
                batch.send(count).context("sending back")?;
            }
            None if shared => thread::yield_now(),
            None => std::hint::spin_loop(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_as_long_as_a_record_or_the_request() {
        assert_eq!(
            [8, 64, 65, 1024].map(|bytes| frame(bytes).len()),
            [78, 78, 79, 1038]
        );
        let mut one = frame(8);
        one[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&77_u64.to_le_bytes());
        assert_eq!(number_in(&one), Some(77));
        assert_eq!(number_in(&one[..20]), None);
    }
}
