//! The measured results. Other programs read them, and a table is made from them.

use std::fmt::Write as _;

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use crate::{cell, host::Host, kept::Kept};

/// Largest share of a core, in percent.
const CPU_PERCENT_MAX: f64 = 2.0;

/// Largest resident memory, in MiB.
const RESIDENT_MIB_MAX: f64 = 100.0;

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
    /// Both daemons.
    pub daemons: Vec<IdleUsage>,
    /// How much of the tighter limit the worse one took: less than 1 is met.
    pub ratio: f64,
    /// Whether the goal is met.
    pub met: bool,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// For how long they rested.
    pub seconds: f64,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// Idle policy of the lanes.
    pub idle: String,
    /// The mode of a port as it was read back.
    pub mode: PortMode,
    /// The daemons' command lines.
    pub commands: Vec<Vec<String>>,
}

/// The consumption of one daemon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IdleUsage {
    /// Of one core.
    pub cpu_percent: f64,
    /// Of memory.
    pub resident_mib: f64,
}

impl IdleUsage {
    /// How much of the tighter limit it took.
    pub fn share(self) -> f64 {
        (self.cpu_percent / CPU_PERCENT_MAX).max(self.resident_mib / RESIDENT_MIB_MAX)
    }
}

impl Kept for Results {
    const NAME: &'static str = "idle";

    fn began_unix_ms(&self) -> u64 {
        self.began_unix_ms
    }

    fn table(&self) -> String {
        let mut out = format!(
            "idle: a daemon at rest takes less than {CPU_PERCENT_MAX} % of a core and \
             {RESIDENT_MIB_MAX} MiB\n"
        );
        // Writing to a string cannot fail.
        for usage in &self.daemons {
            let _ = writeln!(
                out,
                "  {:>8.2} % of a core, {:>6.1} MiB resident",
                usage.cpu_percent, usage.resident_mib
            );
        }
        let Setup {
            seconds,
            ring_slots,
            idle,
            mode,
            ..
        } = &self.setup;
        let _ = writeln!(
            out,
            "  {}: {:.2} of the tighter limit\n  \
             lanes {idle}, not pinned, {seconds:.1} s; {}, rings of {ring_slots}\n  \
             {}",
            cell::met(self.met),
            self.ratio,
            cell::mode(mode),
            self.host.words()
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 7,
            host: Host::observed(),
            setup: Setup {
                seconds: 3.0,
                ring_slots: 2048,
                idle: "adaptive".to_owned(),
                mode: PortMode {
                    xdp: "native".to_owned(),
                    zero_copy: false,
                    need_wakeup: true,
                    page_bytes: 4096,
                    queues: 2,
                },
                commands: Vec::new(),
            },
            daemons: vec![IdleUsage {
                cpu_percent: 3.0,
                resident_mib: 20.0,
            }],
            ratio: 1.5,
            met: false,
        }
    }

    #[test]
    fn the_tighter_limit_decides() {
        let share = |cpu_percent, resident_mib| {
            IdleUsage {
                cpu_percent,
                resident_mib,
            }
            .share()
        };
        assert_eq!(share(1.0, 10.0), 0.5);
        assert_eq!(share(0.1, 90.0), 0.9);
    }

    #[test]
    fn people_see_the_verdict_and_programs_the_same() {
        let table = results().table();
        assert!(
            table.contains("3.00 % of a core") && table.contains("NOT MET: 1.50 of the tighter"),
            "{table}"
        );
        let place = tempfile::tempdir().expect("a directory");
        let folder = place.path().join("a/b");
        let path = results().write_to(&folder).expect("written");
        assert_eq!(path, folder.join("idle-7.json"));
        let read = Results::last_beside(&folder).expect("read").expect("there");
        assert_eq!(read, results());
        assert!(!read.line().expect("JSON").contains('\n'));
    }
}
