//! Who takes part.

use std::path::Path;

use anyhow::{Result, bail};

use super::{
    covalent,
    drive::{Client, Keep, Monotonic, Plan, Repeat, drive},
    frames, handed_over, in_lane, memory, redis, rxe, sockets,
};
use crate::{
    against::{self, Candidate},
    cores::{CoreTimes, Cores},
    stage::Stage,
    streams::Description,
};

/// Where a side's requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Over a virtual cable between two network namespaces: from one node to another.
    Wire,
    /// Through memory that two processes of one node share.
    Memory,
}

/// Where a repeat is made.
pub struct Scene<'a> {
    /// Two namespaces and the cable between them; absent if nobody who takes part needs them.
    pub stage: Option<&'a Stage>,
    /// Who asks is near, who answers far, on both sides of the comparison.
    pub cores: Cores,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// The daemon's program.
    pub daemon: &'a Path,
}

impl Scene<'_> {
    /// The stage.
    ///
    /// # Errors
    /// There is none: the side does not say that it is on the wire.
    pub fn stage(&self) -> Result<&Stage> {
        match self.stage {
            Some(stage) => Ok(stage),
            None => bail!("no cable was built for this side"),
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Bytes of each request and of each answer, without headers; 8 at least.
    pub bytes: usize,
    /// When they leave, and for how long.
    pub plan: Plan,
    /// What is kept of it.
    pub keep: Keep,
    /// Cores of who asks and who answers, whose load is told.
    pub cores: Cores,
}

impl Load {
    /// Drives `client` with it.
    ///
    /// # Errors
    /// As [`drive`].
    pub fn ask(&self, client: &mut dyn Client) -> Result<Repeat> {
        let before = CoreTimes::now()?;
        let mut repeat = drive(client, &Monotonic, &self.plan, self.keep)?;
        let after = CoreTimes::now()?;
        repeat.core_loads = [self.cores.near, self.cores.far].map(|core| after.load(core, &before));
        Ok(repeat)
    }
}

/// One side of the comparison: ours or a peer.
///
/// A new peer says here what it is and what it can do, and makes its repeats by handing a [`Client`] to [`Load::ask`]: pacing,
/// histograms and everything after them are the same for all. A program that measures itself gives a [`Repeat`] of what it told, and refuses what
/// it cannot pace.
pub trait Peer {
    /// What `--against` calls it, and results.
    fn name(&self) -> &'static str;

    /// Where its requests go.
    fn medium(&self) -> Medium;

    /// Whether it is Covalent: then it takes part whatever the peers are, if one of them has its medium.
    fn is_ours(&self) -> bool {
        false
    }

    /// Gets ready, once. Its error is the reason why it takes no part.
    ///
    /// # Errors
    /// What is missing, and what to do.
    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description>;

    /// Why it cannot do this; `None` if it can.
    fn refuses(&self, load: &Load) -> Option<String>;

    /// One repeat.
    ///
    /// # Errors
    /// What went wrong. The run goes on with the others.
    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat>;
}

/// Everybody there is, ours first.
pub fn all() -> Vec<Box<dyn Peer>> {
    let mut all = covalent::sides();
    all.extend(in_lane::sides());
    all.extend(frames::peers());
    all.extend(handed_over::peers());
    all.extend(memory::peers());
    all.extend(sockets::peers());
    all.extend(redis::peers());
    all.extend(rxe::peers());
    all
}

/// Those whom `wanted` names, and ours where one of them goes.
///
/// # Errors
/// A name that nobody here has, with those that there are.
pub fn chosen(
    mut all: Vec<Box<dyn Peer>>,
    suite: &str,
    wanted: &[String],
) -> Result<Vec<Box<dyn Peer>>> {
    let candidates: Vec<Candidate> = all
        .iter()
        .map(|peer| Candidate {
            name: peer.name(),
            is_ours: peer.is_ours(),
        })
        .collect();
    let names = against::chosen(wanted, suite, &candidates)?;
    all.retain(|peer| names.contains(&peer.name()));
    let is_named = |peer: &dyn Peer| wanted.iter().any(|name| name == peer.name());
    let media: Vec<Medium> = all
        .iter()
        .filter(|peer| !peer.is_ours())
        .map(|peer| peer.medium())
        .collect();
    // Beside nobody ours is there alone, wherever it goes.
    all.retain(|peer| {
        !peer.is_ours()
            || is_named(peer.as_ref())
            || media.is_empty()
            || media.contains(&peer.medium())
    });
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Vec<&'static str> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        let chosen = chosen(all(), "latency", &wanted).expect("known");
        chosen.iter().map(|peer| peer.name()).collect()
    }

    #[test]
    fn ours_takes_part_where_its_peers_are() {
        assert_eq!(
            names(&["udp"]),
            [
                "covalent-cas",
                "covalent-cas-two-phase",
                "covalent-message",
                "covalent-lane-cas",
                "covalent-lane-cas-to-daemon",
                "covalent-echo",
                "udp"
            ]
        );
        assert_eq!(names(&["udp", "covalent-cas"]), ["covalent-cas", "udp"]);
        assert_eq!(
            names(&["ucx", "libfabric", "aeron", "iceoryx2"]),
            [
                "covalent-local-cas",
                "covalent-pipe",
                "ucx",
                "libfabric",
                "aeron",
                "iceoryx2"
            ]
        );
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_there_are() {
        let problem = chosen(all(), "latency", &["upd".to_owned()])
            .err()
            .expect("unknown")
            .to_string();
        assert!(
            problem.contains("`upd`") && problem.contains("udp,"),
            "{problem}"
        );
    }

    #[test]
    fn no_two_have_one_name() {
        let mut names: Vec<_> = all().iter().map(|peer| peer.name()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
