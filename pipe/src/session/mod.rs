//! State that an application and its lane share besides pipes: notifications, doorbells and
//! sleeping flags.
//!
//! There are two mailboxes. Each is a bounded ring that holds a pipe at most once and so cannot
//! overflow. *Notifications* (daemon to application) and *doorbells* (application to daemon)
//! request a check of a pipe. Each side also has a sleeping flag.
//!
//! An application waits as follows, without a lost wake-up:
//!
//! 1. Take notifications and check their pipes. Ring the doorbell of an RX pipe that was emptied
//!    (see [`RxPipe::wait_for_more`](crate::app::RxPipe::wait_for_more)).
//! 2. If there are no more, call [`AppSession::prepare_sleep`]. If it returns `false`, go to 1.
//! 3. Poll the event descriptor.
//! 4. Call [`AppSession::cancel_sleep`], drain the descriptor, and go to 1.
//!
//! A lane calls [`NicSession::set_lane_sleeping`]`(true)`, then [`NicSession::next_doorbell`] once
//! more, and sleeps only if there was none.

mod app;
#[cfg_attr(loom, path = "../modeled/session.rs")]
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
