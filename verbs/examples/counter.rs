//! A counter on one node, incremented by another. `verbs/c/examples/counter.c` is the same program
//! in C. Either end may be either program.
//!
//! ```text
//! counter host SOCKET            registers the region `c-counter` and waits until stdin closes;
//!                                prints the counter
//! counter client SOCKET NODE N   adds 1 to it N times, 16 at a time; then takes and gives back a
//!                                lock, and commits two words at once
//! ```
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{
    env,
    error::Error,
    io::{self, Read},
};

use covalent::{
    CommitWord, Completion, Device, Error as Failure, Mode, Outcome, RemoteRegion, Rights, Target,
    Timeout, Verb, Verbs,
};

const COUNTER: u64 = 0;
const LOCK: u64 = 8;
const PAIR: u64 = 16;
const REGION_BYTES: u64 = 64;

// ANCHOR: host
fn host(socket: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::attach(socket, "counter host")?;
    let region = device.register_region("c-counter", REGION_BYTES, Rights::ALL)?;
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", region.load(COUNTER)?);
    Ok(())
}
// ANCHOR_END: host

// ANCHOR: post
fn count(verbs: &mut Verbs<'_>, region: &RemoteRegion, count: u64) -> Result<u64, Box<dyn Error>> {
    let add = Verb::FetchAdd {
        offset_bytes: COUNTER,
        delta: 1,
    };
    let mut completions = vec![Completion::default(); 16];
    let (mut posted, mut ended) = (0, 0);
    while ended < count {
        while posted < count {
            match verbs.post(region, add, Mode::TwoPhase, posted) {
                Ok(_) => posted += 1,
                Err(Failure::QueueFull { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let taken = verbs.poll(&mut completions, Timeout::FOREVER)?;
        for completion in &completions[..taken] {
            match completion.outcome {
                Outcome::InDoubt(_) => {} // another completion follows
                Outcome::Old(_) => ended += 1,
                ref other => return Err(format!("an addition ended as {other:?}").into()),
            }
        }
    }
    Ok(ended)
}
// ANCHOR_END: post

// ANCHOR: words
fn words(verbs: &mut Verbs<'_>, region: &RemoteRegion) -> Result<(), Box<dyn Error>> {
    // A lock: 0 is free.
    if let Err(held) = verbs.compare_and_swap(region, LOCK, 0, 77, Timeout::FOREVER)? {
        return Err(format!("{held} has the lock").into());
    }
    // Two words at once, or none.
    let pair = [
        CommitWord {
            offset_bytes: PAIR,
            expected: 0,
            new: 5,
        },
        CommitWord {
            offset_bytes: PAIR + 8,
            expected: 0,
            new: 6,
        },
    ];
    if let Err(differs) = verbs.multi_commit(region, &pair, Timeout::FOREVER)? {
        return Err(format!("word {} holds {}", differs.index, differs.found).into());
    }
    let mut bytes = [0; 16];
    verbs.read(region, PAIR, &mut bytes, Timeout::FOREVER)?;
    if (bytes[0], bytes[8]) != (5, 6) {
        return Err("both words are there".into());
    }
    verbs.write(region, PAIR, &[0; 16], Timeout::FOREVER)?;
    verbs.swap(region, LOCK, 0, Timeout::FOREVER)?;
    Ok(())
}
// ANCHOR_END: words

// ANCHOR: client
fn client(socket: &str, node: &str, times: u64) -> Result<(), Box<dyn Error>> {
    let device = Device::attach(socket, "counter client")?;
    let mut verbs = device.verbs_with_depth(16)?;
    let region = verbs.open_region(Target::Name(node), "c-counter", Timeout::FOREVER)?;
    let ended = count(&mut verbs, &region, times)?;
    words(&mut verbs, &region)?;
    println!("{ended}");
    Ok(())
}
// ANCHOR_END: client

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["host", socket] => host(socket),
        ["client", socket, node, times] => client(socket, node, times.parse()?),
        _ => Err("usage: counter host SOCKET | counter client SOCKET NODE N".into()),
    }
}
