//! A device whose waits are futures.

use std::{
    fmt, io,
    ops::Deref,
    os::fd::{AsFd, AsRawFd, RawFd},
    path::Path,
    pin::Pin,
    ptr,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use ::tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{Notify, futures::OwnedNotified},
    task::coop,
    time::{Sleep, sleep, timeout_at},
};

use super::{
    bytes::ByteReader, flush::Flush, messages::MessageStream, receive::Receive, verbs::AsyncVerbs,
};
use crate::{
    bytes::{ByteBatch, BytePipe},
    device::{Device, PAUSE},
    error::{Error, Result},
    group::{Group, GroupEvent},
    pipe_id::PipeId,
    queue::Verbs,
    receive::ReceiveQueue,
    timeout::Timeout,
    tx::TxPipe,
    verb::Completion,
};

/// A [`Device`] that is registered with Tokio, so that several local tasks can wait on its objects.
///
/// Objects are opened as on a [`Device`], which it dereferences to. It is `Send` and not `Sync`.
///
/// # Examples
/// Two tasks on one device: one receives, one sends.
/// ```no_run
/// use covalent::{Match, tokio::AsyncDevice};
///
/// # #[::tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), covalent::Error> {
/// let device = AsyncDevice::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut back = device.rx_pipe_on(1 << 20, "p0")?;
/// back.bind(&Match::Any)?;
/// let mut out = device.tx_pipe(1 << 20, "p0")?;
/// let (batch, sent) = tokio::join!(device.recv(&mut back), device.send(&mut out, &[0xff; 60]));
/// sent?;
/// println!("{} frames came back", batch?.iter().count());
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// [`AsyncDevice::attach`] and [`AsyncDevice::new`] panic outside of a Tokio runtime, and in one
/// without [`enable_io`](::tokio::runtime::Builder::enable_io).
pub struct AsyncDevice {
    fd: AsyncFd<Watched>,
    /// Everyone who waits.
    tasks: Arc<Notify>,
    /// Wakes all of them.
    waker: Waker,
}

/// The device as Tokio watches it.
struct Watched(Device);

/// The same open descriptor as long as the device lives. None in a forked process: what Tokio
/// removes there when it drops the device is also removed in the parent, which shares the runtime's
/// epoll.
impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        if self.0.is_own() {
            self.0.as_fd().as_raw_fd()
        } else {
            -1
        }
    }
}

/// The waker of the descriptor: wakes all tasks. So none depends on another one that may be dropped
/// before it looks.
struct WakeAll(Arc<Notify>);

impl Wake for WakeAll {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_waiters();
    }
}

/// The place of something polled among the tasks.
#[derive(Debug)]
pub(super) struct Place {
    woken: Pin<Box<OwnedNotified>>,
    /// It waits for a daemon that is gone.
    pause: Option<Pin<Box<Sleep>>>,
}

impl AsyncDevice {
    /// Attaches to the daemon that listens at `socket`, as [`Device::attach`]. Blocks for the
    /// reply.
    ///
    /// # Errors
    /// As [`Device::attach`].
    pub fn attach(socket: impl AsRef<Path>, program: &str) -> Result<Self> {
        Self::new(Device::attach(socket, program)?)
    }

    /// As [`AsyncDevice::attach`], on the lane that owns the port named `port`, within `timeout`,
    /// as [`Device::attach_for_port`].
    ///
    /// # Errors
    /// As [`Device::attach_for_port`].
    pub fn attach_for_port(
        socket: impl AsRef<Path>,
        program: &str,
        port: &str,
        timeout: impl Into<Timeout>,
    ) -> Result<Self> {
        Self::new(Device::attach_for_port(socket, program, port, timeout)?)
    }

    /// Registers a device with the runtime of the caller.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn new(device: Device) -> Result<Self> {
        device.serve_tasks();
        let tasks = Arc::new(Notify::new());
        let waker = Waker::from(Arc::new(WakeAll(tasks.clone())));
        // What the constructor that is not deprecated asks of its caller, in an `unsafe` block: the
        // device has one descriptor from its start to its end.
        #[allow(deprecated, reason = "this crate has no unsafe code")]
        let fd = AsyncFd::with_interest(Watched(device), Interest::READABLE).map_err(failed)?;
        Ok(Self { fd, tasks, waker })
    }

    /// Waits until `look` finds something. `look` is called at once and after each wake-up of the
    /// device. It calls what does not wait (`try_x`), and must ask each object until it has nothing
    /// more, as after [`Device::arm`]. Use it for a wait on several objects in one task.
    ///
    /// # Errors
    /// Those of `look` and of [`Device::arm`].
    ///
    /// # Examples
    /// ```no_run
    /// # use covalent::{Match, tokio::AsyncDevice};
    /// # async fn example(device: AsyncDevice) -> Result<(), covalent::Error> {
    /// let mut one = device.rx_pipe_on(1 << 20, "p0")?;
    /// let mut other = device.rx_pipe_on(1 << 20, "p1")?;
    /// one.bind(&Match::Any)?;
    /// other.bind(&Match::Any)?;
    /// let frames = device
    ///     .until(|| {
    ///         let mut frames = 0;
    ///         for pipe in [&mut one, &mut other] {
    ///             frames += pipe.try_recv()?.map_or(0, |batch| batch.iter().count());
    ///         }
    ///         Ok((frames > 0).then_some(frames))
    ///     })
    ///     .await?;
    /// # let _ = frames;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn until<T>(&self, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        loop {
            coop::consume_budget().await;
            // From before the look: news after it end the wait.
            let woken = self.tasks.notified();
            let looked = match look() {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => self.look_again(),
                Err(error) => Err(error),
            };
            match looked {
                Ok(true) => {}
                Ok(false) => woken.await,
                Err(error) => self.outlast(error)?.await,
            }
        }
    }

    /// As [`AsyncDevice::until`], for a task that is polled.
    pub(super) fn poll_until<T>(
        &self,
        context: &mut Context<'_>,
        place: &mut Place,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Poll<Result<T>> {
        loop {
            if let Some(pause) = &mut place.pause {
                ready!(pause.as_mut().poll(context));
                place.pause = None;
            }
            let budget = ready!(coop::poll_proceed(context));
            place.woken.set(self.tasks.clone().notified_owned());
            let looked = look();
            budget.made_progress();
            let looked = match looked {
                Ok(Some(found)) => return Poll::Ready(Ok(found)),
                Ok(None) => self.look_again(),
                Err(error) => Err(error),
            };
            match looked {
                Ok(true) => {}
                Ok(false) => ready!(place.woken.as_mut().poll(context)),
                Err(error) => place.pause = Some(Box::pin(self.outlast(error)?)),
            }
        }
    }

    /// A place among the tasks, for [`AsyncDevice::poll_until`].
    pub(super) fn place(&self) -> Place {
        Place {
            woken: Box::pin(self.tasks.clone().notified_owned()),
            pause: None,
        }
    }

    /// The pause after which a task that met `error` looks again: the daemon is gone, and the
    /// device searches for it.
    fn outlast(&self, error: Error) -> Result<Sleep> {
        if self.is_away() && matches!(error, Error::DaemonGone { .. }) {
            Ok(sleep(PAUSE))
        } else {
            Err(error)
        }
    }

    /// Wakes all tasks: this one took something that may be theirs.
    pub(super) fn wake_tasks(&self) {
        self.tasks.notify_waiters();
    }

    /// Whether a task that found nothing must look again. If not, news from now on wake it.
    ///
    /// Each task looks after the last arming, because each arming wakes all of them. A signal stays
    /// in the descriptor until the next arming. So no task sleeps while there is a signal that it
    /// has not looked after.
    fn look_again(&self) -> Result<bool> {
        match self
            .fd
            .poll_read_ready(&mut Context::from_waker(&self.waker))
        {
            Poll::Pending if self.is_armed() => return Ok(false),
            Poll::Pending => {}
            // Before the device takes the signal: Tokio reports the next one as an edge.
            Poll::Ready(guard) => guard.map_err(failed)?.clear_ready(),
        }
        let armed = self.arm_again();
        self.wake_tasks();
        armed.map(|()| true)
    }

    /// # Errors
    /// [`Error::Invalid`] for an object of another device: its news would wake no task.
    pub(super) fn check_device(&self, device: &Device) -> Result<()> {
        if ptr::eq(&**self, device) {
            Ok(())
        } else {
            Err(Error::Invalid(
                "an object of another device: wait for it with the device that opened it"
                    .to_owned(),
            ))
        }
    }

    /// Receives from a pipe or a receive queue, as its `recv` does. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// As `try_recv` of the object. [`Error::Invalid`] for an object of another device.
    pub async fn recv<'a, R: Receive>(&self, from: &'a mut R) -> Result<R::Item<'a>> {
        self.check_device(from.device())?;
        let found = self.until(|| from.look()).await?;
        Ok(from.item(found))
    }

    /// Waits for more than `bytes` bytes, as [`BytePipe::recv_more_than`]. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// As [`BytePipe::try_recv_more_than`], and as [`AsyncDevice::recv`].
    pub async fn recv_more_than<'a>(
        &self,
        pipe: &'a mut BytePipe<'_>,
        bytes: usize,
    ) -> Result<ByteBatch<'a>> {
        self.check_device(pipe.device())?;
        pipe.check_holds_more_than(bytes)?;
        self.until(|| Ok(pipe.has_more_than(bytes)?.then_some(())))
            .await?;
        Ok(pipe.batch())
    }

    /// Returns the next pipe in which packets arrived, as [`Device::next_rx_pipe`]. Dropping the
    /// future loses nothing. One task at a time may use it: each pipe is named once.
    ///
    /// # Errors
    /// As [`Device::try_next_rx_pipe`].
    pub async fn next_rx_pipe(&self) -> Result<PipeId> {
        self.until(|| self.try_next_rx_pipe()).await
    }

    /// Sends one packet, waiting for room if necessary, as [`TxPipe::send`]. If the future is
    /// dropped before it completes, the packet was not sent. Only while the daemon is gone, and the
    /// device reconnects, it may be sent later.
    ///
    /// # Errors
    /// As [`TxPipe::try_send`], except [`Error::PipeFull`]. [`Error::Invalid`] for a pipe of
    /// another device.
    pub async fn send(&self, pipe: &mut TxPipe<'_>, packet: &[u8]) -> Result<()> {
        self.check_device(pipe.device())?;
        coop::consume_budget().await;
        loop {
            match pipe.push(packet) {
                Err(Error::PipeFull { .. }) => {
                    let bytes = packet.len() as u64;
                    self.until(|| Ok(pipe.has_room(bytes)?.then_some(())))
                        .await?;
                }
                Err(error) => self.outlast(error)?.await,
                Ok(()) => break,
            }
        }
        while let Err(error) = pipe.publish() {
            self.outlast(error)?.await;
        }
        Ok(())
    }

    /// Waits until everything pushed or sent back is with the port, as [`TxPipe::flush`] and
    /// [`RxTxPipe::flush`](crate::RxTxPipe::flush). What was pushed is published at once, also if
    /// the future is dropped.
    ///
    /// # Errors
    /// As `try_flush` of the pipe. [`Error::Invalid`] for a pipe of another device.
    pub async fn flush(&self, pipe: &mut impl Flush) -> Result<()> {
        self.check_device(pipe.device())?;
        self.until(|| Ok(pipe.try_flush()?.then_some(()))).await
    }

    /// Waits for completions and takes them, as [`Verbs::poll`]. Dropping the future loses nothing.
    /// This is for the one task that has the verb queue; several tasks share it as [`AsyncVerbs`].
    ///
    /// # Errors
    /// As [`Verbs::try_poll`]. [`Error::Invalid`] for a queue of another device.
    pub async fn poll(
        &self,
        verbs: &mut Verbs<'_>,
        completions: &mut [Completion],
    ) -> Result<usize> {
        self.check_device(verbs.device)?;
        if completions.is_empty() || verbs.outstanding() == 0 {
            return Ok(0);
        }
        self.until(|| {
            let taken = verbs.try_poll(completions)?;
            Ok((taken > 0).then_some(taken))
        })
        .await
    }

    /// Waits for the group's next event, as [`Group::next`]. Dropping the future loses nothing. The
    /// runtime needs [`enable_time`](::tokio::runtime::Builder::enable_time) for the ticks.
    ///
    /// A member does its part for the group only inside this call. So keep one in flight, for
    /// example in each turn of a `select!`.
    ///
    /// # Errors
    /// As [`Group::try_next`]. [`Error::Invalid`] for a group of another device.
    pub async fn next<'g>(&self, group: &'g mut Group<'_>) -> Result<GroupEvent<'g>> {
        self.check_device(group.device())?;
        loop {
            let tick = group.poll_at();
            let look = || Ok(group.try_next()?.map(drop));
            if let Ok(found) = timeout_at(tick.into(), self.until(look)).await {
                found?;
                break;
            }
        }
        group.last_event().ok_or_else(|| Error::Deadline {
            what: "the group had an event".into(),
        })
    }

    /// The bytes of a pipe as an [`AsyncRead`](::tokio::io::AsyncRead) and
    /// [`AsyncBufRead`](::tokio::io::AsyncBufRead).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a pipe of another device.
    pub fn reader<'d>(&'d self, pipe: BytePipe<'d>) -> Result<ByteReader<'d>> {
        ByteReader::new(self, pipe)
    }

    /// The messages of a queue as a [`Stream`](futures_core::Stream). Each is copied.
    /// [`AsyncDevice::recv`] copies none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a queue of another device.
    pub fn messages<'d>(&'d self, queue: ReceiveQueue<'d>) -> Result<MessageStream<'d>> {
        MessageStream::new(self, queue)
    }

    /// A verb queue of the device, shared by tasks.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a queue of another device.
    pub fn share<'d>(&'d self, verbs: Verbs<'d>) -> Result<AsyncVerbs<'d>> {
        AsyncVerbs::new(self, verbs)
    }
}

impl Deref for AsyncDevice {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.fd.get_ref().0
    }
}

impl fmt::Debug for AsyncDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncDevice").field(&**self).finish()
    }
}

/// As a device, it may be moved to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<AsyncDevice>();
};

fn failed(cause: io::Error) -> Error {
    Error::System {
        what: "watch the device's descriptor with Tokio",
        cause,
    }
}
