//! Whose frame the device threw away.
//!
//! The kernel's `sendto` answers `EBUSY` when the device dropped a frame, and stops there; it does not say which. Frames leave in the order in
//! which they were put into the ring, so the place is known from how far the kernel came. It shows how far only when a frame of the same call
//! was sent (`__xsk_generic_xmit` in the kernel's `net/xdp/xsk.c`), so drops that it has not shown are counted here.

/// Which of the frames on their way out are the link's.
#[derive(Debug)]
pub(super) struct TransmitOrder {
    /// By number of the frame, around and around: longer than frames can be on their way.
    link: Box<[bool]>,
    staged: usize,
    submitted: usize,
    /// Frames that the kernel dropped and still shows as unsent.
    unshown: usize,
}

impl TransmitOrder {
    /// For at most `frames` on their way at a time.
    pub(super) fn new(frames: usize) -> Self {
        Self {
            link: vec![false; frames.max(1)].into_boxed_slice(),
            staged: 0,
            submitted: 0,
            unshown: 0,
        }
    }

    /// One more frame, behind all others.
    pub(super) fn stage(&mut self, link: bool) {
        let at = self.staged % self.link.len();
        self.link[at] = link;
        self.staged = (self.staged + 1) % (2 * self.link.len());
    }

    /// `count` more of the staged frames are in the ring.
    pub(super) fn submit(&mut self, count: usize) {
        self.submitted = (self.submitted + count) % (2 * self.link.len());
    }

    /// A doorbell dropped nothing.
    pub(super) fn went_on(&mut self, unsent_before: usize, unsent: usize) {
        if unsent != unsent_before {
            self.unshown = 0;
        }
    }

    /// A doorbell ended with a dropped frame: whether that was the link's. `unsent_before` and `unsent` frames were in the ring before and
    /// after it.
    pub(super) fn dropped(&mut self, unsent_before: usize, unsent: usize) -> bool {
        let first_unsent = self.submitted + 2 * self.link.len() - unsent;
        let at = if unsent == unsent_before {
            self.unshown += 1;
            first_unsent + self.unshown - 1
        } else {
            self.unshown = 0;
            first_unsent - 1
        };
        self.link[at % self.link.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight frames, of which number 2 and 5 are the link's, all in the ring.
    fn eight() -> TransmitOrder {
        let mut order = TransmitOrder::new(8);
        for number in 0..8 {
            order.stage(number == 2 || number == 5);
        }
        order.submit(8);
        order
    }

    #[test]
    fn a_drop_behind_sent_frames_is_the_last_one_shown() {
        // 0 and 1 were sent, 2 dropped; then 3 and 4 sent, 5 dropped; then 6 dropped behind nothing, 7 sent.
        let mut order = eight();
        assert!(order.dropped(8, 5));
        assert!(order.dropped(5, 2));
        assert!(!order.dropped(2, 2));
    }

    #[test]
    fn drops_in_a_row_are_not_shown_and_counted() {
        let mut order = eight();
        assert!(!order.dropped(8, 8));
        assert!(!order.dropped(8, 8));
        assert!(order.dropped(8, 8), "number 2");
        // 3 and 4 are sent: the kernel shows all five.
        order.went_on(8, 3);
        assert!(order.dropped(3, 3), "number 5");
    }

    #[test]
    fn numbers_go_round() {
        let mut order = TransmitOrder::new(3);
        for round in 0..100 {
            order.stage(round % 2 == 0);
            order.submit(1);
            assert_eq!(order.dropped(1, 0), round % 2 == 0, "{round}");
        }
    }
}
