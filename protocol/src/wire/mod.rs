//! Bytes on the cable: an Ethernet header and 1 to 23 records of 64 bytes, nothing else.
//!
//! Every number is little-endian, but for the EtherType, which Ethernet defines as big-endian. A record is eight slices
//! of eight bytes:
//!
//! ```text
//!  0       4       8       12      16      20 21 22 23 24                    56       64
//!  ├ mine ─┼ yours ┼ epoch ┼ rseq ─┼ seq ──┼s ┼p ┼n ┼i ┼ payload, 32 bytes ─┼ CRC-64 ─┤
//!  └── slice 1 ────┘                        slot, payload bytes, records of message, index in message
//! ```
//!
//! A record's CRC covers everything since the record before it ended; the first one's covers the Ethernet header too.

mod crc;
pub mod frame;
pub mod message;
pub mod record;
pub mod slice;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
/// Payload bytes of a record.
pub const RECORD_PAYLOAD_BYTES: usize = 32;
/// Bytes of an Ethernet header: destination, source, EtherType.
pub const ETHERNET_HEADER_BYTES: usize = 14;
/// Most records in a frame, so that it fits an MTU of 1500.
pub const FRAME_RECORDS_MAX: usize = 23;
/// Longest frame, in bytes without FCS. A buffer for transmission must have this length at least.
pub const FRAME_BYTES_MAX: usize = ETHERNET_HEADER_BYTES + FRAME_RECORDS_MAX * RECORD_BYTES;
/// Longest payload of a request or a reply, in bytes: 22 records, which leaves one for what an answer to a resolution
/// says besides the reply.
pub const MAX_PAYLOAD_BYTES: usize = (FRAME_RECORDS_MAX - 1) * RECORD_PAYLOAD_BYTES;
/// Longest payload of any message, in bytes.
pub const MESSAGE_PAYLOAD_BYTES_MAX: usize = FRAME_RECORDS_MAX * RECORD_PAYLOAD_BYTES;
/// EtherType of link frames unless configured otherwise: IEEE Std 802 Local Experimental EtherType 1.
pub const DEFAULT_ETHERTYPE: u16 = 0x88b5;
/// Version of the records in this module.
pub const VERSION: u8 = 1;

/// One record as it lies in a frame.
pub type RecordBytes = [u8; RECORD_BYTES];
