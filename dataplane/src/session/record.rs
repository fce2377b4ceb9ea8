//! The host thread's record of one session.

use std::collections::BTreeMap;

use covalent_api::{request::PipeKind, status::RegionStatus};

use super::quota::Quota;

/// One session: an application's pipes and regions on one lane.
#[derive(Debug)]
pub struct SessionRecord {
    /// The connection whose lifetime the session shares.
    pub client: u64,
    /// The user that it runs as.
    pub uid: u32,
    /// The lane that serves it.
    pub lane: u32,
    /// Slots in each ring of its session memory: pipe numbers are below.
    pub slots: u32,
    /// Pipes by number.
    pub pipes: BTreeMap<u32, PipeRecord>,
    /// Regions.
    pub regions: Vec<RegionStatus>,
    /// The resources that it has taken.
    pub quota: Quota,
    /// Its lane knows it, or will when it has taken the commands that wait.
    pub attached: bool,
    /// Unfinished jobs on its memory: the memory stays charged until they end.
    pub errands: u32,
    /// How the session ended, once its lane has released it.
    pub end: Option<SessionEnd>,
}

/// How a session ended, and the resources that it had until then.
#[derive(Debug)]
pub struct SessionEnd {
    /// Why, as it is counted.
    pub class: &'static str,
    /// Why, for people.
    pub reason: String,
    /// Pipes.
    pub pipes: u32,
    /// Bindings.
    pub bindings: u32,
    /// Verbs that were in flight at other nodes.
    pub verbs: u32,
    /// Regions.
    pub regions: u32,
}

/// One pipe of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipeRecord {
    /// The purpose of the pipe.
    pub kind: PipeKind,
    /// Number of the port that it sends on, or the only port whose frames it receives.
    pub port: Option<u16>,
    /// Ring size in bytes.
    pub capacity_bytes: u64,
    /// Longest packet that it carries, in bytes.
    pub packet_bytes_max: u64,
    /// How many bindings it has.
    pub bindings: u32,
    /// Of a verb pipe: the number of the other pipe of its queue.
    pub partner: Option<u32>,
}

impl SessionRecord {
    /// The lowest number that no pipe has.
    #[must_use]
    pub fn free_number(&self) -> u32 {
        (0..)
            .zip(self.pipes.keys())
            .find(|(free, taken)| free != *taken)
            .map_or(self.pipes.len() as u32, |(free, _)| free)
    }

    /// Whether a pipe may have this number. No pipe has the highest one.
    #[must_use]
    pub fn may_number(&self, number: u32) -> bool {
        number < self.slots - 1 && !self.pipes.contains_key(&number)
    }

    /// The number of the pipe that makes a verb queue with a new pipe of `kind`: the pipe
    /// `completions`, if one is named; `None` if there is none yet.
    ///
    /// # Errors
    /// There can be no such queue, for this reason.
    pub fn partner(&self, kind: PipeKind, completions: Option<u32>) -> Result<Option<u32>, String> {
        let other = match kind {
            PipeKind::VerbSubmit => PipeKind::VerbComplete,
            PipeKind::VerbComplete => PipeKind::VerbSubmit,
            _ if completions.is_some() => {
                return Err(format!(
                    "a pipe of kind {kind} carries no verbs: give `completions` as null"
                ));
            }
            _ => return Ok(None),
        };
        let is_single =
            |pipe: &PipeRecord, kind: PipeKind| pipe.kind == kind && pipe.partner.is_none();
        if let Some(number) = completions {
            return match self.pipes.get(&number) {
                Some(pipe) if kind == PipeKind::VerbSubmit && is_single(pipe, other) => {
                    Ok(Some(number))
                }
                _ => Err(format!(
                    "pipe {number} receives no completions, or receives those of another pipe: \
                     open a VerbComplete pipe for each VerbSubmit pipe"
                )),
            };
        }
        let is_ambiguous =
            kind == PipeKind::VerbSubmit && self.pipes.values().any(|pipe| is_single(pipe, kind));
        if is_ambiguous {
            return Err(
                "the session has a VerbSubmit pipe without a VerbComplete pipe already: open that \
                 first, or name one in `completions`"
                    .to_owned(),
            );
        }
        let single = self.pipes.iter().find(|(_, pipe)| is_single(pipe, other));
        Ok(single.map(|(&number, _)| number))
    }

    /// Adds a pipe.
    pub fn add_pipe(&mut self, number: u32, pipe: PipeRecord) {
        self.set_partner_of(pipe.partner, Some(number));
        self.pipes.insert(number, pipe);
    }

    fn set_partner_of(&mut self, pipe: Option<u32>, partner: Option<u32>) {
        if let Some(pipe) = pipe.and_then(|number| self.pipes.get_mut(&number)) {
            pipe.partner = partner;
        }
    }

    /// Gives up the name of a region.
    pub fn forget_region(&mut self, rkey: u32) {
        self.regions.retain(|region| region.rkey != rkey);
    }

    /// Closes a pipe that was handed out.
    pub fn close_pipe(&mut self, number: u32) {
        if let Some(pipe) = self.pipes.remove(&number) {
            self.set_partner_of(pipe.partner, None);
            self.quota.close_pipe(pipe.capacity_bytes);
            self.quota.give_bindings(pipe.bindings);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_config::DataplaneConfig;

    use super::*;

    #[test]
    fn the_lowest_free_number_is_reused() {
        let mut record = SessionRecord {
            client: 0,
            uid: 0,
            lane: 0,
            slots: 16,
            pipes: BTreeMap::new(),
            regions: Vec::new(),
            quota: Quota::new(&DataplaneConfig::default()),
            attached: true,
            errands: 0,
            end: None,
        };
        for expected in 0..3 {
            assert_eq!(record.free_number(), expected);
            record.quota.take_pipe(1 << 16, 0).unwrap();
            record.pipes.insert(
                expected,
                PipeRecord {
                    kind: PipeKind::Rx,
                    port: None,
                    capacity_bytes: 1 << 16,
                    packet_bytes_max: 1514,
                    bindings: 0,
                    partner: None,
                },
            );
        }
        record.close_pipe(1);
        assert_eq!(record.free_number(), 1);
        record.close_pipe(0);
        assert_eq!(record.free_number(), 0);
    }
}
