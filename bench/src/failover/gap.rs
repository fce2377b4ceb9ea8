//! The outcome of one cut, computed from the times at which each verb was posted and completed.

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
    /// Time to the first completion of a verb that waited on the cut link. `None` if it cannot be
    /// determined.
    pub first_ns: Option<u64>,
    /// The longest wait of any verb that was open at the cut, or was posted before the cut was
    /// certain.
    pub longest_ns: u64,
}

impl Gap {
    /// Time to the first completion over the other link. If it cannot be determined, the longest
    /// wait, which is not less than the time from the moment the link was dead.
    pub fn bound_ns(&self) -> u64 {
        self.first_ns.unwrap_or(self.longest_ns)
    }
}

/// Analyzes `spans` around a cut that was requested at `requested_ns` and was certain at `sure_ns`.
///
/// A verb is overtaken if it completes after a verb that was posted later. Both ends are
/// first-in-first-out on each link, so the two verbs took different links. If the later one was
/// posted when the cut was certain, it used the remaining link. The overtaken verb therefore waited
/// on the cut link. No interface reports which link a verb takes.
pub fn gap(spans: &[Span], requested_ns: u64, sure_ns: u64) -> Gap {
    let mut by_end: Vec<Span> = spans
        .iter()
        .copied()
        .filter(|span| span.done_ns >= requested_ns)
        .collect();
    by_end.sort_unstable_by_key(|span| span.done_ns);
    let (mut first, mut longest) = (None, 0);
    // The last one to be posted among those that were sure to go over the other link, and are done.
    let mut later_ns = 0;
    for together in by_end.chunk_by(|one, other| one.done_ns == other.done_ns) {
        for span in together {
            if span.posted_ns < later_ns {
                first.get_or_insert(span.done_ns - requested_ns);
            }
            if span.posted_ns <= sure_ns || span.posted_ns < later_ns {
                longest = longest.max(span.done_ns - span.posted_ns.max(requested_ns));
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
        // Cut requested at 100, certain at 110. Posted on the cut link at 90 and 105, on the other
        // link at 95, 120 and 160.
        let times = [(90, 300), (105, 310), (95, 130), (120, 170), (160, 200)];
        let gap = gap(&spans(&times), 100, 110);
        assert_eq!((gap.first_ns, gap.longest_ns), (Some(200), 205));
        assert_eq!(gap.bound_ns(), 200);
    }

    #[test]
    fn a_gap_hidden_by_a_slow_cut_is_only_bounded() {
        // All verbs are done when the call returns at 500. Later verbs overtake none of them.
        let times = [(90, 300), (105, 310), (95, 130), (510, 530), (520, 540)];
        let gap = gap(&spans(&times), 100, 500);
        assert_eq!((gap.first_ns, gap.longest_ns), (None, 205));
        assert_eq!(gap.bound_ns(), 205);
    }

    #[test]
    fn verbs_completed_in_the_same_poll_overtake_none() {
        let times = [(90, 300), (120, 300), (130, 301)];
        let gap = gap(&spans(&times), 100, 110);
        assert_eq!((gap.first_ns, gap.longest_ns), (None, 200));
    }

    #[test]
    fn verbs_completed_before_the_cut_do_not_count() {
        let times = [(0, 99), (90, 105), (300, 10_000)];
        let gap = gap(&spans(&times), 100, 110);
        assert_eq!((gap.first_ns, gap.longest_ns), (None, 5));
    }
}
