//! The possible next steps, and their effects.

use crate::{
    check::{Invariant, Sight, Space},
    forgery::{self, Forgery},
    frame::Frame,
    invariant,
    scenario::Scenario,
    sight,
    world::World,
};

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A program submits its next wish.
    Submit {
        /// Its node.
        node: usize,
    },
    /// A node gives out a frame.
    Transmit {
        /// The node.
        node: usize,
        /// For which cable.
        cable: usize,
    },
    /// A frame arrives.
    Deliver {
        /// On which cable.
        cable: usize,
        /// At which end of it.
        end: usize,
        /// How many frames it overtakes.
        place: usize,
    },
    /// The oldest frame in flight is lost.
    Lose {
        /// On which cable.
        cable: usize,
        /// To which end of it.
        end: usize,
    },
    /// The oldest frame in flight will arrive once more.
    Copy {
        /// On which cable.
        cable: usize,
        /// To which end of it.
        end: usize,
    },
    /// A cable is cut.
    Cut {
        /// Which.
        cable: usize,
        /// In the direction to each end.
        to: [bool; 2],
    },
    /// An end of a cut cable loses its carrier.
    Notice {
        /// The cable.
        cable: usize,
        /// The end.
        end: usize,
    },
    /// A cable is whole again.
    Mend {
        /// Which.
        cable: usize,
    },
    /// A tick of a node.
    Tick {
        /// The node.
        node: usize,
    },
    /// The caller of a node reports that it receives nothing.
    Quiet {
        /// The node.
        node: usize,
    },
    /// The program of a node exits, and no caller waits for its exchanges any more.
    Cancel {
        /// The node.
        node: usize,
    },
    /// A node loses its memory.
    Restart {
        /// The node.
        node: usize,
    },
    /// A forged frame arrives.
    Forge {
        /// On which cable.
        cable: usize,
        /// At which end of it.
        end: usize,
        /// Its kind.
        forgery: Forgery,
    },
    /// The second ends of the first two cables change places.
    Move,
}

impl Space for Scenario {
    type World = World;
    type Step = Step;

    const SIGHTS: &'static [Sight<World>] = sight::ALL;
    const INVARIANTS: &'static [Invariant<Self>] = invariant::ALL;

    fn name(&self) -> &'static str {
        self.name
    }

    fn starts(&self) -> Vec<World> {
        self.wishes
            .iter()
            .map(|wishes| World::new(self, wishes))
            .collect()
    }

    fn next_steps(&self, world: &World, steps: &mut Vec<Step>) {
        let Scenario { budget, mutant, .. } = self;
        for node in 0..world.sides.len() {
            if world.next_wish(node).is_some() {
                steps.push(Step::Submit { node });
            }
            if world.ticks[node] < budget.ticks {
                steps.push(Step::Tick { node });
            }
            if world.quiets[node] < budget.quiets {
                steps.push(Step::Quiet { node });
            }
            if world.spent.cancels < budget.cancels && world.sides[node].program.waits() {
                steps.push(Step::Cancel { node });
            }
            if world.spent.restarts < budget.restarts {
                steps.push(Step::Restart { node });
            }
            if !self.eager {
                let ports = 0..world.cables.len();
                let busy = ports.filter(|&cable| world.sides[node].node.has_work(cable as u16));
                steps.extend(busy.map(|cable| Step::Transmit { node, cable }));
            }
        }
        if world.spent.moves < budget.moves {
            steps.push(Step::Move);
        }
        for (number, cable) in world.cables.iter().enumerate() {
            for end in [0, 1] {
                let in_flight = cable.in_flight[end].len();
                let places = if mutant.reorders() {
                    in_flight
                } else {
                    in_flight.min(1)
                };
                steps.extend((0..places).map(|place| Step::Deliver {
                    cable: number,
                    end,
                    place,
                }));
                if in_flight > 0 && (cable.cut[end] || world.spent.losses < budget.losses) {
                    steps.push(Step::Lose { cable: number, end });
                }
                if in_flight > 0 && world.spent.copies < budget.copies {
                    steps.push(Step::Copy { cable: number, end });
                }
                if world.spent.forgeries < budget.forgeries {
                    steps.extend(forgery::ALL.map(|forgery| Step::Forge {
                        cable: number,
                        end,
                        forgery,
                    }));
                }
                if cable.cut != [false; 2] && !cable.noticed[end] {
                    steps.push(Step::Notice { cable: number, end });
                }
            }
            if cable.cut != [false; 2] && self.for_good.contains(&number) {
                continue;
            }
            if cable.cut != [false; 2] {
                steps.push(Step::Mend { cable: number });
            } else if world.spent.cuts < budget.cuts {
                let directions = [[true, true], [true, false], [false, true]];
                steps.extend(directions.map(|to| Step::Cut { cable: number, to }));
            }
        }
    }

    fn after(&self, world: &World, step: Step) -> Option<World> {
        let scenario = self;
        let mut next = world.clone();
        match step {
            Step::Submit { node } => {
                let wish = world.next_wish(node)?;
                let mut taken = false;
                next.input(scenario, node, |side| {
                    taken = side.submit(&world.wishes, wish);
                });
                if !taken {
                    return None;
                }
            }
            Step::Transmit { node, cable } => {
                next.transmit(scenario, node, cable);
            }
            Step::Deliver { cable, end, place } => next.deliver(scenario, cable, end, place),
            Step::Lose { cable, end } => {
                next.cables[cable].in_flight[end].pop_front();
                next.spent.losses += u8::from(!world.cables[cable].cut[end]);
            }
            Step::Copy { cable, end } => {
                let queue = &mut next.cables[cable].in_flight[end];
                queue.extend(queue.front().cloned());
                next.spent.copies += 1;
            }
            Step::Cut { cable, to } => {
                next.cables[cable].cut = to;
                next.spent.cuts += 1;
            }
            Step::Notice { cable, end } => next.notice(scenario, cable, end),
            Step::Mend { cable } => next.mend(scenario, cable),
            Step::Tick { node } => {
                next.ticks[node] += 1;
                next.input(scenario, node, |side| side.node.on_tick(&mut side.program));
            }
            Step::Quiet { node } => {
                next.quiets[node] += 1;
                next.input(scenario, node, |side| side.node.on_quiet());
            }
            Step::Cancel { node } => {
                next.spent.cancels += 1;
                next.input(scenario, node, |side| side.cancel());
            }
            Step::Restart { node } => {
                next.spent.restarts += 1;
                next.restart(scenario, node);
            }
            Step::Forge {
                cable,
                end,
                forgery,
            } => {
                next.spent.forgeries += 1;
                next.forge(scenario, cable, end, forgery);
            }
            Step::Move => {
                next.spent.moves += 1;
                next.moved ^= true;
            }
        }
        Some(next)
    }

    fn is_within(&self, world: &World) -> bool {
        let is_within = |frame: &Frame| {
            let mut messages = frame.messages();
            messages.all(|(_, header)| header.record_sequence < self.records_max)
        };
        let mut queues = world.cables.iter().flat_map(|cable| &cable.in_flight);
        queues.all(|frames| frames.iter().all(is_within))
    }

    fn excused(&self) -> &[&'static str] {
        &self.excused
    }
}
