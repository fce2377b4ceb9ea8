//! The sending half of an AF_XDP socket: its transmit ring, and the chunks that it sends from.
//!
//! ```text
//!   spare ──► staged ──► tx ring ──► kernel
//!     ▲                                 │
//!     └── completion ring of the queue ◄┘
//! ```
//! A send chunk is in exactly one of these places. Chunks in the kernel are counted: `spare +
//! staged + in_kernel` is constant, so every leak is visible.

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
    TxQueue,
    socket::XdpStatistics,
    umem::{Umem, frame::FrameDesc},
};

/// Socket option for the most frames that one doorbell sends in copy mode (`XDP_MAX_TX_SKB_BUDGET`,
/// Linux 6.17).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// The budget that kernels without the option have, and the least that the option takes.
const TX_BUDGET_MIN: u32 = 32;

/// The result of a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doorbell {
    /// The kernel took everything, or will go on at the next ring.
    Rung,
    /// The device threw a frame away.
    Dropped,
    /// The interface is down. Frames stay in the ring.
    Down,
    /// The interface is no more.
    Gone,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Endpoint {
    tx: TxQueue,
    tx_ring_slots: u32,
    spare: Vec<FrameDesc>,
    staged: Vec<FrameDesc>,
    in_kernel: usize,
}

impl Endpoint {
    /// Takes the transmit ring of a newly bound socket. The socket sends from `tx_chunks` of the
    /// queue's own memory, at most `tx_ring_slots` of them, and up to `burst` at one doorbell.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn new(
        tx: TxQueue,
        tx_ring_slots: u32,
        tx_chunks: Vec<FrameDesc>,
        burst: u32,
    ) -> io::Result<Self> {
        let endpoint = Self {
            tx,
            tx_ring_slots,
            staged: Vec::with_capacity(tx_chunks.len()),
            spare: tx_chunks,
            in_kernel: 0,
        };
        // The library creates inheritable sockets: a child process would keep the queue as long as
        // it runs.
        fcntl(endpoint.fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        if !endpoint.spare.is_empty() {
            let budget = burst.clamp(TX_BUDGET_MIN, tx_ring_slots);
            raise_tx_budget(endpoint.raw_fd(), budget);
        }
        Ok(endpoint)
    }

    /// Copies `frame`, to be sent by the next [`Endpoint::ring`]. It must fit a chunk of `umem`,
    /// the memory of this socket. Returns `false` if no chunk is free.
    pub(super) fn stage(&mut self, umem: &Umem, frame: SharedBytes<'_>) -> bool {
        let Some(mut desc) = self.spare.pop() else {
            return false;
        };
        // SAFETY: a spare chunk belongs to this queue's UMEM. Only this endpoint owns it.
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
            doorbell_result(call_kernel(self.raw_fd()))
        } else {
            Doorbell::Rung
        }
    }

    fn submit(&mut self) {
        // Never more than the ring can take, because the library takes all or nothing.
        let room = self.tx.nb_free_exact() as usize;
        let count = self.staged.len().min(room);
        // SAFETY: staged chunks belong to this queue's UMEM and are completely written. Only this
        // endpoint owned them until now. They are removed below and return through the completion
        // ring.
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

    /// Whether the transmit ring has frames that the kernel has not taken, as far as it has
    /// reported.
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

    /// Whether the device writes directly to the UMEM, as the kernel reports it.
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        is_zero_copy(self.raw_fd())
    }

    /// The kernel's own counts for this socket.
    pub(super) fn statistics(&self) -> io::Result<XdpStatistics> {
        self.tx.fd().xdp_statistics()
    }

    /// The socket's descriptor, to poll.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.tx.fd().as_raw_fd()
    }

    /// The socket, to put into the XDP program's map.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor stays open as long as the rings of this socket, which the result
        // borrows.
        unsafe { BorrowedFd::borrow_raw(self.raw_fd()) }
    }
}

fn call_kernel(socket: RawFd) -> Result<usize, Errno> {
    send(socket, &[], MsgFlags::MSG_DONTWAIT)
}

/// Converts the kernel's result of a doorbell.
const fn doorbell_result(answer: Result<usize, Errno>) -> Doorbell {
    match answer {
        Err(Errno::EBUSY) => Doorbell::Dropped,
        Err(Errno::ENETDOWN) => Doorbell::Down,
        Err(Errno::ENXIO | Errno::ENODEV | Errno::EBADF) => Doorbell::Gone,
        // EAGAIN: more frames than one doorbell takes, or a full device queue. EINTR, ENOBUFS,
        // ENOMEM: temporary. Untaken frames stay in the ring for the next doorbell.
        Ok(_) | Err(_) => Doorbell::Rung,
    }
}

/// Queries the mode of a bound socket.
fn is_zero_copy(socket: RawFd) -> io::Result<bool> {
    let mut options: u32 = 0;
    let mut len = mem::size_of_val(&options) as libc::socklen_t;
    // SAFETY: XDP_OPTIONS writes one u32 (`struct xdp_options`). `len` is exactly the size of
    // `options`.
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

/// Lets one doorbell send a whole burst. Older kernels refuse and send 32 frames per doorbell,
/// which is only slower.
fn raise_tx_budget(socket: RawFd, budget: u32) {
    // SAFETY: the option reads one u32, which lives until the call returns.
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
    fn only_lost_frames_and_interfaces_are_failures() {
        for passing in [
            Errno::EAGAIN,
            Errno::EINTR,
            Errno::ENOBUFS,
            Errno::ENOMEM,
            Errno::EPERM,
        ] {
            assert_eq!(doorbell_result(Err(passing)), Doorbell::Rung, "{passing}");
        }
        assert_eq!(doorbell_result(Ok(0)), Doorbell::Rung);
        assert_eq!(doorbell_result(Err(Errno::EBUSY)), Doorbell::Dropped);
        assert_eq!(doorbell_result(Err(Errno::ENETDOWN)), Doorbell::Down);
        assert_eq!(doorbell_result(Err(Errno::ENXIO)), Doorbell::Gone);
    }
}
