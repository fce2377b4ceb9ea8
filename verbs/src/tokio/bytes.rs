//! Bytes without gaps, for code that reads from anything.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use ::tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::device::{AsyncDevice, Place};
use crate::{bytes::BytePipe, error::Result};

/// The bytes of a [`BytePipe`] as an [`AsyncRead`] and an [`AsyncBufRead`], whose buffer is the
/// pipe's own memory. Made by [`AsyncDevice::reader`].
///
/// It has no end: without bytes it waits, and the end of the daemon is an error. It does not show
/// the bounds of datagrams, and a full pipe drops datagrams. So read messages with bounds of their
/// own, such as lines.
///
/// # Examples
/// ```no_run
/// use covalent::{Match, Transport, tokio::AsyncDevice};
/// use tokio::io::AsyncBufReadExt;
///
/// # #[::tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = AsyncDevice::attach("/run/covalent/covalentd.sock", "logs")?;
/// let mut pipe = device.byte_pipe(1 << 20)?;
/// pipe.bind(&Match::Port { transport: Transport::Udp, dst_port: 514 })?;
/// let mut lines = device.reader(pipe)?.lines();
/// while let Some(line) = lines.next_line().await? {
///     println!("{line}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ByteReader<'d> {
    device: &'d AsyncDevice,
    /// Confirmed bytes are those that `poll_fill_buf` showed.
    pipe: BytePipe<'d>,
    place: Place,
}

impl<'d> ByteReader<'d> {
    pub(super) fn new(device: &'d AsyncDevice, pipe: BytePipe<'d>) -> Result<Self> {
        device.check_device(pipe.device())?;
        Ok(Self {
            device,
            pipe,
            place: device.place(),
        })
    }

    /// The pipe, for its counters.
    #[must_use]
    pub const fn get_ref(&self) -> &BytePipe<'d> {
        &self.pipe
    }

    /// The pipe, to bind it. Bytes that are freed here are not read.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut BytePipe<'d> {
        &mut self.pipe
    }

    /// The pipe. Bytes that were shown and not consumed are [held](BytePipe::held).
    #[must_use]
    pub fn into_inner(self) -> BytePipe<'d> {
        self.pipe
    }
}

impl AsyncBufRead for ByteReader<'_> {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let Self {
            device,
            pipe,
            place,
        } = self.get_mut();
        if pipe.held().is_empty() {
            let found = device.poll_until(context, place, || {
                Ok(pipe.try_recv()?.map(|batch| {
                    let bytes = batch.bytes().len();
                    batch.confirm(bytes);
                }))
            });
            ready!(found).map_err(io::Error::other)?;
        }
        Poll::Ready(Ok(pipe.held()))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().pipe.free_held(bytes);
    }
}

impl AsyncRead for ByteReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if target.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let shown = ready!(self.as_mut().poll_fill_buf(context))?;
        let bytes = shown.len().min(target.remaining());
        target.put_slice(&shown[..bytes]);
        self.consume(bytes);
        Poll::Ready(Ok(()))
    }
}
