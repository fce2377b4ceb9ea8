//! Fetch-and-add of one word at another node, asked for in the lane's own thread: no application, no pipe.

use anyhow::Result;
use covalent_protocol::Mode;

use super::ours::SLOTS;
use crate::{
    arguments::Wire,
    cores::Cores,
    exchanges::{
        end::Asking,
        slice::{Slice, exchanges},
    },
    lane_port,
    stage::Stage,
};

/// One slice. The word must have grown by the number of additions.
pub fn slice(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Slice> {
    let end = |asks| Asking {
        mode: Mode::OnePhase,
        slots: SLOTS,
        asks,
    };
    exchanges(
        [end(true), end(false)],
        cores,
        arguments.slice(),
        |this| match this {
            0 => lane_port::open(&stage.a, "a0", arguments.ring_slots),
            _ => lane_port::open(&stage.b, "b0", arguments.ring_slots),
        },
    )
}
