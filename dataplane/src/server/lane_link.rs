//! The host thread's end of a lane.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    lane::command::{Command, Order, Report},
    mailbox::Mailbox,
};

/// Commands under way in one lane at a time. The lane's mailboxes have room for all of them and their answers.
pub const ORDERS_MAX: usize = 128;
/// Reports that a lane's mailbox has room for: every answer, and some events.
pub const REPORTS_MAX: usize = 2 * ORDERS_MAX;

/// Commands to one lane in order, and its reports.
#[derive(Debug)]
pub struct LaneLink {
    orders: Arc<Mailbox<Order>>,
    /// What the lane tells.
    pub reports: Arc<Mailbox<Report>>,
    /// Steps of an agreement: before all others.
    first: VecDeque<Order>,
    waiting: VecDeque<Order>,
    /// What waits is held back.
    is_paused: bool,
    under_way: usize,
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
            under_way: 0,
        }
    }

    /// Sends a command, at once or when the lane has answered some of the earlier ones. What waits is bounded by the number
    /// of clients, each of which has one request under way and one session to detach.
    pub fn push(&mut self, ticket: u64, command: Command) {
        self.waiting.push_back(Order { ticket, command });
        self.push_waiting();
    }

    /// Sends a step of an agreement: before everything that waits, and though the rest is held back.
    pub fn push_at_once(&mut self, ticket: u64, command: Command) {
        self.first.push_back(Order { ticket, command });
        self.push_waiting();
    }

    /// Holds back what waits and what is still to come, or lets it go on, so that no command meets half of an agreement.
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
        self.under_way -= 1;
    }

    /// Sends what waited.
    pub fn push_waiting(&mut self) {
        while self.under_way < ORDERS_MAX {
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
            self.under_way += 1;
        }
    }
}
