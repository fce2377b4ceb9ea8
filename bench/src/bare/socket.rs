//! One AF_XDP socket with its own packet memory.

use std::{
    io,
    iter::repeat_n,
    mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr, slice,
};

use nix::{
    errno::Errno,
    net::if_::if_nametoindex,
    sys::socket::{MsgFlags, send},
};

use super::ring::{Mapping, Ring};

const CHUNK_BYTES: u32 = 2048;
const HEADROOM_BYTES: u64 = 256;
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
const NOTHING: libc::xdp_desc = libc::xdp_desc {
    addr: 0,
    len: 0,
    options: 0,
};

/// `struct xdp_umem_reg` of `linux/if_xdp.h`.
#[repr(C)]
struct UmemRegistration {
    addr: u64,
    len: u64,
    chunk_size: u32,
    headroom: u32,
    flags: u32,
    tx_metadata_len: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct BareSocket {
    fd: OwnedFd,
    memory: Mapping,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    burst: usize,
    descriptors: Vec<libc::xdp_desc>,
    addresses: Vec<u64>,
    free: Vec<u64>,
    in_kernel: usize,
}

impl BareSocket {
    /// Opens a socket on queue 0 of `interface` in the calling thread's namespace, with `slots`
    /// descriptors each to receive and to send. One call moves at most `burst` frames. The kernel
    /// gets the receive chunks before the socket is bound.
    pub fn open(interface: &str, slots: u32, burst: u32) -> io::Result<Self> {
        // SAFETY: a plain system call; the descriptor that it returns is ours alone.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            OwnedFd::from_raw_fd(Errno::result(fd)?)
        };
        let memory = Mapping::new((slots * 2) as usize * CHUNK_BYTES as usize, None)?;
        set(
            &fd,
            libc::XDP_UMEM_REG,
            &UmemRegistration {
                addr: memory.start().as_ptr().addr() as u64,
                len: memory.len() as u64,
                chunk_size: CHUNK_BYTES,
                headroom: 0,
                flags: 0,
                tx_metadata_len: 0,
            },
        )?;
        let fill_slots = slots * 2;
        set(&fd, libc::XDP_UMEM_FILL_RING, &fill_slots)?;
        set(&fd, libc::XDP_UMEM_COMPLETION_RING, &slots)?;
        set(&fd, libc::XDP_RX_RING, &slots)?;
        set(&fd, libc::XDP_TX_RING, &slots)?;
        let offsets = ring_offsets(&fd)?;
        let of = fd.as_fd();
        let mut fill = Ring::new(
            of,
            libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t,
            offsets.fr,
            fill_slots,
        )?;
        let completion = Ring::new(
            of,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
            offsets.cr,
            slots,
        )?;
        let rx = Ring::new(of, libc::XDP_PGOFF_RX_RING, offsets.rx, slots)?;
        let tx = Ring::new(of, libc::XDP_PGOFF_TX_RING, offsets.tx, slots)?;
        let chunk = |index: u32| u64::from(index) * u64::from(CHUNK_BYTES);
        fill.push(&(0..slots).map(chunk).collect::<Vec<_>>());
        bind(&fd, interface)?;
        // Kernels before 6.17 do not have the option; they send 32 frames at each call.
        let _ = set(&fd, XDP_MAX_TX_SKB_BUDGET, &burst.clamp(32, slots));
        Ok(Self {
            fd,
            memory,
            fill,
            completion,
            rx,
            tx,
            burst: burst as usize,
            descriptors: vec![NOTHING; burst as usize],
            addresses: vec![0; burst as usize],
            free: (slots..slots * 2)
                .map(|index| chunk(index) + HEADROOM_BYTES)
                .collect(),
            in_kernel: 0,
        })
    }

    /// Receives up to a burst, shows each frame, gives the chunks back. Returns how many.
    pub fn receive(&mut self, mut visit: impl FnMut(&[u8])) -> usize {
        let count = self.rx.pop(&mut self.descriptors[..self.burst]);
        for (desc, address) in self.descriptors[..count].iter().zip(&mut self.addresses) {
            visit(frame(&self.memory, desc.addr, desc.len));
            *address = desc.addr;
        }
        self.fill.push(&self.addresses[..count]);
        count
    }

    /// Sends up to `count` copies of `bytes`, at most a burst, as far as the ring has space.
    /// Returns the number of queued frames.
    pub fn send(&mut self, bytes: &[u8], count: usize) -> io::Result<usize> {
        self.send_each(&mut repeat_n(bytes, count))
    }

    /// Sends the next frames of `frames`, at most a burst, as far as the ring has space. The rest
    /// stays in the iterator. Returns the number of queued frames.
    pub fn send_each<'a>(
        &mut self,
        frames: &mut impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        self.reclaim();
        let room = self.burst.min(self.free.len());
        let mut count = 0;
        // Reserve the descriptors first: a frame is taken from the iterator only if there is space
        // for it.
        for (desc, bytes) in self.descriptors[..room].iter_mut().zip(frames) {
            let Some(addr) = self.free.pop() else { break };
            count += 1;
            frame_mut(&mut self.memory, addr, bytes.len()).copy_from_slice(bytes);
            *desc = libc::xdp_desc {
                addr,
                len: bytes.len() as u32,
                options: 0,
            };
        }
        let queued = self.tx.push(&self.descriptors[..count]);
        // The ring has as many slots as there are chunks to send from, so everything fits.
        debug_assert_eq!(queued, count);
        self.in_kernel += queued;
        self.kick()?;
        Ok(queued)
    }

    /// Calls the kernel if frames are pending and the kernel needs a wakeup.
    pub fn kick(&mut self) -> io::Result<()> {
        if !self.tx.has_unconsumed() || !self.tx.needs_wakeup() {
            return Ok(());
        }
        match send(self.fd.as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT) {
            Ok(_) | Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOBUFS) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn reclaim(&mut self) {
        while self.in_kernel > 0 {
            let count = self.completion.pop(&mut self.addresses[..self.burst]);
            if count == 0 {
                return;
            }
            self.in_kernel -= count;
            self.free.extend_from_slice(&self.addresses[..count]);
        }
    }
}

impl AsFd for BareSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn frame(memory: &Mapping, addr: u64, len: u32) -> &[u8] {
    assert!(
        addr as usize + len as usize <= memory.len(),
        "the kernel names frames inside the memory"
    );
    // SAFETY: in bounds, and the kernel does not touch a chunk that its receive ring has named.
    unsafe { slice::from_raw_parts(memory.start().as_ptr().add(addr as usize), len as usize) }
}

fn frame_mut(memory: &mut Mapping, addr: u64, len: usize) -> &mut [u8] {
    assert!(
        len <= (u64::from(CHUNK_BYTES) - HEADROOM_BYTES) as usize,
        "a frame fits its chunk"
    );
    // SAFETY: `addr` is the address of a free chunk, which the kernel does not access. The frame
    // lies inside the chunk.
    unsafe { slice::from_raw_parts_mut(memory.start().as_ptr().add(addr as usize), len) }
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: each option used here reads a plain structure of exactly the type given with it.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    Errno::result(answer)?;
    Ok(())
}

fn ring_offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: the structure holds only integers, for which zero is valid. The option fills it and
    // receives its size.
    unsafe {
        let mut offsets: libc::xdp_mmap_offsets = mem::zeroed();
        let mut len = mem::size_of_val(&offsets) as libc::socklen_t;
        let answer = libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            ptr::from_mut(&mut offsets).cast(),
            &mut len,
        );
        Errno::result(answer)?;
        Ok(offsets)
    }
}

fn bind(fd: &OwnedFd, interface: &str) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: if_nametoindex(interface)?,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: bind reads one `sockaddr_xdp` of the size given.
    let answer = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    Errno::result(answer)?;
    Ok(())
}
