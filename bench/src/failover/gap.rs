//! What one cut came to, from when each verb was posted and when it was done.

/// One verb, in nanoseconds of the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it was posted.
    pub posted_ns: u64,
    /// When its completion was seen.
    pub done_ns: u64,
}

/// From just before the cut on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// To the first completion of a verb that was kept waiting by the cut link; `None` if none can be told.
    pub first_ns: Option<u64>,
    /// The longest that any verb waited that was open when the link was cut, or was posted before it was sure to be cut.
    pub longest_ns: u64,
}

impl Gap {
    /// To the first completion over the other link; where that cannot be told, no less than to it from when the cable was dead.
    pub fn bound_ns(&self) -> u64 {
        self.first_ns.unwrap_or(self.longest_ns)
    }
}

/// What `spans` tell of a cut that was asked for at `asked_ns` and was sure to be at `sure_ns`.
///
/// A verb that completes after one that was posted later is overtaken. Both ends are first-in-first-out on each link, so the two went over
/// different links; and if the later one was posted when the cut was sure, it went over the link that was left. So the one that was overtaken
/// waited on the cut one. Which link a verb takes is nowhere told.
pub fn gap(spans: &[Span], asked_ns: u64, sure_ns: u64) -> Gap {
    let mut by_end: Vec<Span> = spans
        .iter()
        .copied()
        .filter(|span| span.done_ns >= asked_ns)
        .collect();
    by_end.sort_unstable_by_key(|span| span.done_ns);
    let (mut first, mut longest) = (None, 0);
    // The last one to be posted among those that were sure to go over the other link, and are done.
    let mut later_ns = 0;
    for together in by_end.chunk_by(|one, other| one.done_ns == other.done_ns) {
        for span in together {
            if span.posted_ns < later_ns {
                first.get_or_insert(span.done_ns - asked_ns);
            }
            if span.posted_ns <= sure_ns || span.posted_ns < later_ns {
                longest = longest.max(span.done_ns - span.posted_ns.max(asked_ns));
            }
        }
        let sure = together.iter().map(|span| span.posted_ns);
        later_ns = sure.filter(|&at| at > sure_ns).fold(later_ns, u64::max);
    }
    Gap {
        first_ns: first,
        longest_ns: longest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(times: &[(u64, u64)]) -> Vec<Span> {
        times
            .iter()
            .map(|&(posted_ns, done_ns)| Span { posted_ns, done_ns })
            .collect()
    }

    #[test]
    fn the_first_that_was_overtaken_ends_the_gap() {
        // Cut at 100, surely from 110 on. Posted at 90 and 105 on the cut link, at 95, 120 and 160 on the other.
        let times = [(90, 300), (105, 310), (95, 130), (120, 170), (160, 200)];
        let gap = gap(&spans(&times), 100, 110);
        assert_eq!((gap.first_ns, gap.longest_ns), (Some(200), 205));
        assert_eq!(gap.bound_ns(), 200);
    }

    #[test]
    fn whatever_waits_behind_the_call_that_cuts_is_only_bounded() {
        // All is over when the call returns at 500: what came later overtook nobody.
        let times = [(90, 300), (105, 310), (95, 130), (510, 530), (520, 540)];
        let gap = gap(&spans(&times), 100, 500);
        assert_eq!((gap.first_ns, gap.longest_ns), (None, 205));
        assert_eq!(gap.bound_ns(), 205);
    }

    #[test]
    fn one_that_is_done_in_the_same_look_overtakes_nobody() {
        let times = [(90, 300), (120, 300), (130, 301)];
        let gap = gap(&spans(&times), 100, 110);
        assert_eq!((gap.first_ns, gap.longest_ns), (None, 200));
    }

    #[test]
    fn what_was_done_before_the_cut_does_not_count() {
        let times = [(0, 99), (90, 105), (300, 10_000)];
        let gap = gap(&spans(&times), 100, 110);
        assert_eq!((gap.first_ns, gap.longest_ns), (None, 5));
    }
}
