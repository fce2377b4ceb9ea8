//! What a device tells by itself, heard by a thread of DPDK's and read by the lane.

use std::{
    ffi::c_void,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use covalent_dpdk_sys as sys;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// The events by their numbers in the shim, as they are counted.
const NAMES: [&str; sys::covalent_event_COVALENT_EVENTS as usize] = [
    "link_changed",
    "reset_wanted",
    "removed",
    "queue_changed",
    "recovering",
    "recovered",
    "recovery_failed",
];

/// Counts of events, and what the lane is to look at.
#[derive(Debug)]
pub(super) struct Events {
    counts: [AtomicU64; NAMES.len()],
    news: AtomicBool,
    removed: AtomicBool,
    wakes: EventFd,
}

impl Events {
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            counts: Default::default(),
            news: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            wakes: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        })
    }

    fn hear(&self, event: u32) {
        if let Some(count) = self.counts.get(event as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if event == sys::covalent_event_COVALENT_EVENT_REMOVED {
            self.removed.store(true, Ordering::Release);
        }
        self.news.store(true, Ordering::Release);
        // It is full only when the lane has not slept for very long.
        let _ = self.wakes.write(1);
    }

    /// Whether something was heard since the last call.
    pub(super) fn take_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire)
    }

    /// Whether something was heard that nobody has taken yet.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Whether the device was taken out.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// How often each event was heard.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        NAMES
            .into_iter()
            .zip(
                self.counts
                    .iter()
                    .map(|count| count.load(Ordering::Relaxed)),
            )
            .collect()
    }

    /// Readable when something was heard.
    pub(super) fn fd(&self) -> RawFd {
        self.wakes.as_fd().as_raw_fd()
    }

    /// The lane is awake.
    pub(super) fn silence(&self) {
        // Nothing to read means that nothing was heard.
        let _ = self.wakes.read();
    }

    /// Where the shim is to call; `self` must outlive the subscription.
    pub(super) fn listener(&self) -> sys::covalent_listener {
        sys::covalent_listener {
            heard: Some(heard),
            context: std::ptr::from_ref(self).cast_mut().cast(),
        }
    }
}

unsafe extern "C" fn heard(context: *mut c_void, event: u32) {
    // SAFETY: the context is the `Events` of a subscription, which outlives it (`device::Device`), and is only read.
    let events = unsafe { &*context.cast::<Events>() };
    events.hear(event);
}
