//! Pipes → ports and verbs.

use covalent_api::request::PipeKind;

use super::{Lane, verbs::Submitter};

/// The result of serving one pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// Nothing is left in it.
    Empty,
    /// More is left, and it fits.
    More,
    /// More is left, and the way on is full: worth another look soon.
    Full,
    /// More is left, and the rate limit delays it until this time, by [`super::stamp::now_ns`].
    Paced(u64),
    /// More is left, and nothing moves until another event: a carrier, a frame, a doorbell.
    Blocked,
}

impl Lane {
    /// Serves the pipes with packets or verbs to take, in turn, each up to its quota. Returns the
    /// number of packets and verbs, and whether a pipe waits for space in a port or for its turn.
    pub(super) fn serve_sources(&mut self) -> (usize, bool) {
        let mut moved = 0;
        let mut waits = false;
        if self.housekeeping.left.is_some() {
            return (0, false);
        }
        let takes_verbs = self.housekeeping.leaving.is_none();
        self.pipes.resume_paced();
        for _ in 0..self.pipes.sources.sessions() {
            let Some((session, count)) = self.pipes.sources.begin_turn() else {
                break;
            };
            // A quota per session, so that one with many queues does not delay the others.
            let mut verbs_left = if takes_verbs { self.settings.burst } else { 0 };
            let mut looked_at = 0;
            while looked_at < count
                && let Some(slot) = self.pipes.sources.next()
            {
                looked_at += 1;
                let Some((count, served)) = self.serve_source(slot, &mut verbs_left) else {
                    continue;
                };
                moved += count;
                waits |= served == Served::Full;
                self.pipes.served(session, slot, served);
            }
            waits |= self.pipes.sources.end_turn(looked_at);
        }
        self.pipes.sources.end_round();
        (moved, waits)
    }

    /// Serves one pipe, unless it is served no more. `verbs_left` are the verbs that its session
    /// may still submit in this round.
    fn serve_source(&mut self, slot: usize, verbs_left: &mut usize) -> Option<(usize, Served)> {
        if self.pipes.source_kind(slot)? != PipeKind::VerbSubmit {
            let Self {
                settings,
                ports,
                pipes,
                ..
            } = self;
            return Some(ports.send_from(slot, settings, pipes));
        }
        let age = self.housekeeping.clock.age();
        let (settings, ports, host) = self.parts();
        let mut submitter = Submitter {
            settings,
            age,
            node: &mut ports.node,
            host,
        };
        let (count, served) = submitter.serve_verbs(slot, *verbs_left);
        *verbs_left -= count;
        Some((count, served))
    }
}
