//! Seats of connections over TCP, where the peer's identity is unknown.
//!
//! If all seats are taken, an unused connection loses its seat to the next one. The longest unused
//! connection is first. Unused means without a request, or with a reply that the client does not
//! receive. A client that holds many connections open therefore cannot lock out a client that sends
//! requests and reads the replies.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use axum::body::Body;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{Notify, futures::OwnedNotified},
    time::{Duration, Instant, Sleep, sleep},
};

/// All of them. Clones share them.
#[derive(Debug, Clone)]
pub struct Seats(Arc<Room>);

#[derive(Debug)]
struct Room {
    most: usize,
    taken: Mutex<Taken>,
    /// One was given back, or is not made use of any more.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    seats: BTreeMap<u64, Use>,
    next: u64,
}

/// Use of a seat by its connection.
#[derive(Debug)]
struct Use {
    /// Requests whose replies are not completely handed over.
    requests: u32,
    /// Since when there is none.
    idle_since: Instant,
    /// Since when bytes wait that the client does not take.
    blocked_since: Option<Instant>,
    leave: Arc<Notify>,
}

impl Use {
    /// Since when it makes no use of its seat.
    fn useless_since(&self) -> Option<Instant> {
        let idle = (self.requests == 0).then_some(self.idle_since);
        [idle, self.blocked_since].into_iter().flatten().min()
    }
}

impl Seats {
    /// So many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Room {
            most,
            taken: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Waits for a free seat. The wait is short if another connection does not use its seat.
    pub async fn take(&self) -> Seat {
        loop {
            // A change between the look and the wait is kept for the wait.
            if let Some(seat) = self.try_take() {
                return seat;
            }
            self.0.changed.notified().await;
        }
    }

    /// Takes a free seat. If there is none, requests an unused connection to close.
    fn try_take(&self) -> Option<Seat> {
        let mut taken = self.0.taken();
        if taken.seats.len() >= self.0.most {
            let useless = taken
                .seats
                .values()
                .filter_map(|seat| Some((seat.useless_since()?, &seat.leave)));
            if let Some((_, leave)) = useless.min_by_key(|(since, _)| *since) {
                leave.notify_one();
            }
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let leave = Arc::new(Notify::new());
        taken.seats.insert(
            number,
            Use {
                requests: 0,
                idle_since: Instant::now(),
                blocked_since: None,
                leave: Arc::clone(&leave),
            },
        );
        let room = Arc::clone(&self.0);
        Some(Seat(Arc::new(Held {
            room,
            number,
            leave,
        })))
    }
}

impl Room {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Consistent at every unlock, even after a panic of a holder.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that is taken until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Seat(Arc<Held>);

#[derive(Debug)]
struct Held {
    room: Arc<Room>,
    number: u64,
    leave: Arc<Notify>,
}

impl Seat {
    /// Ready when another connection needs the seat and this connection does not use it.
    pub fn wanted(&self) -> OwnedNotified {
        Arc::clone(&self.0.leave).notified_owned()
    }

    /// A request has come. It is answered when the returned body is dropped.
    #[must_use]
    pub fn begin_request(&self) -> OpenRequest {
        self.update(|seat| seat.requests += 1);
        OpenRequest(self.clone())
    }

    fn update(&self, change: impl FnOnce(&mut Use)) {
        if let Some(seat) = self.0.room.taken().seats.get_mut(&self.0.number) {
            change(seat);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.taken().seats.remove(&self.number);
        self.room.changed.notify_one();
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct OpenRequest(Seat);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.update(|seat| {
            seat.requests -= 1;
            seat.idle_since = Instant::now();
        });
        self.0.0.room.changed.notify_one();
    }
}

/// The body of an answer, which ends the request when it is handed over.
#[derive(Debug)]
pub struct Answer {
    body: Body,
    _open_request: OpenRequest,
}

impl Answer {
    /// Of this request.
    #[must_use]
    pub const fn new(body: Body, open_request: OpenRequest) -> Self {
        Self {
            body,
            _open_request: open_request,
        }
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that fails if its client does not receive the sent data. It offers whole messages,
/// so a client that accepts single bytes does not extend the limit.
#[derive(Debug)]
pub struct Patient {
    stream: TcpStream,
    seat: Seat,
    /// How long bytes may wait.
    patience: Duration,
    /// Runs while bytes wait.
    limit: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    /// Wraps the connection of `seat`. Its bytes may wait for `patience`.
    #[must_use]
    pub const fn new(stream: TcpStream, seat: Seat, patience: Duration) -> Self {
        Self {
            stream,
            seat,
            patience,
            limit: None,
        }
    }

    /// Handles the result of an attempt to send `offered` bytes.
    fn after(
        &mut self,
        context: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let is_whole = matches!(&written, Poll::Ready(Ok(taken)) if *taken == offered);
        if is_whole {
            if self.limit.take().is_some() {
                self.seat.update(|seat| seat.blocked_since = None);
            }
            return written;
        }
        if self.limit.is_none() {
            let now = Instant::now();
            self.seat.update(|seat| seat.blocked_since = Some(now));
            self.seat.0.room.changed.notify_one();
        }
        let limit = self
            .limit
            .get_or_insert_with(|| Box::pin(sleep(self.patience)));
        if limit.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.after(context, bytes.len(), written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = pieces.iter().map(|piece| piece.len()).sum();
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.after(context, offered, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unused_seat_is_given_to_the_next() {
        let seats = Seats::new(3);
        let [busy, first, second] =
            [(); 3].map(|()| seats.try_take().expect("there is a free one"));
        let open_request = busy.begin_request();
        // Both answer once; the second one last.
        drop(first.begin_request());
        sleep(Duration::from_millis(2)).await;
        drop(second.begin_request());
        assert!(seats.try_take().is_none());
        first.wanted().await;
        drop(first);
        let third = seats.try_take().expect("given back");
        let begin_request = third.begin_request();
        third.update(|seat| seat.blocked_since = Some(Instant::now()));
        assert!(seats.try_take().is_none());
        second.wanted().await;
        drop(second);
        let fourth = seats.try_take().expect("given back");
        let last_request = fourth.begin_request();
        assert!(seats.try_take().is_none());
        third.wanted().await;
        drop((begin_request, third));
        drop(seats.try_take().expect("given back"));
        drop((open_request, last_request));
    }

    #[tokio::test]
    async fn a_reading_client_keeps_its_seat_and_the_next_waits() {
        let seats = Seats::new(1);
        let seat = seats.take().await;
        let open_request = seat.begin_request();
        let waits = tokio::time::timeout(Duration::from_millis(20), seats.take());
        assert!(waits.await.is_err());
        let waits = tokio::spawn(async move { seats.take().await });
        tokio::task::yield_now().await;
        drop((open_request, seat));
        let within = tokio::time::timeout(Duration::from_secs(5), waits);
        within.await.expect("a seat is free").expect("taken");
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_the_answer_is_not_waited_for() {
        use tokio::{io::AsyncWriteExt, net::TcpListener};
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("a port"));
        let client = client.await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("a client");
        let seats = Seats::new(1);
        let seat = seats.take().await;
        let patience = Duration::from_millis(50);
        let mut patient = Patient::new(stream, seat.clone(), patience);
        let began = Instant::now();
        let sends = async {
            loop {
                if let Err(problem) = patient.write_all(&[0; 1 << 16]).await {
                    return problem.kind();
                }
            }
        };
        let within = tokio::time::timeout(Duration::from_secs(20), sends).await;
        assert_eq!(within, Ok(io::ErrorKind::TimedOut));
        assert!(began.elapsed() >= patience);
        assert!(seats.0.taken().seats[&0].blocked_since.is_some());
        drop(client);
    }
}
