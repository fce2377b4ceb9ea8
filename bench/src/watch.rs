//! Other activity on the machine during a measurement: the load of other processes, steal time, and
//! the core frequencies.
//!
//! The load of other processes is the busy time of all cores, minus the time of this process and
//! its descendants. Interrupts are reported separately: most of them are the measurement's own
//! frames, and the kernel charges them to no process.

use std::{
    collections::{HashMap, HashSet},
    fs,
    time::Instant,
};

use anyhow::{Context, Result};
use procfs::{CurrentSI, KernelStats};
use serde::{Deserialize, Serialize};

/// Cores' worth of others' load, or of time taken away, from which on a machine counts as busy.
const BUSY_CORES: f64 = 0.05;

/// How much of its highest frequency the lowest may be before the cores count as throttled.
const STEADY_FREQUENCY: f64 = 0.95;

/// The observations.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// For how long, in seconds.
    pub seconds: f64,
    /// How many cores' worth of time other processes took.
    pub others_cores: f64,
    /// How many went into interrupts, the measurement's own frames included.
    pub interrupts_cores: f64,
    /// How many the machine's host took away (steal).
    pub steal_cores: f64,
    /// Lowest frequency of a core at the start and the end, in MHz. Null if the system does not
    /// report it.
    pub least_mhz: Option<f64>,
    /// Highest, as above.
    pub most_mhz: Option<f64>,
}

impl Watched {
    /// Why the figures are not to be trusted, in words; `None` if nothing was in the way.
    pub fn trouble(&self) -> Option<String> {
        let mut found = Vec::new();
        if self.others_cores > BUSY_CORES {
            found.push(format!(
                "other processes took {:.2} cores",
                self.others_cores
            ));
        }
        if self.steal_cores > BUSY_CORES {
            found.push(format!("its host took away {:.2} cores", self.steal_cores));
        }
        if let (Some(least), Some(most)) = (self.least_mhz, self.most_mhz)
            && least < most * STEADY_FREQUENCY
        {
            found.push(format!("cores ran at {least:.0} to {most:.0} MHz"));
        }
        (!found.is_empty()).then(|| found.join(", "))
    }

    /// In words.
    pub fn words(&self) -> String {
        let frequency = match (self.least_mhz, self.most_mhz) {
            (Some(least), Some(most)) => format!("{least:.0}–{most:.0} MHz"),
            _ => "frequency unknown".to_owned(),
        };
        format!(
            "{}others {:.2} cores, interrupts {:.2}, steal {:.2}, {frequency}",
            if self.trouble().is_some() {
                "THE MACHINE WAS BUSY: "
            } else {
                ""
            },
            self.others_cores,
            self.interrupts_cores,
            self.steal_cores
        )
    }

    /// Combines two observations: the worst of each value, over the time of both.
    pub fn and(&self, other: &Self) -> Self {
        let least =
            |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::min);
        let most =
            |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
        Self {
            seconds: self.seconds + other.seconds,
            others_cores: self.others_cores.max(other.others_cores),
            interrupts_cores: self.interrupts_cores.max(other.interrupts_cores),
            steal_cores: self.steal_cores.max(other.steal_cores),
            least_mhz: least(self.least_mhz, other.least_mhz),
            most_mhz: most(self.most_mhz, other.most_mhz),
        }
    }
}

/// Watches the machine from when it was made.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    before: Times,
    mhz: Vec<f64>,
}

impl Watch {
    /// Begins.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn begin() -> Result<Self> {
        Ok(Self {
            began: Instant::now(),
            before: Times::now()?,
            mhz: frequencies_mhz(),
        })
    }

    /// Returns the observations since the start.
    ///
    /// # Errors
    /// As in [`Watch::begin`].
    pub fn end(self) -> Result<Watched> {
        let mut mhz = self.mhz;
        mhz.extend(frequencies_mhz());
        Ok(watched(
            &self.before,
            &Times::now()?,
            self.began.elapsed().as_secs_f64(),
            &mhz,
        ))
    }
}

/// Times since the machine started, in ticks of the kernel's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    /// All processes, in their own code and in the kernel.
    processes: u64,
    interrupts: u64,
    steal: u64,
    /// This process and its descendants, those included that have ended.
    own: u64,
}

impl Times {
    fn now() -> Result<Self> {
        let total = KernelStats::current().context("reading /proc/stat")?.total;
        Ok(Self {
            processes: total.user + total.nice + total.system,
            interrupts: total.irq.unwrap_or(0) + total.softirq.unwrap_or(0),
            steal: total.steal.unwrap_or(0),
            own: own_ticks()?,
        })
    }
}

fn watched(before: &Times, after: &Times, seconds: f64, mhz: &[f64]) -> Watched {
    let ticks = procfs::ticks_per_second() as f64 * seconds.max(f64::MIN_POSITIVE);
    let grown = |time: fn(&Times) -> u64| time(after).saturating_sub(time(before));
    let others = grown(|times| times.processes).saturating_sub(grown(|times| times.own));
    Watched {
        seconds,
        others_cores: others as f64 / ticks,
        interrupts_cores: grown(|times| times.interrupts) as f64 / ticks,
        steal_cores: grown(|times| times.steal) as f64 / ticks,
        least_mhz: mhz.iter().copied().reduce(f64::min),
        most_mhz: mhz.iter().copied().reduce(f64::max),
    }
}

/// One process, as far as it matters here.
#[derive(Debug, Clone, Copy)]
struct Taken {
    parent: i32,
    /// Its own time, and that of its reaped children.
    ticks: u64,
}

/// Returns the CPU time of this process and its descendants so far.
fn own_ticks() -> Result<u64> {
    let mut all = HashMap::new();
    for process in procfs::process::all_processes().context("reading /proc")? {
        // One may end while it is being looked at.
        let Ok(stat) = process.and_then(|process| process.stat()) else {
            continue;
        };
        let ended = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        let taken = Taken {
            parent: stat.ppid,
            ticks: stat.utime + stat.stime + ended,
        };
        all.insert(stat.pid, taken);
    }
    Ok(family(&all, i32::try_from(std::process::id())?))
}

/// Returns the total of `root` and all its descendants.
fn family(all: &HashMap<i32, Taken>, root: i32) -> u64 {
    let mut known = HashSet::from([root]);
    loop {
        let found: Vec<i32> = all
            .iter()
            .filter(|(pid, taken)| known.contains(&taken.parent) && !known.contains(pid))
            .map(|(&pid, _)| pid)
            .collect();
        if found.is_empty() {
            break;
        }
        known.extend(found);
    }
    known
        .iter()
        .filter_map(|pid| Some(all.get(pid)?.ticks))
        .sum()
}

/// Returns the frequency of each core that reports one.
fn frequencies_mhz() -> Vec<f64> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    cores
        .into_iter()
        .filter_map(|core| {
            let path = format!(
                "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq",
                core.id
            );
            let khz: f64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
            Some(khz / 1e3)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ticks(seconds: f64) -> u64 {
        (seconds * procfs::ticks_per_second() as f64) as u64
    }

    #[test]
    fn foreign_load_is_attributed_to_others() {
        let before = Times::default();
        let after = Times {
            processes: ticks(3.0),
            interrupts: ticks(0.5),
            steal: ticks(0.2),
            own: ticks(2.0),
        };
        let seen = watched(&before, &after, 2.0, &[2000.0, 2500.0]);
        assert_eq!(
            (seen.others_cores, seen.interrupts_cores, seen.steal_cores),
            (0.5, 0.25, 0.1)
        );
        let words = seen.words();
        for part in ["THE MACHINE WAS BUSY: others 0.50 cores", "2000–2500 MHz"] {
            assert!(words.contains(part), "{words}");
        }
        let trouble = seen.trouble().expect("three reasons");
        assert!(
            trouble.contains("0.50 cores")
                && trouble.contains("0.10 cores")
                && trouble.contains("2000 to 2500 MHz"),
            "{trouble}"
        );
    }

    #[test]
    fn an_idle_machine_causes_no_warning() {
        let times = Times {
            processes: ticks(2.0),
            interrupts: 0,
            steal: 0,
            own: ticks(2.0),
        };
        let seen = watched(&Times::default(), &times, 1.0, &[]);
        assert_eq!(seen.trouble(), None);
        assert!(
            seen.words().ends_with("frequency unknown"),
            "{}",
            seen.words()
        );
        // Clocks of processes and of the machine are not read at the same moment.
        let before = Times {
            own: ticks(1.0),
            ..Times::default()
        };
        assert_eq!(
            watched(&before, &Times::default(), 1.0, &[]).others_cores,
            0.0
        );
    }

    #[test]
    fn the_worse_of_two_is_reported() {
        let seen = |others_cores, least_mhz| Watched {
            seconds: 1.0,
            others_cores,
            interrupts_cores: 0.0,
            steal_cores: 0.0,
            least_mhz,
            most_mhz: least_mhz,
        };
        let both = seen(0.1, Some(2000.0)).and(&seen(0.3, None));
        assert_eq!(
            (both.seconds, both.others_cores, both.least_mhz),
            (2.0, 0.3, Some(2000.0))
        );
    }

    #[test]
    fn descendants_are_our_own_and_other_processes_are_not() {
        let taken = |parent, ticks| Taken { parent, ticks };
        let all = HashMap::from([
            (1, taken(0, 1000)),
            (5, taken(1, 10)),
            (6, taken(5, 20)),
            (7, taken(6, 40)),
            (8, taken(1, 80)),
        ]);
        assert_eq!(family(&all, 5), 70);
        assert_eq!(family(&all, 8), 80);
    }

    #[test]
    fn our_own_work_is_not_others() {
        let before = own_ticks().expect("readable");
        let watch = Watch::begin().expect("readable");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let seen = watch.end().expect("readable");
        assert!(own_ticks().expect("readable") > before);
        assert!(seen.seconds >= 0.2, "{seen:?}");
    }
}
