//! Bytes on the cable: an Ethernet header and 1 to 23 records of 64 bytes, nothing else.
//!
//! Every number is little-endian, except the EtherType, which Ethernet defines as big-endian. A
//! record has eight slices of eight bytes. The first record of a message describes the whole
//! message. The records behind it, if any, carry only the link's context (slice 1) beside their
//! payload:
//!
//! ```text
//!            0       4       8       12      16      20 21 22 23 24      28              56     64
//!  first     ├ mine ─┼ yours ┼ epoch ┼ rseq ─┼ seq ──┼s ┼b ┼n ┼r ┼ clock ┼ payload, 28 B ┼ check ┤
//!  behind it ├ mine ─┼ yours ┼ payload, 48 bytes ────────────────────────────────────────┼ check ┤
//!            └── slice 1 ────┘
//!  s  slot
//!  b  bytes of payload in the last of these records
//!  n  bits 0 to 4: records of the message in this frame, 1 to 23; bits 5 and 6: number of the
//!     fragment, from 0; bit 7: more fragments follow
//!  r  the piggybacked slot; 255 for none
//! ```
//!
//! A frame carries up to [`FRAME_PAYLOAD_BYTES_MAX`] bytes of one message. A longer message is
//! split into up to [`FRAGMENTS_MAX`] fragments. All but the last one are whole frames, with
//! nothing but keepalives between them.
//!
//! On a record of the initiator ([`slice::Kind::Request`], [`slice::Kind::Tentative`],
//! [`slice::Kind::Commit`], [`slice::Kind::Resolve`]) the `piggyback` is a piggybacked commit:
//! message 3 of the slot that it names. On a record of the responder ([`slice::Kind::Reflecting`],
//! [`slice::Kind::Committed`], [`slice::Kind::Refused`], [`slice::Kind::Resolved`],
//! [`slice::Kind::Relayed`]) it is a piggybacked acknowledgment: message 2 of a 2PC. On a busy link
//! the confirmation of an exchange therefore costs no record.
//!
//! The check (slice 8) of the last record in a frame is the CRC-64/NVME of the frame. It covers
//! everything before it, the Ethernet header included, and the number of records. A frame that was
//! truncated at the end of a record is therefore invalid. The check of the other records is zero.

pub(crate) mod crc;
pub mod frame;
pub mod message;
pub mod record;
pub mod slice;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
/// Payload bytes of the first record of a message, and so of a message of one record.
pub const RECORD_PAYLOAD_BYTES: usize = 28;
/// Payload bytes of a record behind the first.
pub const CONTINUATION_PAYLOAD_BYTES: usize = 48;
/// Bytes of an Ethernet header: destination, source, EtherType.
pub const ETHERNET_HEADER_BYTES: usize = 14;
/// Maximum number of records in a frame, which fits an MTU of 1500.
pub const FRAME_RECORDS_MAX: usize = 23;
/// Longest frame, in bytes without FCS. A buffer for transmission must have this length at least.
pub const FRAME_BYTES_MAX: usize = ETHERNET_HEADER_BYTES + FRAME_RECORDS_MAX * RECORD_BYTES;
/// Most payload of one message in one frame, in bytes.
pub const FRAME_PAYLOAD_BYTES_MAX: usize =
    RECORD_PAYLOAD_BYTES + (FRAME_RECORDS_MAX - 1) * CONTINUATION_PAYLOAD_BYTES;
/// Most fragments of a message.
pub const FRAGMENTS_MAX: usize = 4;
/// Longest payload of a request or a reply, in bytes. Leaves space for the header of a resolution
/// reply.
pub const MAX_PAYLOAD_BYTES: usize = 4096;
/// Longest payload of any message, in bytes.
pub const MESSAGE_PAYLOAD_BYTES_MAX: usize = FRAGMENTS_MAX * FRAME_PAYLOAD_BYTES_MAX;
/// EtherType of link frames unless configured otherwise: IEEE Std 802 Local Experimental EtherType
/// 1.
pub const DEFAULT_ETHERTYPE: u16 = 0x88b5;
/// Version of the records in this module.
pub const VERSION: u8 = 4;

/// One record as it lies in a frame.
pub type RecordBytes = [u8; RECORD_BYTES];
