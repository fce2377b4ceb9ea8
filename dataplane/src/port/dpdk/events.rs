//! Events that a device reports by itself: a DPDK thread receives them, and the lane reads them.

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

/// Counts of events, and flags for the lane.
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

    fn on_event(&self, event: u32) {
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

    /// Whether an event arrived since the last call.
    pub(super) fn take_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire)
    }

    /// Whether an event arrived that has not been taken yet.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Whether the device was taken out.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Returns the number of occurrences of each event.
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

    /// The descriptor becomes readable when an event arrives.
    pub(super) fn fd(&self) -> RawFd {
        self.wakes.as_fd().as_raw_fd()
    }

    /// The lane is awake.
    pub(super) fn silence(&self) {
        // Nothing to read means that no event arrived.
        let _ = self.wakes.read();
    }

    /// Where the shim is to call; `self` must outlive the subscription.
    pub(super) fn listener(&self) -> sys::covalent_listener {
        sys::covalent_listener {
            on_event: Some(on_event),
            context: std::ptr::from_ref(self).cast_mut().cast(),
        }
    }
}

unsafe extern "C" fn on_event(context: *mut c_void, event: u32) {
    // SAFETY: The context is the `Events` of a subscription. It outlives the subscription
    // (`device::Device`) and is only read.
    let events = unsafe { &*context.cast::<Events>() };
    events.on_event(event);
}
