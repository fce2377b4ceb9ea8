//! The application of a session. It takes notifications, receives from the notified pipes until
//! they are empty, and owes doorbells as `covalent`' device does.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result, bail, ensure};
use covalent_pipe::{
    Direction, PipeMemory,
    app::{RxPipe, TxPipe},
    session::{AppSession, SessionMemory},
};

use super::{
    handing::Handing,
    lane::REPLIES_BYTES,
    part::{NotifyMode, SessionPart},
    probe::is_probe,
};
use crate::streams::{peers::BURST, source::TOUCHED};

/// An application's half of the pipes.
#[derive(Debug)]
pub struct Application {
    session: AppSession,
    notify_mode: NotifyMode,
    pipes: Vec<RxPipe>,
    replies: TxPipe,
    /// The number of that pipe in the session: behind all others.
    replies_number: u32,
    /// Pipes with a notification that were not polled since.
    ready: Numbers,
    /// Pipes whose space was freed without a doorbell. The lane would therefore not notify of the
    /// next packet.
    owed: Numbers,
    received: u64,
    touched: u64,
}

impl Application {
    /// Takes the pipes over.
    pub fn prepare(part: &SessionPart, notify_mode: NotifyMode, handing: &Handing) -> Result<Self> {
        let session = handing.take(1, |fds| {
            let fd = fds
                .into_iter()
                .next()
                .context("a session has a descriptor")?;
            SessionMemory::open(fd, part.slots()).context("opening a session")
        })?;
        let pipe = |direction, capacity_bytes| {
            handing.take(2, |fds| {
                let fds: [OwnedFd; 2] =
                    fds.try_into().ok().context("a pipe has two descriptors")?;
                PipeMemory::open(fds, direction, capacity_bytes).context("opening a pipe")
            })
        };
        Ok(Self {
            session: AppSession::new(session),
            notify_mode,
            pipes: (0..part.count)
                .map(|_| Ok(RxPipe::new(pipe(Direction::Rx, part.ring_bytes)?)?))
                .collect::<Result<_>>()?,
            replies: TxPipe::new(pipe(Direction::Tx, REPLIES_BYTES)?)?,
            replies_number: part.count,
            ready: Numbers::below(part.count),
            owed: Numbers::below(part.count),
            received: 0,
            touched: 0,
        })
    }

    /// Receives until it is stopped. Returns the number of received packets.
    pub fn play(mut self, stop: &AtomicBool) -> Result<u64> {
        while !stop.load(Ordering::Relaxed) {
            self.take_notifications()?;
            match self.ready.pop() {
                Some(number) => self.receive_from(number, stop)?,
                None => self.pay()?,
            }
        }
        for pipe in &self.pipes {
            if let Some(violation) = pipe.violation() {
                bail!("{violation}");
            }
        }
        ensure!(
            self.touched == self.received,
            "{} packets add up to {}",
            self.received,
            self.touched
        );
        Ok(self.received)
    }

    #[inline]
    fn take_notifications(&mut self) -> Result<()> {
        loop {
            let taken = match self.notify_mode {
                NotifyMode::PerPacket => self.session.next_of_each()?,
                NotifyMode::Reactive | NotifyMode::ReactivePrefetch => {
                    self.session.next_notification()?
                }
            };
            let Some(notification) = taken else {
                return Ok(());
            };
            self.ready.push(notification.pipe);
        }
    }

    #[inline]
    fn receive_from(&mut self, number: u32, stop: &AtomicBool) -> Result<()> {
        if self.notify_mode == NotifyMode::ReactivePrefetch {
            self.session.ring(number)?;
        }
        let pipe = &mut self.pipes[number as usize];
        let mut owes = false;
        while let Some(batch) = pipe.recv() {
            let mut walk = batch.iter();
            for packet in walk.by_ref().take(BURST) {
                self.touched += u64::from(packet[TOUCHED]);
                self.received += 1;
                // Ignore the result: a reply without space is a lost probe.
                if is_probe(packet) {
                    let _ = self.replies.send(packet);
                }
            }
            let position = walk.position();
            owes = batch.free_to(position);
            if self.replies.publish() {
                self.session.ring(self.replies_number)?;
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        if owes && self.notify_mode != NotifyMode::PerPacket {
            self.owed.push(number);
        }
        Ok(())
    }

    #[inline]
    fn pay(&mut self) -> Result<()> {
        while let Some(number) = self.owed.pop() {
            self.session.ring(number)?;
        }
        Ok(())
    }
}

/// Numbers of pipes, each at most once, oldest first.
#[derive(Debug)]
struct Numbers {
    order: VecDeque<u32>,
    is_there: Box<[bool]>,
}

impl Numbers {
    fn below(below: u32) -> Self {
        Self {
            order: VecDeque::with_capacity(below as usize),
            is_there: vec![false; below as usize].into_boxed_slice(),
        }
    }

    #[inline]
    fn push(&mut self, number: u32) {
        if let Some(is_there) = self.is_there.get_mut(number as usize)
            && !std::mem::replace(is_there, true)
        {
            self.order.push_back(number);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let number = self.order.pop_front()?;
        self.is_there[number as usize] = false;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_there_once_and_oldest_first() {
        let mut numbers = Numbers::below(4);
        for number in [2, 0, 2, 9, 3] {
            numbers.push(number);
        }
        assert_eq!(numbers.pop(), Some(2));
        numbers.push(2);
        assert_eq!(
            [(); 4].map(|()| numbers.pop()),
            [Some(0), Some(3), Some(2), None]
        );
    }
}
