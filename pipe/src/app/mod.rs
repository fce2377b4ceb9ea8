//! The application's halves of pipes.
//!
//! Each half is `Send`. One thread at a time drives it through `&mut`. Packets are opaque bytes: a
//! pipe does not depend on their byte order. No call here blocks or makes a system call.
//!
//! The application trusts the daemon with the bytes of its own pipes, so it may hold slices of
//! them. The daemon does not write bytes between the tail that it published and the head that it
//! has read. It gives the descriptors of a pipe to no other process. Cursors and lengths are
//! checked nevertheless. A faulty daemon therefore causes lost packets
//! ([`Violation`](crate::Violation) from `violation()`), never an access outside the memory.

mod bytes;
mod receiver;
mod rx;
mod rx_tx;
mod tx;

pub use bytes::{ByteBatch, BytePipe};
pub use rx::{Packets, Position, RxBatch, RxPipe};
pub use rx_tx::{PacketMut, RxTxBatch, RxTxPipe};
pub use tx::{SendRefusal, TxPipe, TxReservation};
