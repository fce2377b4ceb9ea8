//! Messages for code that takes a stream.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use covalent_api::guid::Guid;
use futures_core::{Stream, stream::FusedStream};

use super::device::{AsyncDevice, Place};
use crate::{error::Result, receive::ReceiveQueue, stamp::Stamp};

/// A [`Message`](crate::Message) with bytes of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedMessage {
    /// The node that sent it.
    pub sender: Guid,
    /// When its verb was executed here.
    pub stamp: Stamp,
    /// The message.
    pub data: Vec<u8>,
}

/// The messages of a [`ReceiveQueue`] as a [`Stream`]. Made by [`AsyncDevice::messages`]. It ends
/// after the first error. Dropping it, or a future of its next message, loses no message: those not
/// taken stay in the queue.
#[derive(Debug)]
pub struct MessageStream<'d> {
    device: &'d AsyncDevice,
    queue: ReceiveQueue<'d>,
    place: Place,
    has_failed: bool,
}

impl<'d> MessageStream<'d> {
    pub(super) fn new(device: &'d AsyncDevice, queue: ReceiveQueue<'d>) -> Result<Self> {
        device.check_device(queue.device())?;
        Ok(Self {
            device,
            queue,
            place: device.place(),
            has_failed: false,
        })
    }

    /// The queue.
    #[must_use]
    pub const fn get_ref(&self) -> &ReceiveQueue<'d> {
        &self.queue
    }

    /// The queue.
    #[must_use]
    pub fn into_inner(self) -> ReceiveQueue<'d> {
        self.queue
    }
}

impl Stream for MessageStream<'_> {
    type Item = Result<OwnedMessage>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self {
            device,
            queue,
            place,
            has_failed,
        } = self.get_mut();
        if *has_failed {
            return Poll::Ready(None);
        }
        let polled = device.poll_until(context, place, || {
            Ok(queue.try_recv()?.map(|message| OwnedMessage {
                sender: message.sender,
                stamp: message.stamp,
                data: message.data.to_vec(),
            }))
        });
        polled.map(|message| {
            *has_failed = message.is_err();
            Some(message)
        })
    }
}

impl FusedStream for MessageStream<'_> {
    fn is_terminated(&self) -> bool {
        self.has_failed
    }
}
