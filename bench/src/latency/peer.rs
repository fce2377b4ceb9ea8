//! The sides of the comparison.

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
    report::Description,
    stage::Stage,
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
    /// Two namespaces and the cable between them. Absent if no side needs them.
    pub stage: Option<&'a Stage>,
    /// The near core for the client and the far core for the server, on both sides of the
    /// comparison.
    pub cores: Cores,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// The daemon's program.
    pub daemon: &'a Path,
}

impl Scene<'_> {
    /// Returns the stage.
    ///
    /// # Errors
    /// There is no stage, because the side does not declare [`Medium::Wire`].
    pub fn stage(&self) -> Result<&Stage> {
        match self.stage {
            Some(stage) => Ok(stage),
            None => bail!("no cable was built for this side"),
        }
    }
}

/// The requests of one repeat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Bytes of each request and of each answer, without headers; 8 at least.
    pub bytes: usize,
    /// When they leave, and for how long.
    pub plan: Plan,
    /// The data to keep.
    pub keep: Keep,
    /// Cores of the client and the server, whose load is reported.
    pub cores: Cores,
}

impl Load {
    /// Drives `client` with it.
    ///
    /// # Errors
    /// As [`drive`].
    pub fn measure(&self, client: &mut dyn Client) -> Result<Repeat> {
        let before = CoreTimes::now()?;
        let mut repeat = drive(client, &Monotonic, &self.plan, self.keep)?;
        let after = CoreTimes::now()?;
        repeat.core_loads = [self.cores.near, self.cores.far].map(|core| after.load(core, &before));
        Ok(repeat)
    }
}

/// One side of the comparison: ours or another system.
///
/// A new side describes itself and its limits here. It makes its repeats by passing a [`Client`] to
/// [`Load::measure`]: pacing, histograms and all further steps are the same for all. A program that
/// measures itself returns a [`Repeat`] built from its output, and refuses loads whose schedule it
/// cannot keep.
pub trait Peer {
    /// Returns its name in `--against` and in results.
    fn name(&self) -> &'static str;

    /// Where its requests go.
    fn medium(&self) -> Medium;

    /// Returns whether it is Covalent. Such a side takes part whatever other systems are selected,
    /// if one of them has its medium.
    fn is_ours(&self) -> bool {
        false
    }

    /// Prepares the side, once. An error is the reason why it takes no part.
    ///
    /// # Errors
    /// The missing part, and its cure.
    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description>;

    /// Why it cannot do this; `None` if it can.
    fn refuses(&self, load: &Load) -> Option<String>;

    /// Runs one repeat.
    ///
    /// # Errors
    /// The failure. The run continues with the other sides.
    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat>;
}

/// Returns all sides, ours first.
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

/// Returns the sides that `wanted` names, and ours that share a medium with one of them.
///
/// # Errors
/// No side has a given name. The error lists the known names.
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
    // Without other systems, our sides run alone, on any medium.
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
    fn an_unknown_name_is_refused_with_the_known_names() {
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
    fn names_of_peers_are_unique() {
        let mut names: Vec<_> = all().iter().map(|peer| peer.name()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
