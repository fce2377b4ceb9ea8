//! Pipes against other systems on one machine: the same work per packet or message, between two
//! processes on the same two cores.
//!
//! ```text
//!   near: the daemon's core                    far: the application's core
//!   buffers ─► copied into shared memory ════► a byte of each is touched
//!   checked ◄══════════════════════════════════ sent back
//! ```
//! All contestants take turns, case by case and round by round, so that other activity on the
//! machine affects all alike. The suite compares medians, and only within one run.

pub mod case;
mod contestant;
pub mod goals;
mod huge_pages;
pub mod mark;
mod page;
mod pair;
mod part;
mod peers;
mod plot;
mod progress;
pub mod results;
mod role;
pub mod session;
mod source;
mod sweeps;
mod table;
mod tally;
mod testpmd;

use std::{fs, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    against::{self, Candidate},
    arguments::{Pages, Streams},
    cores::Cores,
    host::Host,
    kept::now_unix_ms,
    repeats::Repeats,
    report::{Description, Entry, Suite},
    stop::{self, Stopped},
    summary::Summary,
    watch::Watch,
};
use case::{Case, Test};
use contestant::{Contestant, Ours, Outcome};
use part::{Side, session_slots};
pub use progress::Progress;
use results::{Figure, Setup};
use sweeps::Sweeps;
use testpmd::{Join, TestpmdPair};

// Shared with other measurements.
pub use case::Size;
pub use huge_pages::HugePages;
pub use mark::{FONT, MARKS};
pub use page::contestants;
pub use pair::Company;
pub use part::{Means, Part};
pub use peers::{described, near::NearEnd};
pub use plot::{Drawn, steps_around, tick};
pub use results::{Results, Run};
pub use role::play;
pub use source::Mix;
pub use testpmd::{PROGRAM as TESTPMD, Testpmd, version as testpmd_version};

/// Time before counting, for caches, branch predictors and, with some systems, the connection
/// setup. Figures of a debug build are meaningless.
const WARM_UP: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 100 });

const PACKETS: &[Test] = &[Test::Echo, Test::OneWay, Test::RoundTrip];
const MESSAGES: &[Test] = &[Test::Stream, Test::StreamUnbatched, Test::RoundTrip];
/// No unbatched stream: each message is sent separately, many in flight, and the library batches
/// them itself.
const PACKETS_AND_STREAMS: &[Test] = &[Test::Echo, Test::OneWay, Test::Stream, Test::RoundTrip];
const EVERYTHING: &[Test] = &[
    Test::Echo,
    Test::OneWay,
    Test::Stream,
    Test::StreamUnbatched,
    Test::RoundTrip,
];

/// Measures; whether every goal that could be measured is met.
pub fn measure(options: &Streams) -> Result<bool> {
    let cases = case::cases(options);
    ensure!(
        options.pages == Pages::Small || options.ring_kib >= 2048,
        "a ring of {} KiB has no pages of 2 MiB: give --pages small, or a larger --ring-kib",
        options.ring_kib
    );
    let cores = Cores::choose()?;
    let (host, watch) = (Host::observed(), Watch::begin()?);
    let began_unix_ms = now_unix_ms();
    let company = Company::gather()?;
    let mix = Mix::load(options.captures.as_deref())?;
    let mix_file = company.folder().join("mix");
    role::write_frames(&mix_file, &mix)?;
    let slice = Duration::from_millis(options.slice_ms);
    let huge_pages = options.pages == Pages::Huge;
    let part = Part {
        means: Means::Pipe,
        side: Side::Near,
        // Each contestant puts its own in.
        case: cases.first().copied().unwrap_or(Case {
            test: Test::OneWay,
            size: Size::Bytes(64),
        }),
        core: Some(cores.near),
        warm_up: WARM_UP,
        slice,
        ring_bytes: options.ring_kib << 10,
        huge_pages,
        mix: mix_file,
        folder: company.folder().to_owned(),
        note: String::new(),
    };
    let setup = setup(options, cores, &mix);
    let windows = [WARM_UP, slice];
    let pair = |join| {
        let cores = [cores.near, cores.far];
        Box::new(TestpmdPair::new(
            join,
            cores,
            company.folder(),
            windows,
            &mix,
        )) as Box<dyn Contestant>
    };
    let mut all = ours(&company, &part, cores.far, &setup);
    all.extend([Join::Memif, Join::MemifZeroCopy, Join::Vhost].map(pair));
    let candidates: Vec<Candidate> = all
        .iter()
        .map(|contestant| Candidate {
            name: contestant.name(),
            is_ours: [goals::OURS, goals::OURS_ALONE].contains(&contestant.name()),
        })
        .collect();
    let names = against::chosen(&options.against.against, Run::NAME, &candidates)?;
    let sweeps = Sweeps::requested(options, &names);
    ensure!(
        !cases.is_empty() || sweeps.any(),
        "none of the tests has such a size"
    );
    all.retain(|contestant| names.contains(&contestant.name()));
    if cases.is_empty() {
        all.clear();
    }
    let mut field = Field::new(all, &cases, huge_pages.then_some(part.ring_bytes * 4));
    let rounds = field.play(&cases, options.repeats)?;
    let setup = Setup { rounds, ..setup };
    let mut run = field.run(setup);
    (run.loads, run.counts) = sweeps.measure(&company, &part, cores.far, options.repeats.least)?;
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&options.output)
}

/// Returns the contestants whose processes run this program.
fn ours<'a>(
    company: &'a Company,
    part: &'a Part,
    far_core: usize,
    setup: &Setup,
) -> Vec<Box<dyn Contestant + 'a>> {
    let contestant = |name, means, tests, description| {
        Box::new(Ours {
            name,
            means,
            tests,
            description,
            company,
            part,
            far_core,
        }) as Box<dyn Contestant>
    };
    let description_of = |what: &str, version: &str, tuning: &str| {
        Ok(Description {
            what: what.to_owned(),
            version: version.to_owned(),
            tuning: tuning.to_owned(),
            commands: Vec::new(),
        })
    };
    let ring = format!(
        "ring of {} KiB in pages of {} bytes, bursts of {}",
        setup.ring_kib,
        setup.page_bytes,
        peers::BURST
    );
    let pipe =
        format!("{ring}; of streams at least three batches, walked over with LengthPrefixed");
    let kernel = format!("Linux {}", Host::observed().kernel);
    let version = concat!("covalent-bench ", env!("CARGO_PKG_VERSION"));
    vec![
        contestant(
            goals::LIMIT,
            Means::Ring,
            PACKETS,
            description_of(
                "a bare ring in which packets begin at multiples of 64 bytes (quanta), and nothing \
                 else: the machine's limit",
                version,
                &ring,
            ),
        ),
        contestant(
            goals::OURS,
            Means::Pipe,
            EVERYTHING,
            description_of(
                "Covalent's pipes with the notifications and doorbells of a session, as covalentd \
                 and its applications have them: an RX/TX pipe for echo \
                 and round trip, an RX pipe for one way, a pipe of bytes for streams",
                version,
                &pipe,
            ),
        ),
        contestant(
            goals::OURS_ALONE,
            Means::PipeAlone,
            EVERYTHING,
            description_of(
                "the same pipes without a session: both ends poll the pipe, without notifications \
                 and doorbells",
                version,
                &pipe,
            ),
        ),
        contestant(
            "iceoryx2",
            Means::Iceoryx,
            PACKETS,
            peers::described(Means::Iceoryx),
        ),
        contestant(
            "aeron",
            Means::Aeron,
            PACKETS,
            peers::described(Means::Aeron),
        ),
        contestant(
            "ucx",
            Means::Ucx,
            PACKETS_AND_STREAMS,
            peers::described(Means::Ucx),
        ),
        contestant(
            "libfabric",
            Means::Libfabric,
            PACKETS_AND_STREAMS,
            peers::described(Means::Libfabric),
        ),
        contestant(
            "unix",
            Means::Unix,
            MESSAGES,
            peers::socket_tuning(Means::Unix)
                .and_then(|tuning| description_of("Unix stream socket", &kernel, &tuning)),
        ),
        contestant(
            "tcp",
            Means::Tcp,
            MESSAGES,
            peers::socket_tuning(Means::Tcp).and_then(|tuning| {
                description_of("TCP over the loopback interface", &kernel, &tuning)
            }),
        ),
    ]
}

fn setup(options: &Streams, cores: Cores, mix: &Mix) -> Setup {
    let read = |path: &str| {
        fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let governor = format!(
        "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor",
        cores.near
    );
    Setup {
        rounds: options.repeats.least,
        spread_max: options.repeats.spread_max,
        slice_ms: options.slice_ms,
        warm_up_ms: u64::try_from(WARM_UP.as_millis()).unwrap_or(u64::MAX),
        daemon_core: cores.near,
        application_core: cores.far,
        ring_kib: options.ring_kib,
        page_bytes: match options.pages {
            Pages::Small => 4096,
            Pages::Huge => 2 << 20,
        },
        session_slots: Some(session_slots(1)),
        governor: read(&governor),
        transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
            .unwrap_or_default(),
        mix: mix.origin.clone(),
        mix_mean_bytes: mix.mean_bytes(),
    }
}

/// The contestants and their results.
struct Field<'a> {
    players: Vec<Player<'a>>,
    // Given back when the run is over, however it ends.
    _huge_pages: Option<HugePages>,
}

struct Player<'a> {
    contestant: Box<dyn Contestant + 'a>,
    entry: Entry,
    outcomes: Vec<(Case, Outcome)>,
}

impl<'a> Field<'a> {
    /// Prepares all contestants. DPDK needs huge pages, and so do pipes in huge pages: `ring_bytes`
    /// of them.
    fn new(all: Vec<Box<dyn Contestant + 'a>>, cases: &[Case], ring_bytes: Option<u64>) -> Self {
        let needed = all
            .iter()
            .filter(|contestant| is_dpdk(contestant.name()))
            .filter(|contestant| cases.iter().any(|case| contestant.takes(*case)))
            .count() as u64
            * testpmd::HUGE_PAGES
            + ring_bytes.map_or(0, |bytes| bytes.div_ceil(2 << 20));
        let huge_pages = (needed > 0).then(|| HugePages::reserve(needed));
        let players = all
            .into_iter()
            .map(|mut contestant| {
                let name = contestant.name();
                let prepared = match &huge_pages {
                    Some(Err(problem)) if is_dpdk(name) => Err(anyhow::anyhow!("{problem:#}")),
                    _ => contestant.prepare(),
                };
                let (description, absent) = match prepared {
                    Ok(description) => (description, None),
                    Err(problem) => (Description::default(), Some(format!("{problem:#}"))),
                };
                Player {
                    contestant,
                    entry: Entry {
                        name: name.to_owned(),
                        description,
                        absent,
                        failures: Vec::new(),
                    },
                    outcomes: Vec::new(),
                }
            })
            .collect();
        Self {
            players,
            _huge_pages: huge_pages.and_then(Result::ok),
        }
    }

    /// Runs all rounds of all cases and returns their number. Without cases, returns the number of
    /// rounds for the sweeps.
    fn play(&mut self, cases: &[Case], repeats: Repeats) -> Result<u32> {
        if cases.is_empty() {
            return Ok(repeats.least);
        }
        let turns = self
            .present()
            .map(|player| {
                cases
                    .iter()
                    .filter(|case| player.contestant.takes(**case))
                    .count()
            })
            .sum::<usize>() as u64;
        let progress = Progress::new(turns * u64::from(repeats.least));
        let mut round = 0;
        while repeats.continues(round, self.medians().iter()) {
            round += 1;
            if round > repeats.least {
                progress.more(turns);
            }
            for &case in cases {
                for player in self
                    .present()
                    .filter(|player| player.contestant.takes(case))
                {
                    progress.step(&format!("round {round}: {}, {case}", player.entry.name));
                    stop::check()?;
                    match player.contestant.run(case) {
                        Ok(outcome) => player.outcomes.push((case, outcome)),
                        Err(problem) if problem.is::<Stopped>() => return Err(problem),
                        Err(problem) => {
                            player.contestant.pause();
                            player.entry.failures.push(format!("{case}: {problem:#}"));
                        }
                    }
                }
            }
            self.present().for_each(|player| player.contestant.pause());
        }
        progress.done();
        Ok(round)
    }

    /// The median of each in each case.
    fn medians(&self) -> Vec<Summary> {
        self.players
            .iter()
            .flat_map(|player| figures(&player.entry.name, &player.outcomes))
            .map(|figure| figure.figure)
            .collect()
    }

    fn present(&mut self) -> impl Iterator<Item = &mut Player<'a>> {
        self.players
            .iter_mut()
            .filter(|player| player.entry.absent.is_none())
    }

    fn run(self, setup: Setup) -> Run {
        let mut run = Run {
            setup,
            contestants: Vec::new(),
            figures: Vec::new(),
            loads: None,
            counts: None,
        };
        for player in self.players {
            run.figures
                .extend(figures(&player.entry.name, &player.outcomes));
            run.contestants.push(player.entry);
        }
        run
    }
}

fn is_dpdk(name: &str) -> bool {
    name.starts_with("dpdk-memif") || name == "dpdk-vhost"
}

/// Outcomes put together by case.
fn figures(contestant: &str, outcomes: &[(Case, Outcome)]) -> Vec<Figure> {
    let mut cases: Vec<Case> = outcomes.iter().map(|(case, _)| *case).collect();
    cases.sort_unstable();
    cases.dedup();
    cases
        .into_iter()
        .filter_map(|case| {
            let of = |field: fn(&Outcome) -> f64| {
                Summary::of(
                    outcomes
                        .iter()
                        .filter(|(its, _)| *its == case)
                        .map(|(_, outcome)| field(outcome))
                        .collect(),
                )
            };
            Some(Figure {
                contestant: contestant.to_owned(),
                case,
                unit: case.test.unit().to_owned(),
                figure: of(|outcome| outcome.figure)?,
                daemon_cores: of(|outcome| outcome.daemon_cores)?.median,
                application_cores: of(|outcome| outcome.application_cores)?.median,
                other_cores: of(|outcome| outcome.other_cores)?.median,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_put_together_by_case() {
        let case = |bytes| Case {
            test: Test::Echo,
            size: Size::Bytes(bytes),
        };
        let outcome = |figure| Outcome {
            figure,
            daemon_cores: figure / 10.0,
            application_cores: 1.0,
            other_cores: 0.0,
        };
        let outcomes = [
            (case(128), outcome(3.0)),
            (case(64), outcome(9.0)),
            (case(64), outcome(5.0)),
            (case(64), outcome(7.0)),
        ];
        let figures = figures("covalent-pipe", &outcomes);
        assert_eq!(figures.len(), 2);
        assert_eq!(figures[0].case, case(64));
        assert_eq!(
            (
                figures[0].figure.min,
                figures[0].figure.median,
                figures[0].figure.max
            ),
            (5.0, 7.0, 9.0)
        );
        assert_eq!(
            (figures[0].daemon_cores, figures[1].figure.median),
            (0.7, 3.0)
        );
    }
}
