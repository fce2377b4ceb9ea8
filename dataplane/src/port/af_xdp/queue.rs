//! The AF_XDP sockets of one queue: one for frames of applications, and a second one if the port
//! has a link. It opens them, and it sends; [`Receiver`] receives.
//!
//! Both share the queue's memory, fill ring and completion ring. Each has its own receive and
//! transmit ring. The fill ring has chunks for both receive rings together ([`receive_chunks`]). If
//! frames of applications fill their ring, the kernel drops further ones, and link frames still
//! find a chunk and a ring entry. Transmission is separate too: a link frame never waits behind
//! others.

use std::{
    io,
    os::fd::{BorrowedFd, RawFd},
    thread::sleep,
    time::Duration,
};

use covalent_config::{BATCH_FRAMES, CopyMode, LINK_RING_SLOTS, receive_chunks};
use covalent_pipe::SharedBytes;
use nix::errno::Errno;
use xsk_rs::{
    CompQueue, FillQueue, RxQueue, Socket, TxQueue,
    config::{BindFlags, Interface, LibxdpFlags, QueueSize, SocketConfig},
    socket::XdpStatistics,
    umem::{Umem, frame::FrameDesc},
};

use super::{
    Receiver,
    endpoint::{Doorbell, Endpoint},
    umem::{QueueMemory, os_error},
};

/// Pause before a bind that found the queue busy is retried. A closed socket releases its queue
/// only after a grace period of the kernel, which is long if all cores are busy.
const REBIND_PAUSE: Duration = Duration::from_millis(100);

/// How often it is tried again.
const REBINDS_MAX: u32 = 10;

/// The parameters of one queue.
pub(super) struct QueueSpec<'a> {
    /// The queue's memory.
    pub(super) memory: QueueMemory,
    /// Name of the interface.
    pub(super) interface: &'a str,
    /// Index of the queue.
    pub(super) index: u32,
    /// Most frames sent at one doorbell.
    pub(super) burst: u32,
    /// Whether the kernel may copy.
    pub(super) copy: CopyMode,
}

/// The owner of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrafficClass {
    /// The link's.
    Link,
    /// All others; on a port without a link, all frames.
    Others,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Queue {
    umem: Umem,
    others: Endpoint,
    link: Option<Endpoint>,
    completion: CompQueue,
    /// Where descriptors of chunks that were sent stand.
    sent: Box<[FrameDesc]>,
    /// Address of the first chunk that the link sends from; all behind it are the link's.
    link_sends_from: usize,
    zero_copy: bool,
    page_bytes: u64,
}

/// The kernel's counts for the sockets of a queue.
#[derive(Debug)]
pub(super) struct QueueStatistics {
    /// Of the socket for frames of applications. Its fill ring counts cover both sockets.
    pub(super) others: XdpStatistics,
    /// For the link's.
    pub(super) link: Option<XdpStatistics>,
}

impl Queue {
    /// Creates and binds the sockets, and gives the kernel the receive chunks. Nothing arrives
    /// before the XDP program redirects frames here.
    ///
    /// # Errors
    /// The kernel's error of the bind:
    ///
    /// - `EBUSY`: another socket has the queue.
    /// - `EINVAL`: there is no such queue.
    /// - `EOPNOTSUPP`: no zero-copy.
    /// - `EPERM`: a capability is missing.
    pub(super) fn open(mut spec: QueueSpec<'_>) -> io::Result<(Self, Receiver)> {
        let plan = spec.memory.plan();
        // The library makes both rings for each socket; one that never sends gets the smallest.
        let tx_slots = |slots| if plan.sends { slots } else { 1 };
        let others_tx_slots = tx_slots(plan.ring_slots);
        let mut rebinds = 0;
        let (tx, rx, own) = loop {
            match bind(&spec, plan.ring_slots, others_tx_slots) {
                Err(error)
                    if error.raw_os_error() == Some(libc::EBUSY) && rebinds < REBINDS_MAX =>
                {
                    rebinds += 1;
                    sleep(REBIND_PAUSE);
                }
                other => break other?,
            }
        };
        // The memory is this queue's alone, so the first socket that uses it gets the rings.
        let (fill, completion) = own.ok_or(Errno::EBUSY)?;
        // The link's chunks are taken first, which are the last ones.
        let mut take = |chunks| spec.memory.take(chunks);
        let link_chunks = take(plan.link_sends()).ok_or(Errno::ENOMEM)?;
        let others_chunks = take(plan.others_send()).ok_or(Errno::ENOMEM)?;
        let receiving = take(receive_chunks(plan.ring_slots, plan.link)).ok_or(Errno::ENOMEM)?;
        let link_sends_from = link_chunks.first().map_or(usize::MAX, FrameDesc::addr);
        let others = Endpoint::new(tx, others_tx_slots, others_chunks, spec.burst)?;
        let (link, link_rx) = if plan.link {
            let tx_slots = tx_slots(LINK_RING_SLOTS);
            let (tx, rx, _) = bind(&spec, LINK_RING_SLOTS, tx_slots)?;
            let link = Endpoint::new(tx, tx_slots, link_chunks, spec.burst)?;
            (Some(link), Some(rx))
        } else {
            (None, None)
        };
        let queue = Self {
            zero_copy: others.is_zero_copy()?,
            page_bytes: spec.memory.page_bytes(),
            umem: spec.memory.into_umem(),
            others,
            link,
            completion,
            sent: vec![FrameDesc::default(); BATCH_FRAMES as usize].into_boxed_slice(),
            link_sends_from,
        };
        let receiver = Receiver::new(queue.umem.clone(), fill, link_rx, rx, &receiving)?;
        Ok((queue, receiver))
    }

    /// Copies `frame`, which must fit a chunk, to be sent by the next [`Queue::ring`]. Returns
    /// `false` if no chunk is free.
    pub(super) fn stage(&mut self, class: TrafficClass, frame: SharedBytes<'_>) -> bool {
        if self.spare(class) == 0 {
            self.reclaim();
        }
        match (class, &mut self.link) {
            (TrafficClass::Link, Some(link)) => link.stage(&self.umem, frame),
            _ => self.others.stage(&self.umem, frame),
        }
    }

    /// Rings the doorbells, the link's first, each if there is something to send, and reclaims sent
    /// chunks.
    pub(super) fn ring(&mut self) -> [(TrafficClass, Doorbell); 2] {
        let link = self.link.as_mut().map_or(Doorbell::Rung, Endpoint::ring);
        let others = self.others.ring();
        self.reclaim();
        [(TrafficClass::Link, link), (TrafficClass::Others, others)]
    }

    /// Takes back the chunks of frames that were sent.
    pub(super) fn reclaim(&mut self) {
        while self.endpoints().any(Endpoint::awaits_chunks) {
            // SAFETY: the completion ring names only chunks of this queue's UMEM that were in one
            // of its transmit rings.
            let count = unsafe { self.completion.consume(&mut self.sent) };
            if count == 0 {
                return;
            }
            for &desc in &self.sent[..count] {
                match &mut self.link {
                    Some(link) if desc.addr() >= self.link_sends_from => link.take_back(desc),
                    _ => self.others.take_back(desc),
                }
            }
        }
    }

    fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.link.iter().chain([&self.others])
    }

    /// Whether there are frames that the kernel was not notified of, or has not taken.
    pub(super) fn has_to_send(&mut self) -> bool {
        let link = self.link.iter_mut();
        link.chain([&mut self.others])
            .any(|it| it.has_staged() || it.has_unsent())
    }

    /// Chunks free to send from.
    pub(super) fn spare(&self, class: TrafficClass) -> usize {
        match (class, &self.link) {
            (TrafficClass::Link, Some(link)) => link.spare(),
            _ => self.others.spare(),
        }
    }

    /// Whether every chunk to send from is back.
    pub(super) fn is_idle(&self) -> bool {
        self.endpoints().all(Endpoint::is_idle)
    }

    /// Whether the device writes directly to the UMEM, as the kernel reports it.
    pub(super) const fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Size of the pages that the queue's memory lies in, in bytes.
    pub(super) const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The kernel's own counts.
    pub(super) fn statistics(&self) -> io::Result<QueueStatistics> {
        Ok(QueueStatistics {
            others: self.others.statistics()?,
            link: self.link.as_ref().map(Endpoint::statistics).transpose()?,
        })
    }

    /// The sockets' descriptors, to poll.
    pub(super) fn raw_fds(&self) -> impl Iterator<Item = RawFd> {
        self.endpoints().map(Endpoint::raw_fd)
    }

    /// The socket for frames of applications, to put into the XDP program's map.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.others.fd()
    }

    /// The one for frames of the link, if there is one.
    pub(super) fn link_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(Endpoint::fd)
    }
}

type Bound = (TxQueue, RxQueue, Option<(FillQueue, CompQueue)>);

fn bind(spec: &QueueSpec<'_>, rx_ring_slots: u32, tx_ring_slots: u32) -> io::Result<Bound> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let copy = match spec.copy {
        CopyMode::Auto => BindFlags::empty(),
        CopyMode::ZeroCopy => BindFlags::XDP_ZEROCOPY,
        CopyMode::Copy => BindFlags::XDP_COPY,
    };
    let config = SocketConfig::builder()
        .rx_queue_size(QueueSize::new(rx_ring_slots).map_err(invalid)?)
        .tx_queue_size(QueueSize::new(tx_ring_slots).map_err(invalid)?)
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(copy | BindFlags::XDP_USE_NEED_WAKEUP)
        .build();
    let interface: Interface = spec
        .interface
        .parse()
        .map_err(|_| io::Error::from(Errno::ENODEV))?;
    // SAFETY: the library's contract requires that its own XDP program is inhibited. The
    // configuration above does so.
    let made = unsafe { Socket::new(config, spec.memory.umem(), &interface, spec.index) };
    made.map_err(os_error)
}
