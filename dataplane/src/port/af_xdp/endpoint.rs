//! One AF_XDP socket of a queue: its receive ring and its transmit ring, and the chunks that it sends from.
//!
//! ```text
//!   rx ring ─► lane          spare ──► staged ──► tx ring ──► kernel
//!                              ▲                                 │
//!                              └── completion ring of the queue ◄┘
//! ```
//! A chunk to send from is in exactly one of these places, and the kernel's are counted: `spare + staged + in_kernel` is constant, so no
//! chunk leaks unseen.

use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
};

use covalent_pipe::SharedBytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::socket::{MsgFlags, send},
};
use xsk_rs::{
    RxQueue, TxQueue,
    socket::XdpStatistics,
    umem::{Umem, frame::FrameDesc},
};

/// Socket option for the most frames that one doorbell sends in copy mode (`XDP_MAX_TX_SKB_BUDGET`, Linux 6.17).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// The budget that kernels without the option have, and the least that the option takes.
const TX_BUDGET_MIN: u32 = 32;

/// What ringing the doorbell came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doorbell {
    /// The kernel took everything, or will go on at the next ring.
    Rung,
    /// The device threw a frame away.
    Dropped,
    /// The interface is down; frames stay in the ring.
    Down,
    /// The interface is no more.
    Gone,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Endpoint {
    rx: RxQueue,
    tx: TxQueue,
    tx_ring_slots: u32,
    spare: Vec<FrameDesc>,
    staged: Vec<FrameDesc>,
    in_kernel: usize,
}

impl Endpoint {
    /// Takes the rings of a socket that was bound just now. It sends from `tx_chunks`, at most `tx_ring_slots` of the queue's own memory, and up to `burst`
    /// of them at one doorbell.
    ///
    /// # Errors
    /// What the kernel answers.
    pub(super) fn new(
        (tx, rx): (TxQueue, RxQueue),
        tx_ring_slots: u32,
        tx_chunks: Vec<FrameDesc>,
        burst: u32,
    ) -> io::Result<Self> {
        let endpoint = Self {
            rx,
            tx,
            tx_ring_slots,
            staged: Vec::with_capacity(tx_chunks.len()),
            spare: tx_chunks,
            in_kernel: 0,
        };
        // The library makes sockets that every program inherits which this process starts: it would keep the queue as long as it runs.
        fcntl(endpoint.fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        if !endpoint.spare.is_empty() {
            let budget = burst.clamp(TX_BUDGET_MIN, tx_ring_slots);
            raise_tx_budget(endpoint.raw_fd(), budget);
        }
        Ok(endpoint)
    }

    /// Takes frames from the receive ring: as many as `into` has places, if there are so many.
    pub(super) fn consume(&mut self, into: &mut [FrameDesc]) -> usize {
        // SAFETY: the receive ring names only chunks of the UMEM to which the socket was bound.
        unsafe { self.rx.consume(into) }
    }

    /// Whether received frames are waiting.
    pub(super) fn has_received(&mut self) -> bool {
        self.rx.nb_avail_exact() > 0
    }

    /// The receive ring's socket, to wake the driver through.
    pub(super) fn receiver(&mut self) -> &mut RxQueue {
        &mut self.rx
    }

    /// Copies `frame`, which must fit a chunk of `umem`, that of this socket, to be sent by the next [`Endpoint::ring`]. `false` when no chunk is free.
    pub(super) fn stage(&mut self, umem: &Umem, frame: SharedBytes<'_>) -> bool {
        let Some(mut desc) = self.spare.pop() else {
            return false;
        };
        // SAFETY: a spare chunk is of this queue's UMEM and owned by nobody but us.
        let mut data = unsafe { umem.data_mut(&mut desc) };
        // As long as the frame, or as the chunk if that is shorter.
        data.cursor().set_pos(frame.len());
        let target = data.contents_mut();
        if target.len() != frame.len() {
            debug_assert!(false, "the port bounds the length of a frame by its chunk");
            self.spare.push(desc);
            return false;
        }
        frame.copy_to(target);
        self.staged.push(desc);
        true
    }

    /// Moves staged frames to the transmit ring and calls the kernel if it must be called.
    pub(super) fn ring(&mut self) -> Doorbell {
        if !self.staged.is_empty() {
            self.submit();
        }
        if self.has_unsent() && self.tx.needs_wakeup() {
            heard(call_kernel(self.raw_fd()))
        } else {
            Doorbell::Rung
        }
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
    }

    /// A chunk that was sent is back.
    pub(super) fn take_back(&mut self, desc: FrameDesc) {
        self.in_kernel = self.in_kernel.saturating_sub(1);
        self.spare.push(desc);
    }

    /// Whether the kernel has chunks that are to come back.
    pub(super) const fn awaits_chunks(&self) -> bool {
        self.in_kernel > 0
    }

    /// Whether frames lie in the transmit ring that the kernel has not taken, as far as it has told.
    pub(super) fn has_unsent(&mut self) -> bool {
        self.in_kernel > 0 && self.tx.nb_free_exact() < self.tx_ring_slots
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
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        is_zero_copy(self.raw_fd())
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
        // SAFETY: the descriptor stays open as long as the rings of this socket, which the result borrows.
        unsafe { BorrowedFd::borrow_raw(self.raw_fd()) }
    }
}

fn call_kernel(socket: RawFd) -> Result<usize, Errno> {
    send(socket, &[], MsgFlags::MSG_DONTWAIT)
}

/// What the kernel's answer to a doorbell means.
const fn heard(answer: Result<usize, Errno>) -> Doorbell {
    match answer {
        Err(Errno::EBUSY) => Doorbell::Dropped,
        Err(Errno::ENETDOWN) => Doorbell::Down,
        Err(Errno::ENXIO | Errno::ENODEV | Errno::EBADF) => Doorbell::Gone,
        // EAGAIN: more than one doorbell's worth, or the device's queue is full. EINTR, ENOBUFS, ENOMEM: not now. What was not taken stays in the
        // ring for the next one.
        Ok(_) | Err(_) => Doorbell::Rung,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_a_frame_or_the_interface_is_a_failure() {
        for passing in [
            Errno::EAGAIN,
            Errno::EINTR,
            Errno::ENOBUFS,
            Errno::ENOMEM,
            Errno::EPERM,
        ] {
            assert_eq!(heard(Err(passing)), Doorbell::Rung, "{passing}");
        }
        assert_eq!(heard(Ok(0)), Doorbell::Rung);
        assert_eq!(heard(Err(Errno::EBUSY)), Doorbell::Dropped);
        assert_eq!(heard(Err(Errno::ENETDOWN)), Doorbell::Down);
        assert_eq!(heard(Err(Errno::ENXIO)), Doorbell::Gone);
    }
}
