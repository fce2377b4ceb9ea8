//! `covalent verb`: any verb, by hand.

mod args;
mod number;
mod show;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use covalent::{Device, Error, Guid, Mode, Refusal, RemoteRegion, Target, Verb, Verbs};

pub use self::args::VerbCommand;
use self::{args::Place, show::Done};
use crate::{args::Format, client, output, status};

/// Name under which the command identifies itself to the daemon.
const PROGRAM: &str = "covalent verb";

/// Exit status if a word did not hold the expected value.
const MISMATCH: u8 = 3;

/// Runs `covalent verb …`.
///
/// # Errors
/// Fails if the verb was not executed, or if its outcome is unknown.
pub fn run(command: &VerbCommand) -> Result<ExitCode> {
    let post = command.post()?;
    let place = post.place;
    let deadline = Instant::now() + Duration::from_secs_f64(place.options.timeout);
    let socket = status::socket(&place.options.node)?;
    let device = Device::attach_to_lane(&socket, PROGRAM, place.options.lane, deadline)
        .map_err(client::explained)?;
    let mut verbs = device.verbs()?;
    let region = open(&mut verbs, place, deadline)?;
    let done = match post.request {
        None => Done::looked_up(place, &region, device.node().guid),
        Some(request) => {
            let began = Instant::now();
            let mode = if place.options.one_phase {
                Mode::OnePhase
            } else {
                Mode::TwoPhase
            };
            let verb = request.verb();
            let completion = verbs
                .execute(&region, verb, mode, deadline)
                .map_err(|error| explained(error, place, &region, verb))?;
            let took = began.elapsed();
            let data = verbs.data(completion.id).unwrap_or_default();
            Done::executed(place, request, &completion, data, took)?
        }
    };
    match place.options.format {
        Format::Json => output::json(&done)?,
        Format::Table => output::line(&done.to_string())?,
    }
    Ok(match done.is_mismatch() {
        true => ExitCode::from(MISMATCH),
        false => ExitCode::SUCCESS,
    })
}

/// Looks the region up, and again while its node is not known yet.
fn open(verbs: &mut Verbs<'_>, place: &Place, deadline: Instant) -> Result<RemoteRegion> {
    let Place { node, region, .. } = place;
    verbs
        .open_region(target(node), region, deadline)
        .map_err(|error| match error {
            Error::VerbRefused {
                refusal: Refusal::UnknownRegion,
                ..
            } => anyhow!(
                "node {node} has no region `{region}`\n  cure: `covalent status` there lists its \
                 regions; a durable one is served once its owner has registered it"
            ),
            Error::UnknownNode { known, .. } => anyhow!(
                "nothing was posted: no node named `{node}` is known here; known: {known}\n  \
                 cure: `covalent links` and `covalent status --nodes` show the reachable nodes; \
                 `local` is this node"
            ),
            error @ (Error::Deadline { .. } | Error::InDoubt { .. }) => anyhow!(
                "nothing was posted: node {node} did not report within {} s whether it has a region \
                 `{region}`: {error}\n  \
                 cure: mend a link that `covalent links` shows as not up; --timeout waits longer",
                place.options.timeout
            ),
            other => client::explained(other),
        })
}

/// Which node is meant: `local`, an address of sixteen digits, else a name.
fn target(node: &str) -> Target<'_> {
    const ADDRESS_DIGITS: usize = 16;
    let address = || -> Option<Guid> { node.parse().ok() };
    match node {
        "local" => Target::Local,
        _ if node.len() == ADDRESS_DIGITS => address().map_or(Target::Name(node), Target::Guid),
        _ => Target::Name(node),
    }
}

/// Explains the error of a verb, with the known facts about its region.
fn explained(error: Error, place: &Place, region: &RemoteRegion, verb: Verb<'_>) -> anyhow::Error {
    let Place {
        node,
        region: name,
        options,
    } = place;
    match error {
        Error::VerbRefused {
            refusal: Refusal::OutOfBounds,
            ..
        } => anyhow!(
            "the verb was not executed: it reaches beyond the end of region `{name}` of node \
             {node}, which has {} bytes",
            region.size_bytes()
        ),
        Error::VerbRefused {
            refusal: Refusal::NoRight,
            ..
        } => anyhow!(
            "the verb was not executed: region `{name}` of node {node} grants {}, but not the \
             right that {} needs",
            region.rights(),
            show::name(&verb)
        ),
        Error::InDoubt { .. } => anyhow!(
            "still in flight: node {node} did not answer within {} s. The verb was executed, or will be, \
             or will never be. After this command ends, no completion is reported. Read the word \
             to learn the outcome",
            options.timeout
        ),
        Error::Deadline { .. } => anyhow!(
            "the verb was not executed: it could not be posted within {} s",
            options.timeout
        ),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_meant_by_its_name_unless_it_is_an_address() {
        assert_eq!(target("local"), Target::Local);
        assert_eq!(target("b"), Target::Name("b"));
        assert_eq!(
            target("0000000000000abc"),
            Target::Guid(Guid::new(0xabc).expect("not zero"))
        );
        assert_eq!(target("machine-number-1"), Target::Name("machine-number-1"));
    }
}
