//! Places of connections over TCP, where nobody knows who is at the other end.
//!
//! When all are taken, a connection that makes no use of its place gives it to the next one: first those that ask for nothing, or that do not take their answer, for the
//! longest time. So a client that holds many open keeps out nobody who asks and reads.

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

/// What a connection does with its seat.
#[derive(Debug)]
struct Use {
    /// Requests whose answers are not handed over whole.
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

    /// Waits until there is one, which is at once if somebody makes no use of theirs.
    pub async fn take(&self) -> Seat {
        loop {
            // A change between the look and the wait is kept for the wait.
            if let Some(seat) = self.try_take() {
                return seat;
            }
            self.0.changed.notified().await;
        }
    }

    /// One that is free; if none is, whoever is told to leave is on the way.
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
        // Whole whenever it is unlocked, whatever a panicking holder did.
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
    /// Ready when somebody else needs the seat, and nothing is done with it here.
    pub fn wanted(&self) -> OwnedNotified {
        Arc::clone(&self.0.leave).notified_owned()
    }

    /// A request has come. It is answered when the returned body is dropped.
    #[must_use]
    pub fn asks(&self) -> Asking {
        self.update(|seat| seat.requests += 1);
        Asking(self.clone())
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
pub struct Asking(Seat);

impl Drop for Asking {
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
    _asking: Asking,
}

impl Answer {
    /// Of this request.
    #[must_use]
    pub const fn new(body: Body, asking: Asking) -> Self {
        Self {
            body,
            _asking: asking,
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

/// A connection that fails when its client does not take what is sent. Whole messages are offered, so a client that takes a byte now and then is not waited for longer.
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
    /// Of the connection that has this seat, and whose bytes may wait so long.
    #[must_use]
    pub const fn new(stream: TcpStream, seat: Seat, patience: Duration) -> Self {
        Self {
            stream,
            seat,
            patience,
            limit: None,
        }
    }

    /// What became of an attempt to send `offered` bytes.
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
    async fn who_makes_no_use_of_a_seat_gives_it_to_the_next() {
        let seats = Seats::new(3);
        let [busy, first, second] =
            [(); 3].map(|()| seats.try_take().expect("there is a free one"));
        let asking = busy.asks();
        // Both answer once; the second one last.
        drop(first.asks());
        sleep(Duration::from_millis(2)).await;
        drop(second.asks());
        assert!(seats.try_take().is_none());
        first.wanted().await;
        drop(first);
        let third = seats.try_take().expect("given back");
        let asks = third.asks();
        third.update(|seat| seat.blocked_since = Some(Instant::now()));
        assert!(seats.try_take().is_none());
        second.wanted().await;
        drop(second);
        let fourth = seats.try_take().expect("given back");
        let asks_too = fourth.asks();
        assert!(seats.try_take().is_none());
        third.wanted().await;
        drop((asks, third));
        drop(seats.try_take().expect("given back"));
        drop((asking, asks_too));
    }

    #[tokio::test]
    async fn nobody_who_reads_is_sent_away_and_the_next_waits() {
        let seats = Seats::new(1);
        let seat = seats.take().await;
        let asking = seat.asks();
        let waits = tokio::time::timeout(Duration::from_millis(20), seats.take());
        assert!(waits.await.is_err());
        let waits = tokio::spawn(async move { seats.take().await });
        tokio::task::yield_now().await;
        drop((asking, seat));
        let within = tokio::time::timeout(Duration::from_secs(5), waits);
        within.await.expect("a seat is free").expect("taken");
    }

    #[tokio::test]
    async fn who_does_not_take_what_is_sent_is_not_waited_for() {
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
