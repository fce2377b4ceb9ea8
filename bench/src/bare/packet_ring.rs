//! Kernel `AF_PACKET` sockets: one with a receive-only `TPACKET_V3` ring
//! (`Documentation/networking/packet_mmap.rst`), and one without a ring.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use nix::{errno::Errno, net::if_::if_nametoindex};

use super::ring::Mapping;

/// Every EtherType, in network byte order.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Bytes of each block, which the kernel hands over as a whole.
pub const BLOCK_BYTES: u32 = 128 << 10;

/// How long the kernel keeps a block that is not full, in milliseconds.
pub const BLOCK_PATIENCE_MS: u32 = 1;

/// The kernel validates the block size against this value. `TPACKET_V3` stores packets back to
/// back.
const FRAME_BYTES: u32 = 2048;

/// The memory holds so many blocks; the kernel and the receiver take turns with each.
#[derive(Debug)]
pub struct PacketRing {
    memory: Mapping,
    blocks: usize,
    next: usize,
    // Closed after the memory is unmapped.
    _socket: OwnedFd,
}

impl PacketRing {
    /// Receives all frames that arrive on `interface` in the calling thread's namespace, into
    /// `bytes` of memory: a multiple of [`BLOCK_BYTES`].
    pub fn open(interface: &str, bytes: u32) -> io::Result<Self> {
        let socket = unbound()?;
        set(
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )?;
        let blocks = bytes / BLOCK_BYTES;
        set(
            &socket,
            libc::PACKET_RX_RING,
            &libc::tpacket_req3 {
                tp_block_size: BLOCK_BYTES,
                tp_block_nr: blocks,
                tp_frame_size: FRAME_BYTES,
                tp_frame_nr: BLOCK_BYTES / FRAME_BYTES * blocks,
                tp_retire_blk_tov: BLOCK_PATIENCE_MS,
                tp_sizeof_priv: 0,
                tp_feature_req_word: 0,
            },
        )?;
        let memory = Mapping::new((blocks * BLOCK_BYTES) as usize, Some((socket.as_fd(), 0)))?;
        bind(&socket, interface, EVERYTHING)?;
        Ok(Self {
            memory,
            blocks: blocks as usize,
            next: 0,
            _socket: socket,
        })
    }

    /// If the kernel has handed over the next block, visits its packets and returns the block to
    /// the kernel. Returns the number of packets.
    pub fn receive(&mut self, mut visit: impl FnMut(&[u8])) -> usize {
        let at = self.next * BLOCK_BYTES as usize;
        // SAFETY: the block lies inside the mapping. It begins with its descriptor, whose integer
        // fields accept any bytes.
        let block = unsafe { self.memory.start().as_ptr().add(at) };
        let header = block.cast::<libc::tpacket_block_desc>();
        // SAFETY: the status is an aligned u32 of that descriptor. The kernel writes it as a whole
        // while this side reads it.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*header).hdr.bh1.block_status) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return 0;
        }
        // SAFETY: the kernel has handed over the block and does not write to it until this side
        // returns it.
        let (packets, first) = unsafe {
            (
                (*header).hdr.bh1.num_pkts,
                (*header).hdr.bh1.offset_to_first_pkt,
            )
        };
        let mut offset = first as usize;
        for _ in 0..packets {
            assert!(
                offset + size_of::<libc::tpacket3_hdr>() <= BLOCK_BYTES as usize,
                "the kernel names packets inside the block"
            );
            // SAFETY: the header lies inside the block, aligned by the kernel, and this side owns
            // the block now.
            let packet = unsafe { &*block.add(offset).cast::<libc::tpacket3_hdr>() };
            let (start, length) = (offset + usize::from(packet.tp_mac), packet.tp_snaplen);
            assert!(
                start + length as usize <= BLOCK_BYTES as usize,
                "the kernel names bytes inside the block"
            );
            // SAFETY: in bounds of the block, which is ours until the status is written below.
            visit(unsafe { std::slice::from_raw_parts(block.add(start), length as usize) });
            offset += packet.tp_next_offset as usize;
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        packets as usize
    }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: each option used here reads a plain structure of exactly the type given with it.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    Errno::result(answer)?;
    Ok(())
}

/// Opens a packet socket without a ring for frames of one EtherType on `interface`, in the calling
/// thread's namespace. Its frames bypass the queuing discipline (`PACKET_QDISC_BYPASS`).
pub fn plain(interface: &str, ethertype: u16) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    set(&socket, libc::PACKET_QDISC_BYPASS, &(1 as libc::c_int))?;
    bind(&socket, interface, ethertype.to_be())?;
    Ok(socket)
}

fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call. The returned descriptor has no other owner. The protocol is 0,
    // so nothing arrives before the bind.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        Ok(OwnedFd::from_raw_fd(Errno::result(fd)?))
    }
}

fn bind(socket: &OwnedFd, interface: &str, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol,
        sll_ifindex: if_nametoindex(interface)?.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: bind reads one `sockaddr_ll` of the size given.
    let answer = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    Errno::result(answer)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{bare::open_patiently, stage::Stage};

    #[test]
    fn packets_of_many_blocks_arrive_whole_and_in_order() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: making network namespaces needs root");
            return;
        }
        let stage = Stage::build(1, 1).expect("two namespaces");
        let blocks = 4;
        let mut ring = stage
            .b
            .within(|| Ok(PacketRing::open("b0", blocks * BLOCK_BYTES)?))
            .expect("a ring");
        let mut sender = stage
            .a
            .within(|| open_patiently("a0", 64, 64))
            .expect("a socket");
        // Twice around the ring, with lengths that leave gaps at the ends of blocks.
        let length = |number: u32| 100 + number as usize % 1000;
        let (mut sent, mut seen, mut bytes) = (0_u32, 0_u32, 0);
        let deadline = Instant::now() + Duration::from_secs(10);
        while bytes < 2 * blocks as usize * BLOCK_BYTES as usize {
            assert!(
                Instant::now() < deadline,
                "{seen} of {sent} packets arrived"
            );
            // So few on their way fit one block.
            if sent - seen < 64 {
                let mut frame = vec![7; length(sent)];
                frame[..6].fill(0xff);
                frame[14..18].copy_from_slice(&sent.to_be_bytes());
                sent += sender.send(&frame, 1).expect("sent") as u32;
            }
            ring.receive(|frame| {
                assert_eq!(frame.len(), length(seen));
                assert_eq!(frame[14..18], seen.to_be_bytes());
                bytes += frame.len();
                seen += 1;
            });
        }
    }
}
