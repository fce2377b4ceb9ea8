//! How long a link's failure kept its neighbor's verbs waiting.

use std::time::{Duration, Instant};

/// For each link: the time from its last failure to the first verb that completed at the same
/// neighbor, over any link.
#[derive(Debug, Default)]
pub struct Failovers {
    links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    port: u16,
    peer: u64,
    failed_at: Option<Instant>,
    last: Option<Duration>,
}

impl Failovers {
    /// Creates entries for the links on these ports.
    pub fn new(ports: impl IntoIterator<Item = u16>) -> Self {
        let link = |port| Link {
            port,
            ..Link::default()
        };
        Self {
            links: ports.into_iter().map(link).collect(),
        }
    }

    /// Adds an entry for a link on this port.
    pub fn add(&mut self, port: u16) {
        if self.link(port).is_none() {
            self.links.push(Link {
                port,
                ..Link::default()
            });
        }
    }

    fn link(&mut self, port: u16) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.port == port)
    }

    /// The link on `port` leads to `peer`.
    pub fn up(&mut self, port: u16, peer: u64) {
        if let Some(link) = self.link(port) {
            link.peer = peer;
        }
    }

    /// The link on `port` failed.
    pub fn down(&mut self, port: u16) {
        if let Some(link) = self.link(port) {
            link.failed_at = Some(Instant::now());
        }
    }

    /// A verb completed at `peer`.
    pub fn completed(&mut self, peer: u64) {
        for link in &mut self.links {
            if link.peer == peer
                && let Some(failed_at) = link.failed_at.take()
            {
                // Read only here: not for each verb.
                link.last = Some(failed_at.elapsed());
            }
        }
    }

    /// The last such gap of the link on `port`.
    pub fn last(&self, port: u16) -> Option<Duration> {
        self.links.iter().find(|link| link.port == port)?.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_ends_with_the_first_completion_at_the_same_peer() {
        let mut failovers = Failovers::new([0, 1]);
        failovers.up(0, 7);
        failovers.up(1, 7);
        failovers.down(0);
        failovers.completed(8);
        assert_eq!(failovers.last(0), None);
        std::thread::sleep(Duration::from_millis(2));
        failovers.completed(7);
        let gap = failovers.last(0);
        assert!(gap >= Some(Duration::from_millis(2)));
        failovers.completed(7);
        assert_eq!(failovers.last(0), gap);
        assert_eq!(failovers.last(1), None);
    }
}
