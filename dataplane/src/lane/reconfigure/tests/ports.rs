//! Ports that come, are detached and return, on a lane that is played.

use covalent_api::request::PipeKind;
use covalent_ipc::event::EventFd;
use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    nic::NicPipe,
    session::{NicSession, SessionMemory},
};

use super::*;
use crate::lane::command::{NewPipe, NewSession};

/// Returns a kernel with capacity for `room` rules.
fn below(room: usize) -> Arc<Mutex<Below>> {
    Arc::new(Mutex::new(Below {
        room,
        ..Below::default()
    }))
}

fn port(played: &Played, number: u16, below: &Arc<Mutex<Below>>) -> NewPort {
    let mut config = played.config.port[0].clone();
    config.name = format!("n{number}");
    let noting = PlayedPort::new(&config.name, Noting(Arc::clone(below)));
    NewPort::new(number, &config, noting)
}

/// Attaches an application with one pipe of every port, bound to these.
fn bind(played: &mut Played, bound: &[Rule]) {
    let memory = SessionMemory::create(8).unwrap();
    let (to_application, _application) = EventFd::one_way().unwrap();
    played.obey(Command::Attach(Box::new(NewSession {
        session: 1,
        uid: 0,
        program: "".into(),
        commands: true,
        rings: NicSession::new(memory),
        to_application,
        to_lane: EventFd::new().unwrap(),
    })));
    let spec = PipeSpec {
        direction: Direction::Rx,
        capacity_bytes: 1 << 16,
        pages: PagePolicy::Never,
    };
    let memory = PipeMemory::create(&spec).unwrap();
    played.obey(Command::OpenPipe(Box::new(NewPipe {
        session: 1,
        pipe: 0,
        kind: PipeKind::Rx,
        port: None,
        partner: None,
        capacity_bytes: 1 << 16,
        page_bytes: 4096,
        nic: NicPipe::new(memory),
    })));
    for rule in bound {
        played.obey(Command::Bind {
            session: 1,
            pipe: 0,
            matches: rule.matches.clone(),
            spread: None,
        });
    }
}

impl Played {
    fn obey(&mut self, command: Command) {
        let ticket = 2;
        assert!(self.orders.push(Order { ticket, command }).is_ok());
        self.lane.round();
        let answer = std::iter::from_fn(|| self.reports.pop()).find_map(|report| match report {
            Report::Answer { result, .. } => Some(result),
            _ => None,
        });
        assert!(matches!(answer, Some(Ok(Answer::Done))), "{answer:?}");
    }

    /// Numbers of the ports that the lane has, with whether they are configured.
    fn ports(&self) -> Vec<(u16, bool)> {
        let slots = self.lane.ports.slots.iter();
        slots.map(|slot| (slot.index, slot.is_configured)).collect()
    }
}

#[test]
fn a_new_port_gets_all_rules_over_several_rounds_before_it_is_placed() {
    let configured = rules(0x2000..0x2100, Action::Drop);
    let mut played = Played::new(&configured, usize::MAX);
    let bound = rules(0x3000..0x3080, Action::Dataplane);
    bind(&mut played, &bound);
    let comes = below(usize::MAX);
    let want = played.want(&played.config);
    let new = port(&played, 7, &comes);
    let (answer, rounds) = played.have(Command::Prepare(want, vec![new]));
    assert!(answer.went.is_ok() && answer.ports.is_empty());
    assert!(rounds >= (0x180 + 1) / STEPS_PER_ROUND, "{rounds}");
    let expected_rules = [map(&configured), map(&bound)]
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(locked(&comes).rules, expected_rules);
    assert_eq!(played.ports(), [(0, true), (1, true)]);
    let (answer, _) = played.have(Command::Commit);
    assert!(answer.went.is_ok() && answer.ports.is_empty());
    assert_eq!(played.ports(), [(0, true), (1, true), (7, true)]);
    // Existing bindings apply to the new port too.
    let slot = &played.lane.ports.slots[2];
    assert!(
        bound
            .iter()
            .all(|rule| slot.flow.pipe_with(&rule.matches).is_some())
    );
    assert_eq!(slot.flow.pipe_with(&configured[0].matches), None);
}

#[test]
fn a_port_in_the_slot_of_another_gets_its_bindings() {
    let configured = rules(0x2000..0x2010, Action::Drop);
    let mut played = Played::new(&configured, usize::MAX);
    let bound = rules(0x3000..0x3004, Action::Dataplane);
    bind(&mut played, &bound);
    let mut wanted = played.config.clone();
    wanted.steer = rules(0x2008..0x2018, Action::Kernel);
    let want = played.want(&wanted);
    let comes = below(usize::MAX);
    let new = port(&played, 1, &comes);
    played.have(Command::Prepare(want, vec![new]));
    let (answer, _) = played.have(Command::Commit);
    let left: Vec<_> = answer.ports.iter().map(|(number, _)| *number).collect();
    assert_eq!(left, [1], "the previous port is to be closed");
    let expected_rules = [map(&wanted.steer), map(&bound)]
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(locked(&comes).rules, expected_rules);
    // A later binding reaches the kernel below the new port.
    let later = rules(0x4000..0x4001, Action::Dataplane);
    played.obey(Command::Bind {
        session: 1,
        pipe: 0,
        matches: later[0].matches.clone(),
        spread: None,
    });
    assert!(locked(&comes).rules.contains_key(&later[0].matches));
    assert!(!played.rules()[1].contains_key(&later[0].matches));
}

#[test]
fn a_port_whose_kernel_refuses_is_returned_and_nothing_changes() {
    let configured = rules(0x2000..0x2040, Action::Drop);
    let mut played = Played::new(&configured, usize::MAX);
    let mut wanted = played.config.clone();
    wanted.steer = rules(0x2020..0x2060, Action::Drop);
    let want = played.want(&wanted);
    let ports = [usize::MAX, 10].map(below);
    let new = vec![port(&played, 7, &ports[0]), port(&played, 8, &ports[1])];
    let (answer, _) = played.have(Command::Prepare(want, new));
    let objection = answer.went.unwrap_err();
    assert_eq!((objection.port, objection.matches), (Some(8), None));
    assert!(objection.reason.contains("full"));
    assert_eq!(answer.ports.len(), 2, "both are to be closed");
    assert_eq!(played.ports(), [(0, true), (1, true)]);
    assert_eq!(played.rules(), [map(&configured), map(&configured)]);
    assert!(played.lane.housekeeping.change.is_none());
}

#[test]
fn prepared_ports_are_returned_when_another_lane_refuses() {
    let mut played = Played::new(&[], usize::MAX);
    let want = played.want(&played.config);
    let comes = below(usize::MAX);
    let new = port(&played, 7, &comes);
    played.have(Command::Prepare(want, vec![new]));
    let (answer, _) = played.have(Command::RollBack);
    assert!(answer.went.is_ok());
    assert_eq!(answer.ports.len(), 1);
    assert_eq!(played.ports(), [(0, true), (1, true)]);
}

#[test]
fn a_detached_port_returns_with_the_rules_in_force() {
    let configured = rules(0x2000..0x2100, Action::Drop);
    let mut played = Played::new(&configured, usize::MAX);
    let (answer, _) = played.have(Command::DetachPorts { ports: vec![0, 1] });
    assert_eq!(answer.ports.len(), 2);
    let is_absent = |played: &Played| {
        let slots = played.lane.ports.slots.iter();
        slots
            .map(|slot| slot.port.absent().is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(is_absent(&played), [true, true]);
    // Bound meanwhile.
    let bound = rules(0x3000..0x3001, Action::Dataplane);
    bind(&mut played, &bound);
    let want = played.want(&played.config);
    let below_it = below(usize::MAX);
    let back = vec![port(&played, 0, &below_it)];
    let (answer, rounds) = played.have(Command::Prepare(want, back));
    assert!(
        answer.went.is_ok() && rounds >= 0x100 / STEPS_PER_ROUND,
        "{rounds}"
    );
    let expected_rules = [map(&configured), map(&bound)]
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(locked(&below_it).rules, expected_rules);
    played.have(Command::Commit);
    assert_eq!(is_absent(&played), [false, true]);
}

#[test]
fn a_removed_port_keeps_its_slot_for_its_return() {
    let mut played = Played::new(&[], usize::MAX);
    let bound = rules(0x3000..0x3001, Action::Dataplane);
    let mut want = Arc::into_inner(played.want(&played.config)).unwrap();
    want.removed = vec![1];
    played.have(Command::Prepare(Arc::new(want), Vec::new()));
    let (answer, _) = played.have(Command::Commit);
    assert_eq!(answer.ports.len(), 1);
    let names = answer.went.unwrap().ports.len();
    assert_eq!(names, 1, "nothing reports it");
    assert_eq!(played.ports(), [(0, true), (1, false)]);
    bind(&mut played, &bound);
    let mut want = Arc::into_inner(played.want(&played.config)).unwrap();
    want.epoch = 2;
    let comes = below(usize::MAX);
    let new = port(&played, 1, &comes);
    played.have(Command::Prepare(Arc::new(want), vec![new]));
    assert_eq!(locked(&comes).rules, map(&bound), "bound while it was away");
    played.have(Command::Commit);
    assert_eq!(played.ports(), [(0, true), (1, true)]);
}
