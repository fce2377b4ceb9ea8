//! Pipes that send.

use crate::{device::Device, error::Result, rx_tx::RxTxPipe, tx::TxPipe};

/// A pipe that [`AsyncDevice::flush`](super::AsyncDevice::flush) waits for.
pub trait Flush: Sends {}

/// What a flush needs of a pipe.
pub trait Sends {
    fn device(&self) -> &Device;

    /// As `try_flush`.
    fn try_flush(&mut self) -> Result<bool>;
}

impl Flush for TxPipe<'_> {}

impl Sends for TxPipe<'_> {
    fn device(&self) -> &Device {
        self.device()
    }

    fn try_flush(&mut self) -> Result<bool> {
        self.try_flush()
    }
}

impl Flush for RxTxPipe<'_> {}

impl Sends for RxTxPipe<'_> {
    fn device(&self) -> &Device {
        self.device()
    }

    fn try_flush(&mut self) -> Result<bool> {
        self.try_flush()
    }
}
