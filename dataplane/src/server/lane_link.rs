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
    waiting: VecDeque<Order>,
    under_way: usize,
}

impl LaneLink {
    /// The link over these mailboxes.
    #[must_use]
    pub fn new(orders: Arc<Mailbox<Order>>, reports: Arc<Mailbox<Report>>) -> Self {
        Self {
            orders,
            reports,
            waiting: VecDeque::new(),
            under_way: 0,
        }
    }

    /// Sends a command, at once or when the lane has answered some of the earlier ones. What waits is bounded by the number
    /// of clients, each of which has one request under way and one session to detach.
    pub fn push(&mut self, ticket: u64, command: Command) {
        self.waiting.push_back(Order { ticket, command });
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
        while self.under_way < ORDERS_MAX
            && let Some(order) = self.waiting.pop_front()
        {
            if let Err(order) = self.orders.push(order) {
                self.waiting.push_front(order);
                return;
            }
            self.under_way += 1;
        }
    }
}
