//! Pipes → ports, links → ports.

use std::cmp::Reverse;

use covalent_api::request::PipeKind;
use covalent_pipe::nic::NicPipe;

use super::{Lane, core::Core, stamp};
use crate::port::{PortError, TxRefusal};

/// The result of serving one pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// Nothing is left in it.
    Empty,
    /// More is left, and it fits.
    More,
    /// More is left, and the way on is full: worth another look soon.
    Full,
    /// More is left, and the rate limit delays it until this time, by [`stamp::now_ns`].
    Paced(u64),
    /// More is left, and nothing moves until another event: a carrier, a frame, a doorbell.
    Blocked,
}

impl Lane {
    /// Takes the doorbells that applications rang. Returns how many.
    pub(super) fn take_doorbells(&mut self) -> usize {
        let mut taken = 0;
        for session in 0..self.core.sessions.len() {
            // A quota per session, so that the doorbells of one application do not delay the
            // others.
            for _ in 0..self.settings.burst {
                let Some(owner) = self
                    .core
                    .sessions
                    .get_mut(session)
                    .filter(|owner| !owner.ignored)
                else {
                    break;
                };
                match owner.rings.next_doorbell() {
                    Ok(Some(number)) => {
                        taken += 1;
                        // A bell of a pipe that was closed meanwhile is late, not wrong.
                        let pipe = owner.pipes.get(number as usize).copied().flatten();
                        if let Some(slot) = pipe {
                            self.answer_doorbell(slot);
                        }
                    }
                    Ok(None) => break,
                    Err(violation) => self.core.violate(session, violation),
                }
            }
            // Once for all of them: each check whether an application sleeps waits for all earlier
            // writes.
            self.core.wake(session);
        }
        taken
    }

    fn answer_doorbell(&mut self, slot: usize) {
        let Some(pipe) = self.core.pipes.get_mut(slot) else {
            return;
        };
        match pipe.nic.on_doorbell() {
            Ok(Some(tail)) => self.core.notify(slot, tail),
            Ok(None) => {}
            Err(violation) => return self.core.violate_pipe(slot, violation),
        }
        self.core.queue_source(slot);
    }

    /// Serves the pipes with packets or verbs to take, in turn, each up to its quota. Returns the
    /// number of packets and verbs, and whether a pipe waits for space in a port or for its turn.
    pub(super) fn serve_sources(&mut self) -> (usize, bool) {
        let mut moved = 0;
        let mut waits = false;
        if self.left.is_some() {
            return (0, false);
        }
        let takes_verbs = self.leaving.is_none();
        self.core.resume_paced();
        for _ in 0..self.core.sources.sessions() {
            let Some((session, count)) = self.core.sources.begin_turn() else {
                break;
            };
            // A quota per session, so that one with many queues does not delay the others.
            let mut verbs_left = if takes_verbs { self.settings.burst } else { 0 };
            let mut looked_at = 0;
            while looked_at < count
                && let Some(slot) = self.core.sources.next()
            {
                looked_at += 1;
                let (count, served) = self.serve_source(session, slot, &mut verbs_left);
                moved += count;
                waits |= served == Served::Full;
                match served {
                    Served::Empty => {}
                    // It stays marked as queued, so that no doorbell queues it before its time.
                    Served::Paced(until_ns) => self.core.paced.push(Reverse((until_ns, slot))),
                    Served::More | Served::Full | Served::Blocked => {
                        self.core.sources.push(session, slot);
                    }
                }
            }
            waits |= self.core.sources.end_turn(looked_at);
        }
        self.core.sources.end_round();
        (moved, waits)
    }

    /// Serves one pipe. `verbs_left` are the verbs that its session may still submit in this round.
    fn serve_source(
        &mut self,
        session: usize,
        slot: usize,
        verbs_left: &mut usize,
    ) -> (usize, Served) {
        let Some(pipe) = self.core.pipes.get_mut(slot) else {
            return (0, Served::Empty);
        };
        let owner = self.core.sessions.get(session);
        if owner.is_none_or(|session| session.ignored) {
            pipe.queued = false;
            return (0, Served::Empty);
        }
        let (count, served) = match pipe.kind {
            PipeKind::VerbSubmit => self.serve_verbs(slot, *verbs_left),
            _ => self.serve_frames(slot),
        };
        if let Some(pipe) = self.core.pipes.get_mut(slot) {
            if pipe.kind == PipeKind::VerbSubmit {
                *verbs_left -= count;
            }
            if served == Served::Empty {
                pipe.queued = false;
                self.core.hot_set.add(slot);
            }
        }
        (count, served)
    }

    fn serve_frames(&mut self, slot: usize) -> (usize, Served) {
        let Some(pipe) = self.core.pipes.get_mut(slot) else {
            return (0, Served::Empty);
        };
        let Some(port) = pipe
            .port
            .and_then(|index| self.ports.iter_mut().find(|port| port.index == index))
        else {
            return (0, Served::Empty);
        };
        if !port.is_open() {
            return (0, Served::Blocked);
        }
        let quota = self.settings.burst.min(port.data_space());
        let before = examined_packets(&pipe.nic);
        let stamp_at = pipe.stamp_at.filter(|_| pipe.kind == PipeKind::Tx);
        // Read once for all packets of this turn: a read per packet would cost more than its
        // precision is worth.
        let now_ns = pipe.pacer.as_ref().map_or(0, |_| stamp::now_ns());
        let mut stopped = None;
        let mut unstamped = 0;
        let taken = pipe.nic.take_tx(quota, |frame| {
            let wait_ns = pipe
                .pacer
                .as_ref()
                .and_then(|pacer| pacer.wait_until_ns(now_ns));
            if let Some(until_ns) = wait_ns {
                stopped = Some(Served::Paced(until_ns));
                return false;
            }
            match port.send_data(frame, self.settings.ethertype, stamp_at, &mut unstamped) {
                Ok(()) => {
                    port.unflushed = true;
                    if let Some(pacer) = &mut pipe.pacer {
                        pacer.sent(now_ns, frame.len());
                    }
                }
                // The port counts it; the verbs library refuses such frames before they get here.
                Err(TxRefusal::TooLong { .. } | TxRefusal::Runt { .. }) => {}
                Err(TxRefusal::Full) => {
                    stopped = Some(Served::Full);
                    return false;
                }
                Err(TxRefusal::Down) => {
                    stopped = Some(Served::Blocked);
                    return false;
                }
            }
            true
        });
        if unstamped > 0 {
            pipe.nic.count_unstamped(unstamped);
        }
        let moved = (examined_packets(&pipe.nic) - before) as usize;
        if let Err(violation) = taken {
            self.core.violate_pipe(slot, violation);
            return (moved, Served::Empty);
        }
        let served = if let Some(stopped) = stopped {
            stopped
        } else if moved == quota && quota < self.settings.burst {
            Served::Full
        } else if moved == quota || pipe.nic.tx_waits() {
            Served::More
        } else {
            Served::Empty
        };
        // The port copied each frame, so the application gets its memory back now. This includes
        // discarded packets: a ring full of them would otherwise stay full.
        if let Some(tail) = pipe.nic.complete_tx() {
            self.core.notify(slot, tail);
            self.core.wake_owner(slot);
        }
        (moved, served)
    }

    /// Sends the pending frames of the links, one frame of each link in turn. It begins after the
    /// link that sent last, so that links to the same peer share its exchanges even with few per
    /// round. Returns the number of frames.
    pub(super) fn send_links(&mut self) -> usize {
        let count = self.ports.len();
        let mut sent = 0;
        loop {
            let before = sent;
            for at in self.turns.order(count) {
                if self.send_link(at) {
                    sent += 1;
                    self.turns.sent(at, count);
                }
            }
            if sent == before {
                return sent;
            }
        }
    }

    /// Sends one frame of the link on the port at index `at`, if it has one and the port has space.
    fn send_link(&mut self, at: usize) -> bool {
        let port = &mut self.ports[at];
        if !port.link || !self.node.has_work(port.index) || !port.has_link_space() {
            return false;
        }
        let Some(length) = self
            .node
            .poll_transmit(port.index, &mut self.link_frame[..])
        else {
            return false;
        };
        if port.send(&self.link_frame[..length], true).is_err() {
            // On a first-in-first-out cable an unsent frame is a loss, and a loss is a failure.
            self.node.on_transmit_failed(port.index, &mut self.core);
            return false;
        }
        port.unflushed = true;
        port.round_trips.sent(self.node.pending_ping(port.index));
        true
    }

    /// Rings the ports' doorbells.
    pub(super) fn flush(&mut self) {
        for at in 0..self.ports.len() {
            let slot = &mut self.ports[at];
            if !slot.unflushed && slot.port.tx_idle() {
                continue;
            }
            slot.unflushed = false;
            match slot.port.flush() {
                Ok(()) => slot.transmit_failed = false,
                Err(PortError::LinkDown { .. }) => {
                    if !std::mem::replace(&mut slot.transmit_failed, true) && slot.link {
                        self.node.on_transmit_failed(slot.index, &mut self.core);
                    }
                }
                Err(error) => self.lose_port(at, &error),
            }
        }
    }
}

impl Core {
    /// Queues the rate-limited pipes whose time has come.
    fn resume_paced(&mut self) {
        if self.paced.is_empty() {
            return;
        }
        let now_ns = stamp::now_ns();
        while let Some(&Reverse((until_ns, slot))) = self.paced.peek()
            && until_ns <= now_ns
        {
            self.paced.pop();
            self.resume(slot);
        }
    }

    /// Ends the wait of the pipe in `slot`. A waiting pipe is queued again, because its rate may
    /// have changed, unless it is removed (`goes`).
    pub(super) fn end_pacing(&mut self, slot: usize, goes: bool) {
        let waiting = self.paced.len();
        self.paced.retain(|&Reverse((_, paced))| paced != slot);
        if self.paced.len() < waiting && !goes {
            self.resume(slot);
        }
    }

    fn resume(&mut self, slot: usize) {
        if let Some(pipe) = self.pipes.get(slot) {
            self.sources.push(pipe.session, slot);
        }
    }
}

/// Packets taken from `nic`, sent or not: a packet that the application discarded costs time too.
fn examined_packets(nic: &NicPipe) -> u64 {
    let counters = nic.counters();
    counters.tx_packets + counters.tx_discarded
}
