//! An application that adds to a word at another node a given number of times.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent::{Completion, Device, Mode, Outcome, Target, Verb};

use crate::{
    cores::{Cores, pin},
    stop,
};

/// Name of the region that is added to.
pub const REGION: &str = "bench";

/// Timeout for completions: a traced thread is slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks that find nothing between two checks of whether an answer is still to be expected.
const POLLS_PER_CHECK: u64 = 1024;

/// Makes `count` additions with up to `depth` in flight. Calls `traced` once the region is found,
/// before the first addition.
pub fn add(
    socket: &Path,
    cores: Cores,
    count: u64,
    depth: u32,
    traced: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (core, shared) = cores.application_beside(cores.near);
    pin(core)?;
    let device = Device::attach(socket, "bench-calls").context("attaching to covalentd a")?;
    let mut verbs = device
        .verbs_with_depth(depth)
        .context("opening a verb queue")?;
    let region = verbs
        .open_region(Target::Name("b"), REGION, PATIENCE)
        .context("opening the region")?;
    traced()?;
    let add = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    let mut completions = vec![Completion::default(); depth as usize];
    let (mut posted, mut done) = (0, 0);
    let (mut fruitless, mut last) = (0_u64, Instant::now());
    while done < count {
        let room = (depth as usize - verbs.outstanding()) as u64;
        let more = room.min(count - posted);
        if more > 0 {
            let mut batch = verbs.batch();
            for _ in 0..more {
                batch
                    .post(&region, add, Mode::OnePhase, 0)
                    .context("posting a verb")?;
            }
            batch.ring().context("posting verbs")?;
            posted += more;
        }
        let came = verbs
            .try_poll(&mut completions)
            .context("polling for verbs")?;
        for completion in &completions[..came] {
            if !matches!(completion.outcome, Outcome::Old(_)) {
                bail!("a fetch-and-add ended with {:?}", completion.outcome);
            }
        }
        done += came as u64;
        if came > 0 {
            (fruitless, last) = (0, Instant::now());
            continue;
        }
        fruitless += 1;
        if fruitless.is_multiple_of(POLLS_PER_CHECK) {
            stop::check()?;
            ensure!(last.elapsed() < PATIENCE, "verbs are not answered");
        }
        if shared {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    Ok(())
}
