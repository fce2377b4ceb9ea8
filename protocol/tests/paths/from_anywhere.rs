//! Whatever the registers of channels and of ends of paths hold, what is asked for afterwards comes to its end, and nothing stays reserved.

use covalent_protocol::Mode;

use crate::{
    far::{LINE_OF_4, rack, ring},
    rack::Ended,
};

/// Paces in which everything that was drawn is gone: a word that never comes is waited for for 16 of them, twice the paces of silence twice, and
/// what fails for that comes up again in a few.
const PACES: usize = 30;

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
            rack.ask(0, to, Mode::OnePhase, b"before", 0);
            (0..seed % 12).for_each(|_| {
                rack.step();
            });
            rack.is_sound = false;
            for at in 0..nodes {
                if (seed >> (at % 3)) & 1 == 0 {
                    rack.nodes[at].scramble_paths(seed * 64 + at as u64);
                }
            }
            rack.run(PACES);
            rack.is_sound = true;
            rack.ask(0, to, Mode::TwoPhase, b"after", 1);
            rack.ask(to, 0, Mode::OnePhase, b"back", 2);
            rack.run(PACES);
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
