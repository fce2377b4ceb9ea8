//! What was measured, for programs, and to make a table and a section of the page from.

use anyhow::Result;
use covalent_verbs::status::PortMode;
use serde::{Deserialize, Serialize};

use super::{goals::Verdict, table};
use crate::{host::Host, kept::Kept, summary::Summary, trips::Side};

/// A whole run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The suite.
    pub name: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Where.
    pub host: Host,
    /// How.
    pub setup: Setup,
    /// What each side took.
    pub sides: Vec<Figures>,
    /// What the figures come to.
    pub goals: Vec<Verdict>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Slices of each side.
    pub rounds: u32,
    /// Milliseconds of each.
    pub slice_ms: u64,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// Frames moved at a time at most.
    pub burst: u32,
    /// Bytes of each frame, without FCS.
    pub frame_bytes: usize,
    /// Frames that the asking end sent for one exchange in its lane, the ball of its link at rest included.
    pub frames_per_exchange: f64,
    /// Idle policy of the lanes.
    pub idle: String,
    /// The mode of the daemon's port as it read it back. All AF_XDP sockets are bound with the same flags to the same interfaces.
    pub mode: PortMode,
    /// The core of who asks: the client, or the asking lane.
    pub near_core: usize,
    /// The core of who answers.
    pub far_core: usize,
    /// The application's core, and that of the second thread that asks a bare client.
    pub application_core: usize,
    /// Whether that is the asking lane's core too.
    pub application_shares: bool,
    /// The daemons' command lines.
    pub daemons: Vec<Vec<String>>,
}

/// Whose round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideName {
    /// A bare AF_XDP client and a bare echo, which returns what it received.
    Bare,
    /// The same, neither of which reads a frame: only descriptors go round.
    BareUnread,
    /// A bare client that another thread asks.
    BareHandedOver,
    /// A compare-and-swap, asked for in the lane's thread and answered in one.
    Lane,
    /// The same, answered by covalentd.
    LaneToDaemon,
    /// A compare-and-swap that an application asks its daemon for.
    Application,
    /// The same in two phases: four messages.
    ApplicationTwoPhase,
    /// UDP, waited for asleep.
    Udp,
    /// UDP, waited for by calling again and again.
    UdpSpinning,
}

impl SideName {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Bare => "bare AF_XDP echo",
            Self::BareUnread => "bare AF_XDP echo, frames unread",
            Self::BareHandedOver => "bare echo, asked by a second thread",
            Self::Lane => "CAS in the lane's thread",
            Self::LaneToDaemon => "CAS in the lane's thread, to covalentd",
            Self::Application => "CAS of an application",
            Self::ApplicationTwoPhase => "CAS of an application, two phases",
            Self::Udp => "kernel UDP, asleep in recv",
            Self::UdpSpinning => "kernel UDP, spinning on recv",
        }
    }
}

/// What one side took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which.
    pub side: SideName,
    /// Medians of the slices, in microseconds.
    pub p50_us: Summary,
    /// Of all round trips, in microseconds.
    pub p99_us: f64,
    /// As above.
    pub p999_us: f64,
    /// As above.
    pub p9999_us: f64,
    /// As above.
    pub max_us: f64,
    /// How many there were.
    pub round_trips: u64,
    /// How many were not answered in time.
    pub lost: u64,
}

impl Figures {
    /// Those of `side`.
    pub fn of(name: SideName, side: &Side) -> Result<Self> {
        Ok(Self {
            side: name,
            p50_us: side.median_us()?,
            p99_us: side.quantile_us(0.99),
            p999_us: side.quantile_us(0.999),
            p9999_us: side.quantile_us(0.9999),
            max_us: side.max_us(),
            round_trips: side.round_trips(),
            lost: side.lost(),
        })
    }
}

impl Setup {
    /// Copy mode, page size and the rest of what the figures depend on, in words.
    pub fn words(&self) -> String {
        let mode = &self.mode;
        format!(
            "{} XDP, {}, need_wakeup {}, {} queue(s), pages of {} bytes, rings of {}, bursts of {}, lanes {}, frames of {} bytes",
            mode.xdp,
            if mode.zero_copy { "zero-copy" } else { "copy" },
            mode.need_wakeup,
            mode.queues,
            mode.page_bytes,
            self.ring_slots,
            self.burst,
            self.idle,
            self.frame_bytes
        )
    }

    /// What runs where, in words.
    pub fn core_words(&self) -> String {
        let application = if self.application_shares {
            format!(
                "an application (and the second thread) on core {} too, which it shares with its lane by yielding",
                self.application_core
            )
        } else {
            format!(
                "an application (and the second thread) on core {}, alone",
                self.application_core
            )
        };
        format!(
            "who asks (client, asking lane) on core {}, who answers on core {}; {application}",
            self.near_core, self.far_core
        )
    }
}

impl Kept for Results {
    const NAME: &'static str = "rtt";

    fn began_unix_ms(&self) -> u64 {
        self.began_unix_ms
    }

    fn table(&self) -> String {
        table::table(self)
    }
}

impl Results {
    /// What `side` took.
    pub fn figures(&self, side: SideName) -> Option<&Figures> {
        self.sides.iter().find(|figures| figures.side == side)
    }
}

#[cfg(test)]
pub mod example {
    use super::*;

    /// A run in which the goals of the lane are met and those of the application are not.
    pub fn results() -> Results {
        let side = |side, p50: f64| Figures {
            side,
            p50_us: Summary::of(vec![p50, p50 * 0.9, p50 * 1.5]).expect("figures"),
            p99_us: p50 * 2.0,
            p999_us: p50 * 3.0,
            p9999_us: p50 * 4.0,
            max_us: p50 * 100.0,
            round_trips: 1000,
            lost: 0,
        };
        let mut results = Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 1,
            host: Host::look(),
            setup: Setup {
                rounds: 3,
                slice_ms: 100,
                ring_slots: 2048,
                burst: 64,
                frame_bytes: 78,
                frames_per_exchange: 1.0,
                idle: "poll".to_owned(),
                mode: PortMode {
                    xdp: "native".to_owned(),
                    zero_copy: false,
                    need_wakeup: true,
                    page_bytes: 4096,
                    queues: 1,
                },
                near_core: 0,
                far_core: 1,
                application_core: 0,
                application_shares: true,
                daemons: vec![vec!["covalentd".to_owned(), "--config".to_owned()]],
            },
            sides: vec![
                side(SideName::Bare, 4.0),
                side(SideName::Lane, 4.8),
                side(SideName::LaneToDaemon, 5.0),
                side(SideName::Udp, 20.0),
                side(SideName::UdpSpinning, 12.0),
                side(SideName::BareHandedOver, 6.0),
                side(SideName::Application, 11.0),
                side(SideName::ApplicationTwoPhase, 16.0),
            ],
            goals: Vec::new(),
        };
        results.goals = super::super::goals::judge(&results);
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_back_and_the_last_of_several() {
        let place = tempfile::tempdir().expect("a directory");
        let mut results = example::results();
        assert_eq!(
            Results::last_beside(place.path()).expect("no problem"),
            None
        );
        results.write_to(place.path()).expect("written");
        results.began_unix_ms = 2;
        results.write_to(place.path()).expect("written");
        let read = Results::last_beside(place.path())
            .expect("readable")
            .expect("there");
        assert_eq!((read.began_unix_ms, &read.setup), (2, &results.setup));
        // The last digit of a fraction may change on its way through text.
        let medians = |results: &Results| -> Vec<(SideName, f64)> {
            let median = |figures: &Figures| (figures.side, figures.p50_us.median);
            results.sides.iter().map(median).collect()
        };
        assert_eq!(medians(&read), medians(&results));
        assert_eq!(read.goals.len(), results.goals.len());
        assert!(!results.line().expect("JSON").contains('\n'));
    }

    #[test]
    fn mode_pages_poll_and_shared_cores_are_told() {
        let setup = example::results().setup;
        for words in ["copy", "pages of 4096 bytes", "lanes poll", "78 bytes"] {
            assert!(setup.words().contains(words), "{}", setup.words());
        }
        assert!(setup.core_words().contains("shares with its lane"));
        let alone = Setup {
            application_shares: false,
            application_core: 2,
            ..setup
        };
        assert!(alone.core_words().contains("on core 2, alone"));
    }
}
