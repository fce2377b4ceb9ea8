//! The round trip of a verb as an application sees it: through a pipe to its daemon, over the cable to the other, and back.
//!
//! A verb in one-phase mode crosses the cable once each way, as the echo does; in two-phase mode twice each way.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use covalent_verbs::{
    Completion, Device, Mode, Outcome, RemoteRegion, Rights, Target, Verb, Verbs, status::PortMode,
};

use super::REGION;
use crate::{
    arguments::Wire,
    beside::join,
    cores::{Cores, pin},
    node::{Node, Plan},
    stage::Stage,
    trips::Slice,
};

/// Two linked daemons.
pub struct Nodes {
    a: Node,
    b: Node,
}

impl Nodes {
    /// Starts them in the two namespaces and waits for their link.
    pub fn start(stage: &Stage, cores: Cores, arguments: &Wire, daemon: &Path) -> Result<Self> {
        let start = |name, namespace, core, interface| {
            let plan = Plan {
                name,
                idle: "poll",
                core: Some(core),
                interfaces: &[interface],
                link: true,
                ring_slots: arguments.ring_slots,
                link_settings: &[],
                faulty: false,
            };
            Node::start(daemon, namespace, &plan)
        };
        let nodes = Self {
            a: start("a", &stage.a, cores.near, "a0")?,
            b: start("b", &stage.b, cores.far, "b0")?,
        };
        nodes.a.wait_for_links()?;
        nodes.b.wait_for_links()?;
        Ok(nodes)
    }

    /// The mode of the asking daemon's port, as it read it back.
    pub fn mode(&self) -> Result<PortMode> {
        let port = self.a.status()?.ports.into_iter().next();
        Ok(port.context("the daemon has no port")?.mode)
    }

    /// The command lines of both.
    pub fn commands(&self) -> Vec<Vec<String>> {
        vec![self.a.command(), self.b.command()]
    }

    /// One slice.
    pub fn slice(&self, cores: Cores, arguments: &Wire, mode: Mode) -> Result<Slice> {
        let owner =
            Device::attach(self.b.socket(), "bench-region").context("attaching to covalentd b")?;
        let _region = owner
            .register_region(REGION, 64, Rights::ALL)
            .context("registering a region")?;
        thread::scope(|scope| {
            join(scope.spawn(|| {
                let (core, shared) = cores.application_beside(cores.near);
                pin(core)?;
                let device = Device::attach(self.a.socket(), "bench-rtt")
                    .context("attaching to covalentd a")?;
                let mut verbs = device.verbs().context("opening a verb queue")?;
                let region = verbs
                    .open_region_deadline(
                        Target::Name("b"),
                        REGION,
                        Instant::now() + Duration::from_secs(5),
                    )
                    .context("opening the region")?;
                let mut word = verbs.fetch_add(&region, 0, 0)?;
                Slice::of(arguments.slice(), |deadline| {
                    compare_and_swap(&mut verbs, &region, mode, &mut word, shared, deadline)
                })
            }))
        })
    }
}

/// Swaps the word for one that is larger by 1, and waits by looking again and again, as the bare client does. Where the application shares
/// its core with the lane it gives the core up between two looks. The word must be as the last of these swaps left it.
fn compare_and_swap(
    verbs: &mut Verbs<'_>,
    region: &RemoteRegion,
    mode: Mode,
    word: &mut u64,
    shared: bool,
    deadline: Instant,
) -> Result<bool> {
    let verb = Verb::CompareAndSwap {
        offset_bytes: 0,
        expected: *word,
        new: *word + 1,
    };
    let id = verbs
        .post(region, verb, mode, 0)
        .context("posting a verb")?;
    let mut completions = [Completion::default()];
    loop {
        if verbs.poll(&mut completions).context("polling for a verb")? > 0 {
            match &completions[0] {
                Completion {
                    outcome: Outcome::Old(old),
                    id: found,
                    ..
                } if *found == id && *old == *word => {
                    *word += 1;
                    return Ok(true);
                }
                Completion {
                    outcome: Outcome::InDoubt(_),
                    ..
                } => {}
                other => bail!(
                    "a compare-and-swap of {word} ended with {:?}",
                    other.outcome
                ),
            }
        }
        if Instant::now() > deadline {
            bail!("a compare-and-swap was not answered in time");
        }
        if shared {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
