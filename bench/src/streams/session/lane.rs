//! Pipes of one session, driven as a lane of `covalentd` drives them. Copied packets are published
//! once per burst. Notifications go through the session. Doorbells are processed one burst at a
//! time.

use anyhow::{Context, Result, bail};
use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    nic::{NicPipe, footprint_bytes},
    session::{NicSession, SessionMemory},
};

use super::{
    drive::{Back, NearRings},
    handing::Handing,
    part::{NotifyMode, SessionPart},
    probe::{self, sent_ns},
};
use crate::streams::peers::BURST;

/// Size of the ring of the pipe through which probes come back.
pub const REPLIES_BYTES: u64 = 64 << 10;

/// A lane's half of the pipes.
#[derive(Debug)]
pub struct Lane {
    session: NicSession,
    pipes: Vec<LanePipe>,
    replies: NicPipe,
    /// Pipes that hold unpublished packets.
    touched: Vec<u32>,
    notify_mode: NotifyMode,
    /// Pipes with a pending notification, because the notification ring was full.
    unnotified: Vec<u32>,
    notifications: u64,
}

#[derive(Debug)]
struct LanePipe {
    nic: NicPipe,
    touched: bool,
    /// Its tail, as in its last notification.
    tail: u64,
}

impl Lane {
    /// Makes the pipes and hands them over.
    pub fn prepare(part: &SessionPart, notify_mode: NotifyMode, handing: &Handing) -> Result<Self> {
        let memory = SessionMemory::create(part.slots()).context("making a session")?;
        handing.give(&[memory.fd()])?;
        let pages = if part.huge_pages && part.ring_bytes >= 2 << 20 {
            PagePolicy::Require
        } else {
            PagePolicy::Never
        };
        let pipe = |direction, capacity_bytes, pages| -> Result<NicPipe> {
            let spec = PipeSpec {
                direction,
                capacity_bytes,
                pages,
            };
            let memory = PipeMemory::create(&spec).context("making a pipe")?;
            handing.give(&memory.fds())?;
            Ok(NicPipe::new(memory))
        };
        Ok(Self {
            session: NicSession::new(memory),
            pipes: (0..part.count)
                .map(|_| {
                    Ok(LanePipe {
                        nic: pipe(Direction::Rx, part.ring_bytes, pages)?,
                        touched: false,
                        tail: 0,
                    })
                })
                .collect::<Result<_>>()?,
            replies: pipe(Direction::Tx, REPLIES_BYTES, PagePolicy::Never)?,
            touched: Vec::with_capacity(BURST),
            notify_mode,
            unnotified: Vec::new(),
            notifications: 0,
        })
    }

    fn notify_pipe(&mut self, pipe: u32) -> Result<()> {
        let tail = self.pipes[pipe as usize].tail;
        if self.session.notify_each(pipe, tail)? {
            self.notifications += 1;
        } else if !self.unnotified.contains(&pipe) {
            self.unnotified.push(pipe);
        }
        Ok(())
    }

    /// After its notifications, a lane checks whether the application sleeps. This application
    /// never sleeps.
    #[inline]
    fn wake(&mut self) {
        let sleeps = self.session.app_sleeping();
        debug_assert!(!sleeps, "the application polls");
    }

    fn take_replies(&mut self, back: &mut Back) -> Result<()> {
        let now_ns = back.now_ns();
        while let Some(packet) = self.replies.peek_tx()? {
            let copied = packet.read::<{ probe::BYTES }>(0);
            let sent_ns = copied
                .and_then(|copied| sent_ns(&copied))
                .context("the application sent a packet that is not a probe")?;
            back.came(sent_ns, now_ns);
            self.replies.advance_tx();
        }
        self.replies.complete_tx();
        Ok(())
    }
}

impl NearRings for Lane {
    #[inline]
    fn push(&mut self, at: usize, packet: &[u8]) -> Result<bool> {
        let pipe = &mut self.pipes[at];
        if pipe.nic.push(packet).is_err() {
            return match pipe.nic.violation() {
                None => Ok(false),
                Some(violation) => bail!("pipe {at}: {violation}"),
            };
        }
        if self.notify_mode == NotifyMode::PerPacket {
            pipe.nic.publish();
            pipe.tail += footprint_bytes(packet.len());
            self.notify_pipe(at as u32)?;
        } else if !std::mem::replace(&mut pipe.touched, true) {
            self.touched.push(at as u32);
        }
        Ok(true)
    }

    #[inline]
    fn publish(&mut self) -> Result<()> {
        for pipe in self.touched.drain(..) {
            let lane_pipe = &mut self.pipes[pipe as usize];
            lane_pipe.touched = false;
            if let Some(tail) = lane_pipe.nic.publish() {
                self.session.notify(pipe, tail)?;
                self.notifications += 1;
            }
        }
        self.wake();
        Ok(())
    }

    #[inline]
    fn serve(&mut self, back: &mut Back) -> Result<()> {
        if !self.unnotified.is_empty() {
            for pipe in std::mem::take(&mut self.unnotified) {
                self.notify_pipe(pipe)?;
            }
        }
        let mut replied = false;
        for _ in 0..BURST {
            let Some(number) = self.session.next_doorbell()? else {
                break;
            };
            // A number outside the pipes to the application is the pipe from it.
            let Some(pipe) = self.pipes.get_mut(number as usize) else {
                replied = true;
                continue;
            };
            if let Some(tail) = pipe.nic.on_doorbell()? {
                self.session.notify(number, tail)?;
                self.notifications += 1;
            }
        }
        self.wake();
        if replied {
            self.take_replies(back)?;
        }
        Ok(())
    }

    fn waiting(&mut self) -> u64 {
        self.pipes
            .iter_mut()
            .map(|pipe| {
                let room_bytes = pipe.nic.packet_bytes_max() as u64;
                (room_bytes - pipe.nic.free_bytes()) / 64
            })
            .sum()
    }

    fn notifications(&self) -> u64 {
        self.notifications
    }
}
