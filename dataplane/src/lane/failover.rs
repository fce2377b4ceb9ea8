//! How long a link's failure kept its neighbour's verbs waiting.

use std::time::{Duration, Instant};

/// For each link: from its last failure to the first verb that completed at the same neighbour, over whatever link.
#[derive(Debug, Default)]
pub struct Failovers {
    links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    peer: u64,
    failed_at: Option<Instant>,
    last: Option<Duration>,
}

impl Failovers {
    /// Room for `ports` links.
    pub fn new(ports: usize) -> Self {
        Self {
            links: vec![Link::default(); ports],
        }
    }

    /// The link on `port` leads to `peer`.
    pub fn up(&mut self, port: u16, peer: u64) {
        if let Some(link) = self.links.get_mut(usize::from(port)) {
            link.peer = peer;
        }
    }

    /// The link on `port` failed.
    pub fn down(&mut self, port: u16, now: Instant) {
        if let Some(link) = self.links.get_mut(usize::from(port)) {
            link.failed_at = Some(now);
        }
    }

    /// A verb completed at `peer`.
    pub fn completed(&mut self, peer: u64, now: Instant) {
        for link in &mut self.links {
            if link.peer == peer
                && let Some(failed_at) = link.failed_at.take()
            {
                link.last = Some(now.saturating_duration_since(failed_at));
            }
        }
    }

    /// The last such gap of the link on `port`.
    pub fn last(&self, port: u16) -> Option<Duration> {
        self.links.get(usize::from(port))?.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_ends_with_the_first_completion_at_the_same_peer() {
        let mut failovers = Failovers::new(2);
        let start = Instant::now();
        failovers.up(0, 7);
        failovers.up(1, 7);
        failovers.down(0, start);
        failovers.completed(8, start + Duration::from_millis(1));
        assert_eq!(failovers.last(0), None);
        failovers.completed(7, start + Duration::from_millis(5));
        failovers.completed(7, start + Duration::from_millis(9));
        assert_eq!(failovers.last(0), Some(Duration::from_millis(5)));
        assert_eq!(failovers.last(1), None);
    }
}
