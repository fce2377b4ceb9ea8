//! Packet memory of AF_XDP ports. The daemon that maps it and the programs that compute it in
//! advance use the same figures.

/// Size of one chunk of packet memory in bytes: the smallest that the kernel takes, two to a page.
pub const CHUNK_BYTES: u32 = 2048;

/// Bytes that the kernel reserves in front of each frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM_BYTES: u32 = 256;

/// Longest frame that a chunk holds, in bytes.
pub const CHUNK_FRAME_BYTES: u32 = CHUNK_BYTES - HEADROOM_BYTES;

/// Bytes of an Ethernet header, and of two VLAN tags, which come on top of the MTU.
const HEADERS_BYTES: u32 = 14 + 2 * 4;

/// Largest MTU of an interface whose frames fit in a chunk even with two VLAN tags.
pub const MTU_BYTES_MAX: u32 = CHUNK_FRAME_BYTES - HEADERS_BYTES;

/// Smallest MTU of an interface that carries a link. The longest link frame has 23 records of 64
/// bytes after the Ethernet header, even if the first frames have fewer.
pub const LINK_MTU_BYTES_MIN: u32 = 23 * 64;

/// Maximum number of receive queues of one interface that may have a socket: the size of the XDP
/// program's socket map.
pub const QUEUES_MAX: u32 = 64;

/// Descriptors of the separate rings for link frames on each queue of an AF_XDP port, in addition
/// to the rings for applications' frames. They hold all frames that a neighbor may have in flight
/// before it needs an answer.
pub const LINK_RING_SLOTS: u32 = 256;

/// Most frames that a lane takes from a ring before it gives their chunks back.
pub const BATCH_FRAMES: u32 = 64;

/// Receive chunks of one queue: the number of its ring descriptors, plus two batches for chunks
/// that the lane or the kernel currently holds. Frames of applications therefore never take the
/// last chunks, regardless of how many are waiting.
#[must_use]
pub const fn receive_chunks(ring_slots: u32, link: bool) -> u32 {
    ring_slots + 2 * BATCH_FRAMES + if link { LINK_RING_SLOTS } else { 0 }
}

/// Chunks that a queue sends from.
#[must_use]
pub const fn send_chunks(ring_slots: u32, link: bool) -> u32 {
    ring_slots + if link { LINK_RING_SLOTS } else { 0 }
}

/// Packet memory of each queue of a port with a link, in bytes, starting with queue 0, the only
/// queue that sends. Each queue has its own mapping.
pub fn queue_memory_bytes(
    queues: u32,
    ring_slots: u32,
    chunk_bytes: u32,
) -> impl Iterator<Item = u64> {
    (0..queues).map(move |queue| {
        let sends = if queue == 0 {
            send_chunks(ring_slots, true)
        } else {
            0
        };
        u64::from(receive_chunks(ring_slots, true) + sends) * u64::from(chunk_bytes)
    })
}

/// All of it, with chunks of [`CHUNK_BYTES`].
#[must_use]
pub fn packet_memory_bytes(queues: u32, ring_slots: u32) -> u64 {
    queue_memory_bytes(queues, ring_slots, CHUNK_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_port_takes_the_configured_memory() {
        assert_eq!(MTU_BYTES_MAX, 1770);
        assert_eq!(packet_memory_bytes(1, 2048), 9472 << 10);
        assert_eq!(packet_memory_bytes(2, 2048), (9472 + 4864) << 10);
    }

    #[test]
    fn frames_of_applications_leave_the_link_its_chunks() {
        for ring_slots in [64, 2048, 32_768] {
            let others = ring_slots + 2 * BATCH_FRAMES;
            assert_eq!(receive_chunks(ring_slots, true) - others, LINK_RING_SLOTS);
            assert_eq!(receive_chunks(ring_slots, false), others);
        }
    }
}
