//! Detects whether the daemon's threads make progress, for a service manager that restarts a daemon
//! that does not.
//!
//! A lane ticks even when it is idle, so it counts its ticks, at no cost per packet. The host
//! thread sleeps until it is needed, so it is queried.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::mailbox::Mailbox;

/// Counts the ticks of one lane. Only the lane writes; any thread may read.
#[derive(Debug, Default)]
pub struct Beat(AtomicU64);

impl Beat {
    /// Counts one tick.
    pub fn beat(&self) {
        let counted = self.0.load(Ordering::Relaxed);
        self.0.store(counted + 1, Ordering::Relaxed);
    }

    fn counted(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Watches the lanes and the host thread of one daemon.
#[derive(Debug)]
pub struct Progress {
    /// Each lane with its count when all threads had last moved.
    lanes: Vec<(Arc<Beat>, u64)>,
    /// A question to the host thread, which takes it out.
    host: Arc<Mailbox<()>>,
}

impl Progress {
    /// Watches these lanes, by index, and the host thread that empties `host`.
    #[must_use]
    pub fn new(lanes: impl IntoIterator<Item = Arc<Beat>>, host: Arc<Mailbox<()>>) -> Self {
        // Nothing is known of them yet.
        let _ = host.push(());
        let lanes = lanes.into_iter().map(|beat| {
            let counted = beat.counted();
            (beat, counted)
        });
        Self {
            lanes: lanes.collect(),
            host,
        }
    }

    /// Whether each thread has moved since the last time that all had moved, however often this is
    /// called meanwhile.
    pub fn have_all_moved(&mut self) -> bool {
        if self.still().next().is_some() {
            return false;
        }
        for (beat, counted) in &mut self.lanes {
            *counted = beat.counted();
        }
        // The mailbox is empty: the check above found that the host thread emptied it.
        let _ = self.host.push(());
        true
    }

    /// The threads that have not, by name.
    pub fn still(&self) -> impl Iterator<Item = String> {
        let host = (!self.host.is_empty()).then(|| "the host thread".to_owned());
        let lanes = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, (beat, counted))| beat.counted() == *counted)
            .map(|(lane, _)| format!("lane {lane}"));
        lanes.chain(host)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn all_threads_have_progressed_when_each_has_since_the_last_time() {
        let lanes = [Arc::new(Beat::default()), Arc::new(Beat::default())];
        let host = Arc::new(Mailbox::new(1).unwrap());
        let mut progress = Progress::new(lanes.clone(), host.clone());
        assert!(!progress.have_all_moved());
        lanes[0].beat();
        host.pop().unwrap();
        assert!(!progress.have_all_moved());
        assert_eq!(progress.still().collect::<Vec<_>>(), ["lane 1"]);
        // Earlier progress of the other threads is not forgotten.
        lanes[1].beat();
        assert!(progress.have_all_moved());
        lanes[0].beat();
        lanes[1].beat();
        assert_eq!(progress.still().collect::<Vec<_>>(), ["the host thread"]);
        assert!(!progress.have_all_moved());
        host.pop().unwrap();
        assert!(progress.have_all_moved());
        assert!(!progress.have_all_moved());
    }
}
