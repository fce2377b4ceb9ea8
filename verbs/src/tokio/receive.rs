//! Objects that something arrives in.

use covalent_protocol::region::queue::Received;

use crate::{
    bytes::{ByteBatch, BytePipe},
    device::Device,
    error::Result,
    receive::{Message, ReceiveQueue},
    rx::{RxBatch, RxPipe},
    rx_tx::{RxTxBatch, RxTxPipe},
};

/// An object that [`AsyncDevice::recv`](super::AsyncDevice::recv) receives from.
pub trait Receive: Look {
    /// What is received, as by the object's `try_recv`.
    type Item<'a>
    where
        Self: 'a;

    #[doc(hidden)]
    fn item(&mut self, found: Self::Found) -> Self::Item<'_>;
}

/// A look without a borrow, so that it can be repeated.
pub trait Look {
    /// Leads to the item.
    type Found;

    fn device(&self) -> &Device;

    /// As `try_recv`.
    fn look(&mut self) -> Result<Option<Self::Found>>;
}

impl Look for RxPipe<'_> {
    type Found = ();

    fn device(&self) -> &Device {
        self.device()
    }

    fn look(&mut self) -> Result<Option<()>> {
        Ok(self.has_packets()?.then_some(()))
    }
}

impl Receive for RxPipe<'_> {
    type Item<'a>
        = RxBatch<'a>
    where
        Self: 'a;

    fn item(&mut self, (): ()) -> RxBatch<'_> {
        self.batch()
    }
}

impl Look for RxTxPipe<'_> {
    type Found = ();

    fn device(&self) -> &Device {
        self.device()
    }

    fn look(&mut self) -> Result<Option<()>> {
        Ok(self.has_packets()?.then_some(()))
    }
}

impl Receive for RxTxPipe<'_> {
    type Item<'a>
        = RxTxBatch<'a>
    where
        Self: 'a;

    fn item(&mut self, (): ()) -> RxTxBatch<'_> {
        self.batch()
    }
}

impl Look for BytePipe<'_> {
    type Found = ();

    fn device(&self) -> &Device {
        self.device()
    }

    fn look(&mut self) -> Result<Option<()>> {
        Ok(self.has_more_than(0)?.then_some(()))
    }
}

impl Receive for BytePipe<'_> {
    type Item<'a>
        = ByteBatch<'a>
    where
        Self: 'a;

    fn item(&mut self, (): ()) -> ByteBatch<'_> {
        self.batch()
    }
}

impl Look for ReceiveQueue<'_> {
    type Found = Received;

    fn device(&self) -> &Device {
        self.device()
    }

    fn look(&mut self) -> Result<Option<Received>> {
        self.try_take()
    }
}

impl Receive for ReceiveQueue<'_> {
    type Item<'a>
        = Message<'a>
    where
        Self: 'a;

    fn item(&mut self, found: Received) -> Message<'_> {
        self.message(found)
    }
}
