//! Handling of verbs after their daemon stopped: which ones are posted again, and how often.

use crate::verb::VerbId;

/// Times that a given-back verb is posted again to one daemon incarnation, with pauses that grow to
/// a millisecond. A stopping lane gives back once and takes nothing more, so repeated refusals come
/// from a daemon that continues to run.
const GIVEN_BACK_MAX: u32 = 16;

/// Posts again the verbs in the queue of a stopped daemon. `post` returns whether there was room.
/// Returns the numbers of the verbs that wait now. The progress of a killed daemon is unknown, so
/// none of its verbs is posted again.
pub(crate) fn repost<'a>(
    in_order: bool,
    unsent: impl Iterator<Item = &'a [u8]>,
    mut post: impl FnMut(&[u8]) -> bool,
) -> Vec<VerbId> {
    let mut waiting = Vec::new();
    if in_order {
        for message in unsent {
            // Every submission begins with the number of its verb.
            if let Some(number) = message.first_chunk()
                && post(message)
            {
                waiting.push(VerbId::from_number(u64::from_le_bytes(*number)));
            }
        }
    }
    waiting.sort_unstable();
    waiting
}

/// How often a verb was given back for lack of room. A stopping daemon gives back the verbs that it
/// never sent.
#[derive(Debug, Default)]
pub(crate) struct GivenBack {
    generation: u32,
    times: u32,
}

impl GivenBack {
    /// Counts one more time, in incarnation `generation`. Returns whether a stopping daemon may be
    /// the reason. If not, there is no room, and the poster of the verb receives the refusal.
    pub(crate) const fn may_be_an_end(&mut self, generation: u32) -> bool {
        if generation != self.generation {
            *self = Self {
                generation,
                times: 0,
            };
        }
        self.times += 1;
        self.times <= GIVEN_BACK_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(number: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// Returns the numbers that wait, and the submissions that were put into a queue with room for
    /// `room`.
    fn posted(in_order: bool, room: usize) -> (Vec<u64>, Vec<Vec<u8>>) {
        let lay_there = [3, 1, 2].map(submission);
        let mut put = Vec::new();
        let waiting = repost(
            in_order,
            lay_there.iter().map(<[u8; 16]>::as_slice),
            |message| {
                let has_room = put.len() < room;
                if has_room {
                    put.push(message.to_vec());
                }
                has_room
            },
        );
        (waiting.iter().map(|id| id.number()).collect(), put)
    }

    #[test]
    fn all_verbs_are_reposted_in_order_after_a_graceful_stop() {
        let (waiting, put) = posted(true, 3);
        assert_eq!(waiting, [1, 2, 3]);
        assert_eq!(put, [3, 1, 2].map(|number| submission(number).to_vec()));
        let (waiting, _) = posted(true, 2);
        assert_eq!(waiting, [1, 3], "a submission without room does not wait");
    }

    #[test]
    fn no_verb_is_reposted_after_a_kill() {
        assert_eq!(posted(false, 3), (vec![], vec![]));
    }

    #[test]
    fn a_verb_given_back_too_often_by_one_daemon_is_refused() {
        let mut given_back = GivenBack::default();
        for generation in [0, 1, 0] {
            for _ in 0..GIVEN_BACK_MAX {
                assert!(given_back.may_be_an_end(generation));
            }
            assert!(!given_back.may_be_an_end(generation));
        }
    }
}
