//! One AF_XDP socket on one queue, with its four rings.
//!
//! ```text
//!             chunks for receiving                     chunks for sending (queue 0 only)
//!   ours ──► fill ring ──► kernel ──► rx ring ─┐   spare ──► staged ──► tx ring ──► kernel
//!     ▲                                        │     ▲                                 │
//!     └────────────── after the visit ─────────┘     └──────── completion ring ◄───────┘
//! ```
//! A chunk is in exactly one of these places. Of the sending side all but the kernel's are ours to see, so the number of chunks
//! that the kernel holds is known too (`in_kernel`), and `spare + staged + in_kernel` is constant: no chunk leaks unseen.
//!
//! All calls into `xsk-rs` that it marks unsafe are in this file.

use std::{
    io::{self, Write},
    mem,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
    thread::sleep,
    time::Duration,
};

use covalent_api::config::CopyMode;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::socket::{MsgFlags, send},
};
use xsk_rs::{
    CompQueue, FillQueue, RxQueue, Socket, TxQueue,
    config::{BindFlags, Interface, LibxdpFlags, QueueSize, SocketConfig},
    socket::XdpStatistics,
    umem::{Umem, frame::FrameDesc},
};

use super::{transmit_order::TransmitOrder, umem::os_error};

/// How long to wait before a bind that found the queue busy is tried again: a socket closed just now lets its queue go only
/// after a grace period of the kernel, which is long where all cores have work.
const REBIND_PAUSE: Duration = Duration::from_millis(100);

/// How often it is tried again.
const REBINDS_MAX: u32 = 10;

/// Receive bursts that find nothing for each look whether the driver wants to be woken for want of chunks.
const LOOKS_PER_WAKE: u32 = 64;

/// Socket option for the most frames that one doorbell sends in copy mode (`XDP_MAX_TX_SKB_BUDGET`, Linux 6.17).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// The budget that kernels without the option have, and the least that the option takes.
const TX_BUDGET_MIN: u32 = 32;

/// What one queue is made of.
pub(super) struct QueueSpec<'a> {
    /// The lane's memory.
    pub(super) umem: &'a Umem,
    /// Name of the interface.
    pub(super) interface: &'a str,
    /// Index of the queue.
    pub(super) index: u32,
    /// Descriptors in the receive ring, and in the transmit ring of a queue that sends.
    pub(super) ring_slots: u32,
    /// Most frames moved at a time.
    pub(super) burst: u32,
    /// Whether the kernel may copy.
    pub(super) copy: CopyMode,
    /// Chunks to receive into, at most `ring_slots`.
    pub(super) rx_chunks: Vec<FrameDesc>,
    /// Chunks to send from, at most `ring_slots`; empty for a queue that only receives.
    pub(super) tx_chunks: Vec<FrameDesc>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Queue {
    umem: Umem,
    rx: RxQueue,
    tx: TxQueue,
    fill: FillQueue,
    completion: CompQueue,
    /// Where descriptors of one receive or completion burst stand; its length is the burst.
    scratch: Box<[FrameDesc]>,
    spare: Vec<FrameDesc>,
    staged: Vec<FrameDesc>,
    in_kernel: usize,
    order: TransmitOrder,
    tx_ring_slots: u32,
    rx_ring_slots: u32,
    /// Receive bursts that found nothing since the driver was last woken for want of chunks.
    fruitless: u32,
    zero_copy: bool,
}

/// What ringing the doorbell came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doorbell {
    /// The kernel took everything, or will go on at the next ring.
    Rung,
    /// The device threw a frame away.
    Dropped {
        /// It was the link's.
        link: bool,
    },
    /// The interface is down; frames stay in the ring.
    Down,
    /// The interface is no more.
    Gone,
}

impl Queue {
    /// Makes the socket, binds it and gives the kernel the chunks to receive into. Nothing arrives before the XDP program sends
    /// frames here.
    ///
    /// # Errors
    /// What the kernel answered to the bind: `EBUSY` another socket has the queue, `EINVAL` there is no such queue,
    /// `EOPNOTSUPP` no zero-copy, `EPERM` a missing capability.
    pub(super) fn open(spec: QueueSpec<'_>) -> io::Result<Self> {
        let sends = !spec.tx_chunks.is_empty();
        // The library makes both rings for each socket; one that never sends gets the smallest.
        let tx_ring_slots = if sends { spec.ring_slots } else { 1 };
        let mut rebinds = 0;
        let (tx, rx, fill, completion) = loop {
            match bind(&spec, tx_ring_slots) {
                Err(error)
                    if error.raw_os_error() == Some(libc::EBUSY) && rebinds < REBINDS_MAX =>
                {
                    rebinds += 1;
                    sleep(REBIND_PAUSE);
                }
                other => break other?,
            }
        };
        let zero_copy = is_zero_copy(rx.fd().as_raw_fd())?;
        if sends {
            raise_tx_budget(
                rx.fd().as_raw_fd(),
                spec.burst.clamp(TX_BUDGET_MIN, tx_ring_slots),
            );
        }
        let mut queue = Self {
            umem: spec.umem.clone(),
            rx,
            tx,
            fill,
            completion,
            scratch: vec![FrameDesc::default(); spec.burst as usize].into_boxed_slice(),
            staged: Vec::with_capacity(spec.tx_chunks.len()),
            order: TransmitOrder::new(spec.tx_chunks.len()),
            fruitless: 0,
            spare: spec.tx_chunks,
            in_kernel: 0,
            rx_ring_slots: spec.ring_slots,
            tx_ring_slots,
            zero_copy,
        };
        // The library makes sockets that every program inherits which this process starts: it would keep the queue as long as it runs.
        fcntl(queue.fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        queue.give_to_receive(&spec.rx_chunks)?;
        Ok(queue)
    }

    /// Hands new chunks to the kernel to receive into.
    fn give_to_receive(&mut self, chunks: &[FrameDesc]) -> io::Result<()> {
        // SAFETY: the chunks belong to this queue's UMEM, nobody else knows of them, and after this the queue does not touch them
        // until the receive ring names them.
        let given = unsafe { self.fill.produce(chunks) };
        if given == chunks.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::OutOfMemory.into())
        }
    }

    /// Moves no more than `burst` frames at a time from now on.
    pub(super) fn set_burst(&mut self, burst: u32) {
        let burst = burst.clamp(1, self.rx_ring_slots);
        self.scratch = vec![FrameDesc::default(); burst as usize].into_boxed_slice();
    }

    /// Receives up to `max` frames (no more than the burst), shows each and gives its chunk back. Returns how many.
    pub(super) fn receive(&mut self, max: usize, visit: &mut dyn FnMut(&[u8])) -> usize {
        let want = max.min(self.scratch.len());
        // SAFETY: the receive ring names only chunks of this queue's UMEM.
        let count = unsafe { self.rx.consume(&mut self.scratch[..want]) };
        if count == 0 {
            // A driver in zero-copy mode may have run out of chunks just after it was last given some.
            self.fruitless = self.fruitless.wrapping_add(1);
            if self.fruitless.is_multiple_of(LOOKS_PER_WAKE) && self.fill.needs_wakeup() {
                self.wake_receiver();
            }
            return 0;
        }
        self.fruitless = 0;
        for desc in &self.scratch[..count] {
            // SAFETY: the kernel gave this chunk to us with the receive ring and wrote a whole frame into it; we hand it back only
            // after the visit.
            visit(unsafe { self.umem.data(desc) }.contents());
        }
        // SAFETY: these chunks came from the receive ring just now, no reference into them is left, and they are forgotten here.
        let returned = unsafe { self.fill.produce(&self.scratch[..count]) };
        debug_assert_eq!(
            returned, count,
            "the fill ring has room for every chunk of its queue twice"
        );
        if self.fill.needs_wakeup() {
            self.wake_receiver();
        }
        count
    }

    /// A driver that ran out of chunks sleeps until it is called.
    fn wake_receiver(&mut self) {
        // The answer does not matter: nothing is waited for, and a failure shows at the next doorbell.
        let _ = self.fill.wakeup(self.rx.fd_mut(), 0);
    }

    /// Whether received frames are waiting.
    pub(super) fn has_received(&mut self) -> bool {
        self.rx.nb_avail_exact() > 0
    }

    /// Copies `frame`, which must fit a chunk, to be sent by the next [`Queue::ring`]; `link` tells whether it is the link's. `false` when no
    /// chunk is free.
    pub(super) fn stage(&mut self, frame: &[u8], link: bool) -> bool {
        if self.spare.is_empty() {
            self.reclaim();
        }
        let Some(mut desc) = self.spare.pop() else {
            return false;
        };
        // SAFETY: a spare chunk is of this queue's UMEM and owned by nobody but us.
        let mut data = unsafe { self.umem.data_mut(&mut desc) };
        let mut cursor = data.cursor();
        cursor.set_pos(0);
        if cursor.write_all(frame).is_err() {
            debug_assert!(false, "the port bounds the length of a frame by its chunk");
            self.spare.push(desc);
            return false;
        }
        self.staged.push(desc);
        self.order.stage(link);
        true
    }

    /// Moves staged frames to the transmit ring, calls the kernel if it must be called, and reclaims what was sent.
    pub(super) fn ring(&mut self) -> Doorbell {
        if !self.staged.is_empty() {
            self.submit();
        }
        if self.in_kernel == 0 {
            return Doorbell::Rung;
        }
        let unsent_before = self.unsent();
        let answer = if unsent_before > 0 && self.tx.needs_wakeup() {
            let answer = call_kernel(self.raw_fd());
            self.heard(answer, unsent_before)
        } else {
            Doorbell::Rung
        };
        self.reclaim();
        answer
    }

    fn submit(&mut self) {
        // Never more than the ring has room for, because the library takes all or nothing.
        let room = self.tx.nb_free_exact() as usize;
        let count = self.staged.len().min(room);
        // SAFETY: staged chunks are of this queue's UMEM, written completely, and owned by us alone until now; they are forgotten
        // below and come back through the completion ring.
        let submitted = unsafe { self.tx.produce(&self.staged[..count]) };
        self.staged.drain(..submitted);
        self.in_kernel += submitted;
        self.order.submit(submitted);
    }

    /// What the kernel's answer to a doorbell means, when `unsent_before` frames were in the ring.
    fn heard(&mut self, answer: Result<usize, Errno>, unsent_before: usize) -> Doorbell {
        let unsent = self.unsent();
        match answer {
            Err(Errno::EBUSY) => Doorbell::Dropped {
                link: self.order.dropped(unsent_before, unsent),
            },
            Err(Errno::ENETDOWN) => Doorbell::Down,
            Err(Errno::ENXIO | Errno::ENODEV | Errno::EBADF) => Doorbell::Gone,
            // EAGAIN: more than one doorbell's worth, or the device's queue is full. ENOBUFS: no kernel memory just now.
            Ok(_) | Err(_) => {
                self.order.went_on(unsent_before, unsent);
                Doorbell::Rung
            }
        }
    }

    /// Frames in the transmit ring that the kernel has not taken, as far as it has told.
    fn unsent(&mut self) -> usize {
        (self.tx_ring_slots - self.tx.nb_free_exact()) as usize
    }

    /// Takes back the chunks of frames that were sent.
    pub(super) fn reclaim(&mut self) {
        while self.in_kernel > 0 {
            // SAFETY: the completion ring names only chunks of this queue's UMEM that its transmit ring had.
            let count = unsafe { self.completion.consume(&mut self.scratch) };
            if count == 0 {
                return;
            }
            self.in_kernel = self.in_kernel.saturating_sub(count);
            self.spare.extend_from_slice(&self.scratch[..count]);
        }
    }

    /// Whether frames lie in the transmit ring that the kernel has not taken.
    pub(super) fn has_unsent(&mut self) -> bool {
        self.in_kernel > 0 && self.unsent() > 0
    }

    /// Whether frames wait for the next doorbell.
    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Chunks free to send from.
    pub(super) fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Whether every chunk to send from is back.
    pub(super) fn is_idle(&self) -> bool {
        self.staged.is_empty() && self.in_kernel == 0
    }

    /// Whether the device writes straight into the UMEM, as the kernel tells it.
    pub(super) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// The kernel's own counts for this socket.
    pub(super) fn statistics(&self) -> io::Result<XdpStatistics> {
        self.rx.fd().xdp_statistics()
    }

    /// The socket's descriptor, to poll.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.rx.fd().as_raw_fd()
    }

    /// The socket, to put into the XDP program's map.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor stays open as long as the rings of this queue, which the result borrows.
        unsafe { BorrowedFd::borrow_raw(self.rx.fd().as_raw_fd()) }
    }
}

fn call_kernel(socket: RawFd) -> Result<usize, Errno> {
    send(socket, &[], MsgFlags::MSG_DONTWAIT)
}

fn bind(
    spec: &QueueSpec<'_>,
    tx_ring_slots: u32,
) -> io::Result<(TxQueue, RxQueue, FillQueue, CompQueue)> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let copy = match spec.copy {
        CopyMode::Auto => BindFlags::empty(),
        CopyMode::ZeroCopy => BindFlags::XDP_ZEROCOPY,
        CopyMode::Copy => BindFlags::XDP_COPY,
    };
    let config = SocketConfig::builder()
        .rx_queue_size(QueueSize::new(spec.ring_slots).map_err(invalid)?)
        .tx_queue_size(QueueSize::new(tx_ring_slots).map_err(invalid)?)
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(copy | BindFlags::XDP_USE_NEED_WAKEUP)
        .build();
    let interface: Interface = spec
        .interface
        .parse()
        .map_err(|_| io::Error::from(Errno::ENODEV))?;
    // SAFETY: the library's own XDP program is inhibited, which is what its contract asks for.
    let made = unsafe { Socket::new(config, spec.umem, &interface, spec.index) };
    let (tx, rx, own) = made.map_err(os_error)?;
    let Some((fill, completion)) = own else {
        // This UMEM already has a socket on this queue, whose rings we cannot have.
        return Err(Errno::EBUSY.into());
    };
    Ok((tx, rx, fill, completion))
}

/// Asks the kernel in which mode a bound socket is.
fn is_zero_copy(socket: RawFd) -> io::Result<bool> {
    let mut options: u32 = 0;
    let mut len = mem::size_of_val(&options) as libc::socklen_t;
    // SAFETY: XDP_OPTIONS writes one u32 (`struct xdp_options`), and `len` tells that there is room for exactly that.
    let answer = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_XDP,
            libc::XDP_OPTIONS,
            ptr::from_mut(&mut options).cast(),
            &mut len,
        )
    };
    Errno::result(answer)?;
    Ok(options & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Lets one doorbell send a whole burst. Older kernels refuse and go on sending 32 frames at each ring, which is only slower.
fn raise_tx_budget(socket: RawFd, budget: u32) {
    // SAFETY: the option reads one u32 that lives until the call returns.
    unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_XDP,
            XDP_MAX_TX_SKB_BUDGET,
            ptr::from_ref(&budget).cast(),
            mem::size_of_val(&budget) as libc::socklen_t,
        );
    }
}
