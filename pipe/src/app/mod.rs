//! The application's halves of pipes.
//!
//! Each half is `Send` and driven by one thread at a time through `&mut`. Packets are opaque bytes: nothing in a pipe depends on their byte
//! order. No call here blocks or makes a system call.
//!
//! The application trusts the daemon with the bytes of its own pipes. This is why it may have
//! slices of them: the daemon does not write bytes between the tail that it published and the head
//! that it was shown, and gives the descriptors of a pipe to no other process. Cursors and lengths
//! are checked nevertheless, so that a broken
//! daemon means no packets ([`crate::Violation`] from `violation()`) and never an access outside the memory.

mod bytes;
mod receiver;
mod rx;
mod rx_tx;
mod tx;

pub use bytes::{ByteBatch, BytePipe};
pub use rx::{Packets, Position, RxBatch, RxPipe};
pub use rx_tx::{PacketMut, RxTxBatch, RxTxPipe};
pub use tx::{SendRefusal, TxPipe, TxReservation};
