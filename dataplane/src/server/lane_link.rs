//! The host thread's end of a lane.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    lane::command::{Command, Order, Report},
    mailbox::Mailbox,
};

/// Commands in flight in one lane at a time. The lane's mailboxes have space for all of them and
/// their replies.
pub const ORDERS_MAX: usize = 128;
/// Reports that a lane's mailbox has space for: every reply, and some events.
pub const REPORTS_MAX: usize = 2 * ORDERS_MAX;

/// Commands to one lane in order, and its reports.
#[derive(Debug)]
pub struct LaneLink {
    orders: Arc<Mailbox<Order>>,
    /// Reports from the lane.
    pub reports: Arc<Mailbox<Report>>,
    /// Steps of a reconfiguration: before all others.
    first: VecDeque<Order>,
    waiting: VecDeque<Order>,
    /// Waiting commands are held back.
    is_paused: bool,
    in_flight: usize,
}

impl LaneLink {
    /// The link over these mailboxes.
    #[must_use]
    pub fn new(orders: Arc<Mailbox<Order>>, reports: Arc<Mailbox<Report>>) -> Self {
        Self {
            orders,
            reports,
            first: VecDeque::new(),
            waiting: VecDeque::new(),
            is_paused: false,
            in_flight: 0,
        }
    }

    /// Sends a command, at once or when the lane has replied to earlier ones. The queue is bounded
    /// by the number of clients: each has one request in flight and one session to detach.
    pub fn push(&mut self, ticket: u64, command: Command) {
        self.waiting.push_back(Order { ticket, command });
        self.push_waiting();
    }

    /// Sends a step of a reconfiguration: before all waiting commands, even while those are held
    /// back.
    pub fn push_at_once(&mut self, ticket: u64, command: Command) {
        self.first.push_back(Order { ticket, command });
        self.push_waiting();
    }

    /// Holds back waiting and future commands, or releases them, so that no command meets half of a
    /// reconfiguration.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.push_waiting();
    }

    /// The way to the lane, for the one command that needs no answer: to stop.
    #[must_use]
    pub fn orders(&self) -> Arc<Mailbox<Order>> {
        self.orders.clone()
    }

    /// A command was answered.
    pub fn answered(&mut self) {
        self.in_flight -= 1;
    }

    /// Sends waiting commands.
    pub fn push_waiting(&mut self) {
        while self.in_flight < ORDERS_MAX {
            let queue = if !self.first.is_empty() {
                &mut self.first
            } else if self.is_paused {
                return;
            } else {
                &mut self.waiting
            };
            let Some(order) = queue.pop_front() else {
                return;
            };
            if let Err(order) = self.orders.push(order) {
                queue.push_front(order);
                return;
            }
            self.in_flight += 1;
        }
    }
}
