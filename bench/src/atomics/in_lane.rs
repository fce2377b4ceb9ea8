//! Fetch-and-add of one word at another node, submitted in the lane's own thread: no application,
//! no pipe.

use anyhow::Result;
use covalent_dataplane::port::Port;
use covalent_protocol::Mode;

use super::ours::SLOTS;
use crate::{
    arguments::Wire,
    cores::Cores,
    exchanges::{
        end::RequestOptions,
        slice::{Slice, exchanges, raw},
    },
    lane_port,
    stage::Stage,
};

/// One slice. The word must have grown by the number of additions.
pub fn slice(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Slice> {
    let end = |sends_requests| RequestOptions {
        mode: Mode::OnePhase,
        slots: SLOTS,
        sends_requests,
    };
    exchanges([end(true), end(false)], cores, arguments.slice(), |this| {
        open(this, stage, arguments)
    })
}

/// Measures what the same ports carry: full frames in both directions at once, with records that
/// are not inspected. An exchange needs one record each way.
pub fn bare_slice(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Slice> {
    raw(false, cores, arguments.slice(), |this| {
        open(this, stage, arguments)
    })
}

fn open(this: usize, stage: &Stage, arguments: &Wire) -> Result<Box<dyn Port>> {
    match this {
        0 => lane_port::open(&stage.a, "a0", arguments.ring_slots),
        _ => lane_port::open(&stage.b, "b0", arguments.ring_slots),
    }
}
