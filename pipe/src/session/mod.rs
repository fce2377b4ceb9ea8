//! What an application and its lane share besides pipes: who should look at what, and who sleeps.
//!
//! Two mailboxes, each a bounded ring that holds a pipe at most once and so cannot overflow: *notifications* (daemon to application: look at this
//! pipe) and *doorbells* (application to daemon: look at this pipe); and a sleeping flag for either side.
//!
//! How an application waits, without a lost wake-up:
//!
//! 1. Take notifications and look at their pipes. An RX pipe that was emptied has its doorbell rung (see
//!    [`crate::app::RxPipe::wait_for_more`]).
//! 2. Nothing more: [`AppSession::prepare_sleep`]. If it returns `false`, go to 1.
//! 3. Poll the event descriptor. 4. [`AppSession::cancel_sleep`], drain the descriptor, go to 1.
//!
//! And a lane: [`NicSession::set_lane_sleeping`]`(true)`, then [`NicSession::next_doorbell`] once more, and sleep only if there was none.

mod app;
#[cfg_attr(loom, path = "../modelled/session.rs")]
mod memory;
mod nic;
mod pipe_set;
mod waiter;

pub use app::{AppSession, Notification};
#[cfg(loom)]
pub use memory::MailboxWords;
pub use memory::SessionMemory;
#[cfg(not(loom))]
pub use memory::{NOTICE_WORDS, NOTICES};
pub use nic::NicSession;
pub use waiter::AppWaiter;
