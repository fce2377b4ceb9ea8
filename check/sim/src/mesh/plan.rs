//! The faults of a run with churn, as its seed picks them.

use std::collections::VecDeque;

use fastrand::Rng;

use super::{
    fault::MeshFault,
    options::{FaultClass, MeshOptions},
    time::ROUND_TRIP_UNITS,
};
use crate::shape::Shape;

/// One in so many faults is not repaired before the world comes to rest.
const STANDS_ONE_IN: u32 = 4;
/// Maximum draws of a target for a fault.
const DRAWS_MAX: u32 = 20;

/// Faults by time, in units from the start of the faults.
pub(super) type Plan = Vec<(u64, MeshFault)>;

/// The plan so far. No fault is planned for what is already broken.
struct Planner<'a> {
    shape: &'a Shape,
    rng: &'a mut Rng,
    plan: Plan,
    /// Until when each cable and each node is broken.
    cables_until: Vec<u64>,
    nodes_until: Vec<u64>,
    now: u64,
}

/// [`MeshOptions::churn`] faults, each repaired later or not at all.
pub(super) fn churn(shape: &Shape, options: &MeshOptions, rng: &mut Rng) -> Plan {
    let happens = |class: &FaultClass| *class != FaultClass::Liar;
    let classes: Vec<FaultClass> = options.faults.iter().filter(happens).collect();
    let mut planner = Planner {
        shape,
        rng,
        plan: Vec::new(),
        cables_until: vec![0; shape.cables.len()],
        nodes_until: vec![0; shape.nodes],
        now: 0,
    };
    if !classes.is_empty() {
        for _ in 0..options.churn {
            let between = 2 * u64::from(options.every_rt) * ROUND_TRIP_UNITS;
            planner.now += planner.rng.u64(0..=between);
            let class = classes[planner.rng.usize(..classes.len())];
            planner.draw(class);
        }
    }
    let mut plan = planner.plan;
    // Stable: simultaneous faults happen in the order in which they were drawn.
    plan.sort_by_key(|(at, _)| *at);
    plan
}

impl Planner<'_> {
    fn draw(&mut self, class: FaultClass) {
        match class {
            FaultClass::Cut => self.cut([true; 2], [true; 2], 5..300),
            FaultClass::Silent => {
                let noticed = [[false, false], [true, false], [false, true]];
                let noticed = noticed[self.rng.usize(..noticed.len())];
                self.cut([true; 2], noticed, 5..800);
            }
            FaultClass::OneWay => {
                let end = self.rng.usize(..2);
                let noticed = [self.rng.u8(..3) == 0, self.rng.u8(..3) == 0];
                self.cut([end == 0, end == 1], noticed, 5..800);
            }
            FaultClass::Flap => {
                let noticed = [self.rng.bool(), self.rng.bool()];
                self.cut([true; 2], noticed, 0..6);
            }
            FaultClass::Crash => {
                let Some(node) = self.whole_node() else {
                    return;
                };
                let noticed = self.rng.u8(..3) > 0;
                let until = self.lasts(5..300);
                self.nodes_until[usize::from(node)] = until.unwrap_or(u64::MAX);
                self.plan
                    .push((self.now, MeshFault::Crash { node, noticed }));
                if let Some(until) = until {
                    self.plan.push((until, MeshFault::Start { node }));
                }
            }
            FaultClass::Stall => {
                let Some(node) = self.whole_node() else {
                    return;
                };
                let for_units = self.rng.u64(1..250) * ROUND_TRIP_UNITS;
                self.nodes_until[usize::from(node)] = self.now + for_units;
                self.plan
                    .push((self.now, MeshFault::Stall { node, for_units }));
            }
            FaultClass::Loss => {
                let Some(cable) = self.whole_cable() else {
                    return;
                };
                let thousandths = self.rng.u32(10..300);
                let fault = MeshFault::Loss { cable, thousandths };
                let until = self.lasts(5..200);
                self.breaks(cable, fault, until);
            }
            FaultClass::Partition => self.partition(),
            // It is there from the beginning.
            FaultClass::Liar => {}
        }
    }

    /// When a fault of now ends that lasts so many round trips, if it does.
    fn lasts(&mut self, round_trips: std::ops::Range<u64>) -> Option<u64> {
        let for_units =
            self.rng.u64(round_trips) * ROUND_TRIP_UNITS + self.rng.u64(..ROUND_TRIP_UNITS);
        (self.rng.u32(..STANDS_ONE_IN) > 0).then_some(self.now + for_units)
    }

    fn cut(&mut self, towards: [bool; 2], noticed: [bool; 2], round_trips: std::ops::Range<u64>) {
        let Some(cable) = self.whole_cable() else {
            return;
        };
        let until = self.lasts(round_trips);
        let fault = MeshFault::Cut {
            cable,
            towards,
            noticed,
        };
        self.breaks(cable, fault, until);
    }

    fn breaks(&mut self, cable: u16, fault: MeshFault, until: Option<u64>) {
        self.cables_until[usize::from(cable)] = until.unwrap_or(u64::MAX);
        self.plan.push((self.now, fault));
        if let Some(until) = until {
            self.plan.push((until, MeshFault::Mend { cable }));
        }
    }

    /// Cuts everything between a part of the mesh and the rest.
    fn partition(&mut self) {
        let ports = self.shape.ports();
        let first = self.rng.usize(..self.shape.nodes);
        let size = self.rng.usize(1..=(self.shape.nodes / 2).max(1));
        let mut inside = vec![false; self.shape.nodes];
        inside[first] = true;
        let mut next = VecDeque::from([first]);
        let mut count = 1;
        while let Some(node) = next.pop_front() {
            for spot in &ports[node] {
                let [a, b] = self.shape.cables[usize::from(spot.cable)].map(usize::from);
                let other = if a == node { b } else { a };
                if count < size && !inside[other] {
                    inside[other] = true;
                    count += 1;
                    next.push_back(other);
                }
            }
        }
        let until = self.lasts(5..400);
        let silent = self.rng.u8(..4) == 0;
        for cable in 0..self.shape.cables.len() {
            let [a, b] = self.shape.cables[cable].map(usize::from);
            if inside[a] != inside[b] && self.cables_until[cable] < self.now {
                let fault = MeshFault::Cut {
                    cable: cable as u16,
                    towards: [true; 2],
                    noticed: [!silent; 2],
                };
                self.breaks(cable as u16, fault, until);
            }
        }
    }

    fn whole_cable(&mut self) -> Option<u16> {
        let whole = |at: usize| self.cables_until[at] < self.now;
        (0..DRAWS_MAX)
            .map(|_| self.rng.usize(..self.cables_until.len()))
            .find(|at| whole(*at))
            .map(|at| at as u16)
    }

    fn whole_node(&mut self) -> Option<u16> {
        let whole = |at: usize| self.nodes_until[at] < self.now;
        (0..DRAWS_MAX)
            .map(|_| self.rng.usize(..self.nodes_until.len()))
            .find(|at| whole(*at))
            .map(|at| at as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::mesh::options::MeshFaults;

    #[test]
    fn every_class_occurs_and_parts_break_and_mend_in_turn() {
        let shape = Shape::torus(5, 5);
        let options = MeshOptions {
            churn: 400,
            ..MeshOptions::new()
        };
        let plan = churn(&shape, &options, &mut Rng::with_seed(3));
        assert!(plan.is_sorted_by_key(|(at, _)| *at));
        let mut broken = HashSet::new();
        let mut seen = HashSet::new();
        for (_, fault) in &plan {
            match *fault {
                MeshFault::Cut { cable, towards, .. } => {
                    assert!(broken.insert((0, cable)), "{fault:?}");
                    seen.insert(if towards == [true; 2] {
                        "cut"
                    } else {
                        "one way"
                    });
                }
                MeshFault::Loss { cable, .. } => {
                    assert!(broken.insert((0, cable)), "{fault:?}");
                    seen.insert("loss");
                }
                MeshFault::Mend { cable } => assert!(broken.remove(&(0, cable)), "{fault:?}"),
                MeshFault::Crash { node, .. } => {
                    assert!(broken.insert((1, node)), "{fault:?}");
                    seen.insert("crash");
                }
                MeshFault::Start { node } => assert!(broken.remove(&(1, node)), "{fault:?}"),
                MeshFault::Stall { .. } => {
                    seen.insert("stall");
                }
            }
        }
        assert_eq!(seen.len(), 5, "{seen:?}");
        assert!(!broken.is_empty(), "something stands");
        assert_eq!(plan, churn(&shape, &options, &mut Rng::with_seed(3)));
        let none = MeshOptions {
            faults: MeshFaults::NONE,
            ..options
        };
        assert!(churn(&shape, &none, &mut Rng::with_seed(3)).is_empty());
    }
}
