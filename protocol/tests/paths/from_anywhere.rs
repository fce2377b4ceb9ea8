//! Whatever the registers of channels and path ends hold, later requests come to their end, and
//! nothing stays reserved.

use covalent_protocol::Mode;

use crate::{
    far::{LINE_OF_4, rack, ring},
    rack::Ended,
};

/// Ticks after which all drawn state is gone. A message that never comes is awaited for 16 of them,
/// twice the ticks of silence twice. A link that fails because of it comes up again within a few.
const TICKS: usize = 30;

#[test]
fn paths_find_back_from_anywhere() {
    for (nodes, cables, to) in [
        (4, LINE_OF_4.to_vec(), 3),
        (5, ring(5), 2),
        (3, vec![(0, 1), (1, 2)], 2),
    ] {
        for seed in 0..120_u64 {
            let what = format!("{nodes} nodes, seed {seed}");
            let mut rack = rack(nodes, &cables);
            rack.start_exchange(0, to, Mode::OnePhase, b"before", 0);
            (0..seed % 12).for_each(|_| {
                rack.step();
            });
            rack.is_sound = false;
            for at in 0..nodes {
                if (seed >> (at % 3)) & 1 == 0 {
                    rack.nodes[at].scramble_paths(seed * 64 + at as u64);
                }
            }
            rack.run(TICKS);
            rack.is_sound = true;
            rack.start_exchange(0, to, Mode::TwoPhase, b"after", 1);
            rack.start_exchange(to, 0, Mode::OnePhase, b"back", 2);
            rack.run(TICKS);
            assert_eq!(
                rack.end(0, 1),
                Some(&Ended::Committed(b"after".to_vec())),
                "{what}"
            );
            assert_eq!(
                rack.end(to, 2),
                Some(&Ended::Committed(b"back".to_vec())),
                "{what}"
            );
            assert_eq!(rack.times(to, b"after"), 1, "{what}");
            rack.idle();
            rack.assert_at_rest();
        }
    }
}
