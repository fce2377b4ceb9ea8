//! Graceful shutdown: the lanes finish open work, then applications are notified that none of
//! theirs was left half done.

use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::poll::{PollTimeout, poll};

use super::{Server, answers::Pending, readable};
use crate::lane::command::Command;

/// Longer than a lane needs, whatever its neighbors do.
const LANES_MAX: Duration = Duration::from_secs(2);

/// A look at the clock at least so often.
const POLL_TIMEOUT_MS: u8 = 50;

impl Server {
    /// Orders the lanes to leave and waits for them. No client is accepted or served meanwhile. A
    /// client that connects or sends a request now reaches the next daemon, or learns that this one
    /// is gone.
    pub(super) fn leave(&mut self) {
        self.close_barrier();
        for lane in 0..self.lanes.len() as u32 {
            self.order(lane, Command::Leave, Pending::Leave { lane });
        }
        let end = Instant::now() + LANES_MAX;
        let waits = |pending: &Pending| matches!(pending, Pending::Leave { .. });
        while self.pending.values().any(waits) && Instant::now() < end {
            let mut fds: Vec<_> = self
                .lanes
                .iter()
                .map(|lane| readable(lane.reports.as_fd()))
                .collect();
            fds.push(readable(self.agreements.opener().as_fd()));
            // An error is a signal or nothing: the clock ends this.
            let _ = poll(&mut fds, PollTimeout::from(POLL_TIMEOUT_MS));
            self.take_reports();
            self.take_message();
        }
    }

    /// A lane has left.
    pub(super) fn lane_left(&mut self, lane: u32, in_order: bool) {
        if in_order {
            self.left_in_order.insert(lane);
        }
    }

    /// Notifies the applications of lanes that shut down gracefully: the contents of their pipes
    /// are final.
    pub(super) fn send_stopping(&mut self, bytes: &[u8]) {
        for session in self.sessions.values() {
            if !self.left_in_order.contains(&session.lane) {
                continue;
            }
            if let Some(client) = self
                .clients
                .get_mut(&session.client)
                .filter(|client| !client.subscribed && !client.closing)
            {
                client.event(bytes);
            }
        }
    }
}
