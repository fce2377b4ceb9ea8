//! The pipes to take from, in turn by session and then by pipe. A round looks at a bounded number
//! of pipes of each session. So one with many pipes that cannot move does not delay the others.

use std::collections::VecDeque;

/// Pipes of one session that a round looks at.
pub const PIPES_PER_TURN: usize = 64;

/// See the module. A session waits in `waiting` while it has pipes and is not served.
#[derive(Debug, Default)]
pub struct Sources {
    /// Slots of sessions, in turn.
    waiting: VecDeque<usize>,
    /// By slot.
    sessions: Vec<Session>,
    /// The session whose turn it is.
    serves: Option<usize>,
    /// Whether its turn covers all pipes that it has.
    covers_all: bool,
    /// How often there was news.
    news: u64,
}

#[derive(Debug, Default)]
struct Session {
    /// Slots of pipes, in turn.
    pipes: VecDeque<usize>,
    /// Pipes that were looked at since there was news, and which news.
    looked_at: usize,
    news: u64,
}

impl Sources {
    /// Makes space for one more of the `open` pipes of a session, so that [`Sources::push`] never
    /// allocates.
    pub fn reserve(&mut self, session: usize, open: usize) {
        if self.sessions.len() <= session {
            self.sessions.resize_with(session + 1, Session::default);
        }
        self.waiting.reserve(self.sessions.len());
        self.sessions[session].pipes.reserve(open);
    }

    /// Queues the pipe in slot `pipe`, which is not queued.
    pub fn push(&mut self, session: usize, pipe: usize) {
        let Some(of) = self.sessions.get_mut(session) else {
            return;
        };
        if of.pipes.is_empty() && self.serves != Some(session) {
            self.waiting.push_back(session);
        }
        of.pipes.push_back(pipe);
    }

    /// The pipe is closed.
    pub fn remove(&mut self, session: usize, pipe: usize) {
        let Some(of) = self.sessions.get_mut(session) else {
            return;
        };
        of.pipes.retain(|&queued| queued != pipe);
        if of.pipes.is_empty() {
            self.waiting.retain(|&waiting| waiting != session);
        }
    }

    /// Something happened that may let any pipe move.
    pub const fn on_news(&mut self) {
        self.news += 1;
    }

    /// The number of sessions with pipes.
    pub fn sessions(&self) -> usize {
        self.waiting.len()
    }

    /// Begins the turn of the next session. Returns its slot and how many pipes to look at.
    pub fn begin_turn(&mut self) -> Option<(usize, usize)> {
        let session = self.waiting.pop_front()?;
        let pipes = self.sessions[session].pipes.len();
        self.serves = Some(session);
        self.covers_all = pipes <= PIPES_PER_TURN;
        Some((session, pipes.min(PIPES_PER_TURN)))
    }

    /// Takes the next pipe of that session out of the queue.
    pub fn next(&mut self) -> Option<usize> {
        self.sessions[self.serves?].pipes.pop_front()
    }

    /// Ends the turn, in which so many pipes were looked at. Returns whether there are pipes at
    /// which the lane did not look since the last news.
    pub fn end_turn(&mut self, looked_at: usize) -> bool {
        let Some(session) = self.serves.take() else {
            return false;
        };
        let Session {
            pipes,
            looked_at: looks,
            news,
        } = &mut self.sessions[session];
        if *news != self.news {
            (*news, *looks) = (self.news, 0);
        }
        *looks = looks.saturating_add(looked_at);
        // If all had a turn, the next begins with the next pipe: the first one may take all space
        // of a port.
        if self.covers_all && pipes.len() > 1 {
            pipes.rotate_left(1);
        }
        if !pipes.is_empty() {
            self.waiting.push_back(session);
        }
        *looks < pipes.len()
    }

    /// Ends the round: the next one begins with the next session.
    pub fn end_round(&mut self) {
        if self.waiting.len() > 1 {
            self.waiting.rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round in which every pipe has more.
    fn round(sources: &mut Sources) -> Vec<usize> {
        let mut order = Vec::new();
        for _ in 0..sources.sessions() {
            let Some((session, count)) = sources.begin_turn() else {
                break;
            };
            for _ in 0..count {
                let Some(pipe) = sources.next() else { break };
                order.push(pipe);
                sources.push(session, pipe);
            }
            sources.end_turn(count);
        }
        sources.end_round();
        order
    }

    #[test]
    fn every_pipe_gets_its_turn_and_a_session_of_many_no_more_of_them() {
        let mut sources = Sources::default();
        for session in 0..2 {
            sources.reserve(session, 1024);
        }
        for pipe in 0..200 {
            sources.push(0, pipe);
        }
        sources.push(1, 999);
        let mut seen = vec![0; 200];
        for _ in 0..100 {
            let order = round(&mut sources);
            assert_eq!(order.len(), PIPES_PER_TURN + 1);
            assert!(order.contains(&999));
            for pipe in order.into_iter().filter(|&pipe| pipe < 200) {
                seen[pipe] += 1;
            }
        }
        assert!(
            seen.iter().all(|turns| (31..=33).contains(turns)),
            "{seen:?}"
        );
    }

    #[test]
    fn the_first_of_a_round_changes_among_sessions_and_among_pipes() {
        let mut sources = Sources::default();
        for (session, pipe) in [(0, 1), (0, 2), (1, 3)] {
            sources.reserve(session, 2);
            sources.push(session, pipe);
        }
        assert_eq!(round(&mut sources), [1, 2, 3]);
        assert_eq!(round(&mut sources), [3, 2, 1]);
        assert_eq!(round(&mut sources), [1, 2, 3]);
    }

    #[test]
    fn the_first_of_a_round_changes_among_as_many_pipes_as_a_turn_has() {
        let mut sources = Sources::default();
        sources.reserve(0, PIPES_PER_TURN);
        for pipe in 0..PIPES_PER_TURN {
            sources.push(0, pipe);
        }
        for first in 0..PIPES_PER_TURN {
            assert_eq!(round(&mut sources).first(), Some(&first));
        }
    }

    #[test]
    fn a_removed_pipe_and_a_session_without_pipes_get_no_turn() {
        let mut sources = Sources::default();
        sources.reserve(0, 2);
        sources.reserve(5, 1);
        sources.push(0, 1);
        sources.push(0, 2);
        sources.push(5, 3);
        sources.remove(5, 3);
        sources.remove(0, 1);
        sources.remove(7, 1);
        assert_eq!(round(&mut sources), [2]);
        sources.remove(0, 2);
        assert_eq!(sources.sessions(), 0);
        assert_eq!(sources.begin_turn(), None);
        // While a session is served its queue may be empty.
        sources.push(0, 1);
        assert_eq!(sources.begin_turn(), Some((0, 1)));
        assert_eq!(sources.next(), Some(1));
        sources.push(0, 2);
        sources.end_turn(1);
        assert_eq!(sources.sessions(), 1);
        assert_eq!(round(&mut sources), [2]);
    }

    #[test]
    fn after_news_every_pipe_is_looked_at_before_the_lane_may_rest() {
        let mut sources = Sources::default();
        sources.reserve(0, 150);
        for pipe in 0..150 {
            sources.push(0, pipe);
        }
        let mut turn = |news: bool| {
            if news {
                sources.on_news();
            }
            let (session, count) = sources.begin_turn()?;
            for _ in 0..count {
                let pipe = sources.next()?;
                sources.push(session, pipe);
            }
            Some(sources.end_turn(count))
        };
        for news in [false, true] {
            let left: Vec<_> = [news, false, false, false].map(&mut turn).into();
            let expected = [true, true, false, false].map(Some);
            assert_eq!(left, expected);
        }
    }
}
