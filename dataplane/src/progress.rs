//! Whether the daemon's threads make progress, for a service manager that ends and restarts a daemon that does not.
//!
//! A lane passes a pace even when nothing happens, so it counts them, which costs nothing for each packet. The host thread sleeps until it is
//! needed, so it is asked.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::mailbox::Mailbox;

/// Counts the paces of one lane. Only the lane counts; anybody reads.
#[derive(Debug, Default)]
pub struct Beat(AtomicU64);

impl Beat {
    /// A pace has passed.
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
    /// Each with what it had counted when all had last moved.
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

    /// Whether each thread has moved since the last time that they all had, however often this was asked meanwhile.
    pub fn have_all_moved(&mut self) -> bool {
        if self.still().next().is_some() {
            return false;
        }
        for (beat, counted) in &mut self.lanes {
            *counted = beat.counted();
        }
        // It is empty: whoever empties it has just been seen to.
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
    fn all_have_moved_when_each_has_since_all_had() {
        let lanes = [Arc::new(Beat::default()), Arc::new(Beat::default())];
        let host = Arc::new(Mailbox::new(1).unwrap());
        let mut progress = Progress::new(lanes.clone(), host.clone());
        assert!(!progress.have_all_moved());
        lanes[0].beat();
        host.pop().unwrap();
        assert!(!progress.have_all_moved());
        assert_eq!(progress.still().collect::<Vec<_>>(), ["lane 1"]);
        // What the others did before is not forgotten.
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
