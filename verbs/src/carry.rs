//! What becomes of verbs when the daemon that they were posted to has ended: which are posted again, and how often.

use crate::verb::VerbId;

/// Times that a verb is posted again in one life of the daemon because it was given back, with pauses that grow to a millisecond. A lane that ends gives back once and takes nothing any more, so
/// who is told so often is told by somebody who stays.
const GIVEN_BACK_MAX: u32 = 16;

/// Posts again what lay in the queue of a daemon that ended, by `post`, which says whether there was room: the numbers of what waits now. Where a daemon that was killed was with it nobody
/// knows, so of that nothing is posted.
pub(crate) fn post_again<'a>(
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

/// How often a verb was given back for want of room, which is what a daemon that ends does with what it never sent.
#[derive(Debug, Default)]
pub(crate) struct GivenBack {
    life: u32,
    times: u32,
}

impl GivenBack {
    /// It was once more, in life number `life`. Whether the end of the daemon may be the reason: else there is no room, and whoever posted the verb is told.
    pub(crate) const fn may_be_an_end(&mut self, life: u32) -> bool {
        if life != self.life {
            *self = Self { life, times: 0 };
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

    /// Numbers that wait, and those that were put into a queue with room for `room`.
    fn posted(in_order: bool, room: usize) -> (Vec<u64>, Vec<Vec<u8>>) {
        let lay_there = [3, 1, 2].map(submission);
        let mut put = Vec::new();
        let waiting = post_again(
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
    fn after_an_end_in_order_everything_is_posted_again_in_its_order() {
        let (waiting, put) = posted(true, 3);
        assert_eq!(waiting, [1, 2, 3]);
        assert_eq!(put, [3, 1, 2].map(|number| submission(number).to_vec()));
        let (waiting, _) = posted(true, 2);
        assert_eq!(waiting, [1, 3], "what found no room does not wait");
    }

    #[test]
    fn after_a_kill_nothing_is_posted_again() {
        assert_eq!(posted(false, 3), (vec![], vec![]));
    }

    #[test]
    fn who_is_given_back_again_and_again_by_one_daemon_is_told_in_the_end() {
        let mut given_back = GivenBack::default();
        for life in [0, 1, 0] {
            for _ in 0..GIVEN_BACK_MAX {
                assert!(given_back.may_be_an_end(life));
            }
            assert!(!given_back.may_be_an_end(life));
        }
    }
}
