//! The end in order: the lanes bring to an end what is open, then applications are told that nothing of theirs was left half done.

use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::poll::{PollTimeout, poll};

use super::{Server, answers::Pending, readable};
use crate::lane::command::Command;

/// Longer than a lane takes, whatever its neighbours do.
const LANES_MAX: Duration = Duration::from_secs(2);

/// A look at the clock at least so often.
const LOOK_MS: u8 = 50;

impl Server {
    /// Has the lanes leave, and waits for them. Nobody is accepted or served meanwhile: who connects or asks now asks the next daemon, or hears that this one is gone.
    pub(super) fn leave(&mut self) {
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
            // An error is a signal or nothing: the clock ends this.
            let _ = poll(&mut fds, PollTimeout::from(LOOK_MS));
            self.take_reports();
        }
    }

    /// A lane has left.
    pub(super) fn lane_left(&mut self, lane: u32, in_order: bool) {
        if in_order {
            self.left_in_order.insert(lane);
        }
    }

    /// Says goodbye to the applications of lanes that left in order: what they find in their pipes is as it stays.
    pub(super) fn say_goodbye(&mut self, bytes: &[u8]) {
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
