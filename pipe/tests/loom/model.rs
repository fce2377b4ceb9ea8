//! One lane, one application, and their shared state.

use covalent_ipc::mutation;
use covalent_pipe::{Direction, PipeMemory, nic::NicPipe, session::SessionMemory};
use loom::{model::Builder, thread};

use super::{
    device::{Device, Events, Fault},
    lane::Lane,
};

/// The protocol step to omit, or the fault of the application, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    Step(&'static str),
    Sense(Fault),
}

/// Runs `model` in every interleaving with at most `interruptions`.
pub fn explore(
    mutation: Option<&'static str>,
    interruptions: usize,
    model: impl Fn() + Sync + Send + 'static,
) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(interruptions);
    mutation::during(mutation, || builder.check(model));
}

/// Pipes, and the packets that arrive in them.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    pub directions: &'static [Direction],
    pub capacity_bytes: usize,
    pub arrivals: &'static [(u32, &'static [u8])],
}

/// Runs a lane with this traffic against `application`.
pub fn check(
    without: Without,
    interruptions: usize,
    traffic: Traffic,
    application: fn(&mut Device, Vec<PipeMemory>),
) {
    let (mutation, fault) = match without {
        Without::Nothing => (None, None),
        Without::Step(mutation) => (Some(mutation), None),
        Without::Sense(fault) => (None, Some(fault)),
    };
    explore(mutation, interruptions, move || {
        let [lane_session, app_session] = SessionMemory::both_sides(traffic.directions.len());
        let (nics, apps) = traffic
            .directions
            .iter()
            .map(|direction| {
                let [nic, app] = PipeMemory::both_sides(*direction, traffic.capacity_bytes);
                (NicPipe::new(nic), app)
            })
            .unzip();
        let events = Events::new();
        let lane = Lane::new(lane_session, nics, events.clone());
        let lane = thread::spawn(move || lane.run(traffic.arrivals));
        let mut device = Device::new(app_session, events, fault);
        application(&mut device, apps);
        device.end();
        lane.join().unwrap();
    });
}
