//! What AF_XDP ports take of packet memory: the same figures for the daemon that maps it and for whoever asks beforehand.

/// Size of one chunk of packet memory in bytes: the smallest that the kernel takes, two to a page.
pub const CHUNK_BYTES: u32 = 2048;

/// Bytes that the kernel reserves in front of each frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM_BYTES: u32 = 256;

/// Longest frame that a chunk holds, in bytes.
pub const CHUNK_FRAME_BYTES: u32 = CHUNK_BYTES - HEADROOM_BYTES;

/// Bytes of an Ethernet header, and of two VLAN tags, which come on top of the MTU.
const HEADERS_BYTES: u32 = 14 + 2 * 4;

/// Largest MTU of an interface whose frames fit a chunk even with two VLAN tags.
pub const MTU_BYTES_MAX: u32 = CHUNK_FRAME_BYTES - HEADERS_BYTES;

/// Smallest MTU of an interface that carries a link: its longest frame has 23 records of 64 bytes behind the Ethernet header, however few are sent at first.
pub const LINK_MTU_BYTES_MIN: u32 = 23 * 64;

/// Receive queues of one interface that may have a socket: places in the XDP program's table of sockets.
pub const QUEUES_MAX: u32 = 64;

/// Packet memory of a port with `queues` receive queues and rings of `ring_slots`, in bytes: chunks to fill the receive ring of every
/// queue, and as many again to send from on queue 0.
#[must_use]
pub fn packet_memory_bytes(queues: u32, ring_slots: u32) -> u64 {
    (u64::from(queues) + 1) * u64::from(ring_slots) * u64::from(CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_port_takes_what_the_configuration_says() {
        assert_eq!(MTU_BYTES_MAX, 1770);
        assert_eq!(packet_memory_bytes(1, 2048), 2 * 2048 * 2048);
    }
}
