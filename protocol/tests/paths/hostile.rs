//! A neighbor that lies about channels fails its own link, and nothing else.

use covalent_protocol::{
    DownReason, Mode,
    wire::{ETHERNET_HEADER_BYTES, frame, slice::Kind},
};

use crate::{
    far::{rack, ring},
    rack::{Rack, messages},
};

/// Where the payload of the first message of a frame begins.
const PAYLOAD: usize = ETHERNET_HEADER_BYTES + 28;

/// Everything moves until a frame towards that end of the cable begins with a message of this kind
/// and first byte. Removes and returns that frame.
fn intercept(
    rack: &mut Rack,
    cable: usize,
    to: usize,
    is_it: impl Fn(Kind, &[u8]) -> bool,
) -> Vec<u8> {
    for _ in 0..100 {
        rack.send();
        let first = rack.cables[cable].in_flight[to].front();
        if let Some(frame) = first.filter(|frame| is_it(messages(frame)[0].0, &frame[PAYLOAD..])) {
            let frame = frame.clone();
            rack.cables[cable].in_flight[to].clear();
            return frame;
        }
        rack.step();
    }
    panic!("it never arrived");
}

fn is_control_message(kind: u8) -> impl Fn(Kind, &[u8]) -> bool {
    move |of, payload| of == Kind::ControlMessage && payload[0] == kind
}

fn is_pass(of: Kind, _: &[u8]) -> bool {
    of == Kind::Pass
}

#[test]
fn a_node_that_lies_about_channels_fails_alone() {
    type IsIt = Box<dyn Fn(Kind, &[u8]) -> bool>;
    type Forge = fn(&mut [u8]);
    let open = || Box::new(is_control_message(6)) as IsIt;
    let opened = || Box::new(is_control_message(7)) as IsIt;
    let pass = || Box::new(is_pass) as IsIt;
    // The change, and the sender of the frame: 0, which requests the path, or 2, towards which it
    // leads.
    let lies: [(&str, usize, IsIt, Forge); 14] = [
        ("open: taken", 0, open(), |note| note[2] = 0),
        ("open: no such number", 0, open(), |note| note[2] = 64),
        ("open: no hops", 0, open(), |note| note[1] = 0),
        ("open: to no node", 0, open(), |note| note[4..12].fill(0)),
        ("opened: another", 2, opened(), |note| note[2] ^= 1),
        ("opened: reserved", 2, opened(), |note| note[1] = 1),
        ("opened as open", 2, opened(), |note| note[0] = 6),
        ("open as close", 0, open(), |note| note[0] = 8),
        ("pass: another", 0, pass(), |pass| pass[0] = 9),
        ("pass: no such number", 0, pass(), |pass| pass[1] = 1),
        ("pass: not the opener", 0, pass(), |pass| pass[2] ^= 1),
        ("pass: reserved flag", 0, pass(), |pass| pass[2] |= 4),
        ("pass: reserved byte", 0, pass(), |pass| pass[3] = 1),
        ("pass back: another", 2, pass(), |pass| pass[0] ^= 1),
    ];
    for (what, liar, is_it, forge) in lies {
        // 1 has a path from 3 to itself, one of 0 to 2, and others that lead through it.
        let mut rack = rack(6, &[(0, 1), (1, 2), (1, 3), (3, 4), (1, 5)]);
        rack.start_exchange(4, 5, Mode::TwoPhase, b"before", 1);
        rack.start_exchange(0, 5, Mode::TwoPhase, b"before", 1);
        rack.settle();
        assert_eq!(rack.times(5, b"before"), 2);
        rack.start_exchange(0, 2, Mode::TwoPhase, b"x", 2);
        let (cable, to) = if liar == 0 { (0, 1) } else { (1, 0) };
        let mut frame = intercept(&mut rack, cable, to, is_it);
        forge(&mut frame[PAYLOAD..]);
        frame::seal(&mut frame);
        rack.inject(cable, to, &frame);
        assert_eq!(rack.downs(1), [DownReason::Violation], "{what}");
        // The path of others continues undisturbed.
        rack.start_exchange(4, 5, Mode::TwoPhase, b"after", 2);
        rack.settle();
        assert_eq!(rack.times(5, b"after"), 1, "{what}");
        assert_eq!(rack.downs(3), [], "{what}");
        assert_eq!(rack.downs(4), [], "{what}");
        rack.run(12);
        assert_eq!(
            rack.times(2, b"x"),
            1,
            "{what}: done once it speaks the truth"
        );
        assert_eq!(rack.times(5, b"before"), 2, "{what}");
        rack.idle();
        rack.assert_at_rest();
    }
}

/// A transit changes any byte that it forwards. The far end detects it, because the check is its
/// own.
#[test]
fn changes_by_a_transit_are_never_believed() {
    for byte in (4..68).step_by(5) {
        let mut rack = rack(3, &[(0, 1), (1, 2)]);
        rack.start_exchange(0, 2, Mode::OnePhase, b"warm", 0);
        rack.settle();
        rack.start_exchange(0, 2, Mode::OnePhase, b"true", 1);
        let mut frame = intercept(&mut rack, 1, 1, is_pass);
        // The second record begins with its own context.
        let at = if byte < 28 {
            PAYLOAD + byte
        } else {
            PAYLOAD + byte + 8 + 8
        };
        frame[at] ^= 0x10;
        frame::seal(&mut frame);
        rack.inject(1, 1, &frame);
        assert_eq!(rack.times(2, b"true"), 0, "{byte}");
        assert_eq!(rack.hosts[2].executed, 1, "{byte}");
        rack.settle();
        rack.run(12);
        assert_eq!(rack.times(2, b"true"), 1, "{byte}");
        assert_eq!(rack.hosts[0].completed, 2, "{byte}");
        rack.idle();
        rack.assert_at_rest();
    }
}

/// Arbitrary bytes in the control messages and frames of paths harm no other node, and leave
/// nothing reserved.
#[test]
fn random_lies_harm_no_other_node() {
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..120 {
        let mut rack = rack(5, &ring(5));
        for from in [0, 1, 3] {
            rack.start_exchange(from, (from + 2) % 5, Mode::TwoPhase, &[from as u8], 1);
        }
        for _ in 0..rng.usize(..60) {
            rack.step();
        }
        rack.send();
        let (cable, to) = (rng.usize(..5), rng.usize(..2));
        let Some(mut frame) = rack.cables[cable].in_flight[to].pop_front() else {
            continue;
        };
        if !matches!(messages(&frame)[0].0, Kind::ControlMessage | Kind::Pass) {
            continue;
        }
        for _ in 0..rng.usize(1..4) {
            frame[PAYLOAD + rng.usize(..24)] = rng.u8(..12);
        }
        frame::seal(&mut frame);
        rack.inject(cable, to, &frame);
        rack.settle();
        rack.run(30);
        for from in [0, 1, 3] {
            assert_eq!(rack.times((from + 2) % 5, &[from as u8]), 1, "{round}");
            assert_eq!(rack.hosts[from].completed, 1, "{round}");
        }
        rack.idle();
        rack.assert_at_rest();
    }
}
