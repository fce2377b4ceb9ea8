//! Crash tests: kills `init` and `fini` at every step, on a machine on which every setting must
//! change.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    rc::Rc,
};

use anyhow::{Result, bail};
use covalent_api::control::Channels;
use covalent_config::Config;

use super::{
    facts::{Facts, Interrupt, Memlock, Pool},
    fini::{Undone, fini},
    init::{init, inspect_all},
    plan::{Report, State, exit_status},
    record::{FileLedger, Ledger, Line, held},
    setting::{ABSENT, Act, Setting},
    show::Notice,
    stage::Stage,
    stages::{inspect, samples},
    world::World,
};
use crate::nic::{Nic, Rings};

/// A configuration for which every stage has work to do.
const WISHES: &str = "[[lane]]\ncore = 2\n[configure]\nmtu = \"auto\"\n";

/// The settings of a machine.
type Settings = Vec<(Setting, String)>;

fn channels() -> Setting {
    Setting::Channels {
        interface: "eth1".into(),
        index: 2,
    }
}

fn rings() -> Setting {
    Setting::Rings {
        interface: "eth1".into(),
        index: 2,
    }
}

fn mtu() -> Setting {
    Setting::Mtu {
        interface: "eth1".into(),
        index: 2,
    }
}

fn offload(feature: &str) -> Setting {
    Setting::Offload {
        interface: "eth1".into(),
        index: 2,
        feature: feature.into(),
    }
}

fn drop_in() -> Setting {
    Setting::DropIn {
        path: "/run/systemd/system/covalentd.service.d/50-covalent-configure.conf".into(),
    }
}

/// The settings of a machine before `init`.
fn before() -> Settings {
    [
        (Setting::HugePages, "3"),
        (channels(), "combined 8"),
        (rings(), "rx 512 tx 512"),
        (offload("rx-vlan-hw-parse"), "on"),
        (offload("rx-lro"), "on"),
        (offload("rx-gro-hw"), "off"),
        (Setting::Interrupt { irq: 40 }, "0-3"),
        (Setting::Interrupt { irq: 41 }, "1"),
        (Setting::Interrupt { irq: 99 }, "3"),
        (drop_in(), ABSENT),
        (mtu(), "9000"),
    ]
    .map(|(setting, value)| (setting, value.to_owned()))
    .into()
}

/// Number of steps left until the process is killed.
#[derive(Debug, Clone)]
struct Lifetime(Rc<Cell<usize>>);

impl Lifetime {
    fn of(moments: usize) -> Self {
        Self(Rc::new(Cell::new(moments)))
    }

    const UNLIMITED: usize = usize::MAX;

    /// Consumes a step. Returns whether the process survives it.
    fn moment(&self) -> bool {
        let left = self.0.get();
        if left != Self::UNLIMITED {
            self.0.set(left.saturating_sub(1));
        }
        left > 0
    }
}

/// A machine that executes the printed commands.
#[derive(Clone)]
struct Fake {
    settings: Rc<RefCell<Settings>>,
    lifetime: Lifetime,
}

impl Fake {
    fn of(settings: &Rc<RefCell<Settings>>, moments: usize) -> Self {
        Self {
            settings: Rc::clone(settings),
            lifetime: Lifetime::of(moments),
        }
    }

    fn value(&self, setting: &Setting) -> String {
        let settings = self.settings.borrow();
        let found = settings.iter().find(|(known, _)| known == setting);
        found.map(|(_, value)| value.clone()).expect("it is known")
    }

    fn put(&self, setting: &Setting, value: &str) {
        let mut settings = self.settings.borrow_mut();
        let found = settings.iter_mut().find(|(known, _)| known == setting);
        found.expect("it is known").1 = value.to_owned();
    }
}

/// Returns the effect of a command, parsed as its program would.
fn meaning(act: &Act) -> Option<(Setting, String)> {
    let number = |part: &str| part.parse().expect("a number");
    Some(match act {
        Act::Run(words) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["ethtool", "-L", "eth1", value @ ..] => (channels(), value.join(" ")),
                ["ethtool", "-G", "eth1", value @ ..] => (rings(), value.join(" ")),
                ["ethtool", "-K", "eth1", feature, value] => (offload(feature), (*value).into()),
                ["ip", "link", "set", "dev", "eth1", "mtu", value] => (mtu(), (*value).into()),
                ["systemctl", "daemon-reload"] => return None,
                other => panic!("no stage runs {other:?}"),
            }
        }
        Act::Write { path, text } => {
            let path = path.to_str().expect("UTF-8");
            let setting = match path.strip_prefix("/proc/irq/") {
                Some(rest) => Setting::Interrupt {
                    irq: number(rest.trim_end_matches("/smp_affinity_list")),
                },
                None if path.ends_with("/nr_hugepages") => Setting::HugePages,
                None => drop_in(),
            };
            (setting, text.clone())
        }
        Act::Remove(_) => (drop_in(), ABSENT.into()),
        Act::MakeDirectory(_) | Act::RemoveEmpty(_) => return None,
    })
}

impl World for Fake {
    fn now(&self, setting: &Setting) -> Result<Option<String>> {
        if self.lifetime.0.get() == 0 {
            bail!("killed");
        }
        Ok(Some(self.value(setting)))
    }

    fn act(&mut self, act: &Act) -> Result<()> {
        if !self.lifetime.moment() {
            bail!("killed before `{act}`");
        }
        let Some((setting, value)) = meaning(act) else {
            return Ok(());
        };
        let before = self.value(&setting);
        assert_ne!(before, value, "{setting} is touched without a need");
        if setting == Setting::HugePages && !self.lifetime.moment() {
            // They come one by one.
            let number = |text: &str| text.parse::<u64>().expect("a number");
            self.put(
                &setting,
                &((number(&before) + number(&value)) / 2).to_string(),
            );
            bail!("killed in `{act}`");
        }
        self.put(&setting, &value);
        if !self.lifetime.moment() {
            bail!("killed behind `{act}`");
        }
        Ok(())
    }
}

/// A record whose writer is killed.
struct Torn {
    ledger: FileLedger,
    lifetime: Lifetime,
}

impl Ledger for Torn {
    fn lines(&self) -> &[Line] {
        self.ledger.lines()
    }

    fn add_line(&mut self, line: Line) -> Result<()> {
        if !self.lifetime.moment() {
            bail!("killed before {line:?}");
        }
        if !self.lifetime.moment() {
            let text = std::fs::read_to_string(self.ledger.path()).unwrap_or_default();
            let line = serde_json::to_string(&line)?;
            std::fs::write(
                self.ledger.path(),
                format!("{text}{}", &line[..line.len() / 2]),
            )?;
            bail!("killed in {line}");
        }
        self.ledger.add_line(line)?;
        if !self.lifetime.moment() {
            bail!("killed behind a line");
        }
        Ok(())
    }

    fn forget(&mut self) -> Result<()> {
        if !self.lifetime.moment() {
            bail!("killed before the end");
        }
        self.ledger.forget()
    }
}

/// Returns the facts that the stages see on this machine.
fn facts(fake: &Fake) -> Facts {
    let value = |setting: &Setting| fake.value(setting);
    let words = |setting: &Setting| -> Vec<u32> {
        let text = value(setting);
        let words = text.split(' ').filter_map(|word| word.parse().ok());
        words.collect()
    };
    let pages: u64 = value(&Setting::HugePages).parse().expect("a number");
    let mut facts = samples::facts();
    facts.cores = (0..4).collect();
    facts.huge_pages = Some(Pool {
        reserved: pages,
        free: pages,
    });
    facts.memlock = Memlock::Unit(match value(&drop_in()).as_str() {
        ABSENT => Some(8 << 20),
        _ => None,
    });
    samples::set_queues(&mut facts, 2);
    let named = &mut facts.interfaces[0];
    named.found.as_mut().expect("it is there").mtu_bytes = words(&mtu())[0];
    let ring = words(&rings());
    let on = |feature: &&str| value(&offload(feature)) == "on";
    let owned = |names: Vec<&str>| Some(names.into_iter().map(str::to_owned).collect());
    let all = vec!["rx-vlan-hw-parse", "rx-lro", "rx-gro-hw"];
    named.nic = Nic {
        channels: Some(Channels {
            combined: words(&channels())[0],
            combined_max: 16,
            ..Channels::default()
        }),
        rings: Some(Rings {
            rx: ring[0],
            tx: ring[1],
            rx_max: 4096,
            tx_max: 4096,
        }),
        features: owned(all.iter().copied().filter(on).collect()),
        changeable: owned(all),
    };
    named.interrupts = [40, 41]
        .map(|irq| Interrupt {
            irq,
            queue: irq - 40,
            cores: value(&Setting::Interrupt { irq }).parse().expect("a list"),
        })
        .into();
    facts
}

fn config() -> Config {
    samples::config(WISHES)
}

fn reports(fake: &Fake) -> Vec<Report> {
    let config = config();
    let facts = facts(fake);
    let mut of = |stage| Ok(inspect(stage, &config, &facts));
    inspect_all(&Stage::ALL, &mut of).expect("it can be looked at")
}

/// The messages that the command printed.
type Notices = Vec<Notice>;

/// Runs `init` as a process that is killed after `moments` steps.
fn run_init(
    place: &Path,
    settings: &Rc<RefCell<Settings>>,
    moments: usize,
) -> (Result<()>, Notices) {
    let mut fake = Fake::of(settings, moments);
    let mut torn = Torn {
        ledger: FileLedger::open(place, "boot").expect("a record or none"),
        lifetime: fake.lifetime.clone(),
    };
    let mut notices = Vec::new();
    let seen = fake.clone();
    let config = config();
    let outcome = init(
        &Stage::ALL,
        &mut |stage| Ok(inspect(stage, &config, &facts(&seen))),
        &mut fake,
        &mut torn,
        &mut |notice| {
            notices.push(notice);
            Ok(())
        },
    );
    (outcome, notices)
}

fn run_fini(
    place: &Path,
    settings: &Rc<RefCell<Settings>>,
    stages: &[Stage],
    moments: usize,
) -> (Result<Undone>, Notices) {
    let mut fake = Fake::of(settings, moments);
    let mut torn = Torn {
        ledger: FileLedger::open(place, "boot").expect("a record or none"),
        lifetime: fake.lifetime.clone(),
    };
    let mut notices = Vec::new();
    let outcome = fini(stages, false, &mut fake, &mut torn, &mut |notice| {
        notices.push(notice);
        Ok(())
    });
    (outcome, notices)
}

fn machine() -> (tempfile::TempDir, Rc<RefCell<Settings>>) {
    let place = tempfile::tempdir().expect("a directory");
    (place, Rc::new(RefCell::new(before())))
}

/// Nothing is recorded any more.
fn is_forgotten(place: &Path) -> bool {
    !place.join(super::record::FILE).exists()
}

#[test]
fn every_stage_has_steps_and_none_after_init() {
    let (place, settings) = machine();
    let alive = Fake::of(&settings, Lifetime::UNLIMITED);
    for stage in Stage::ALL {
        let of = |report: &&Report| report.stage == stage && !report.steps.is_empty();
        let reports = reports(&alive);
        assert!(reports.iter().any(|report| of(&report)), "{stage}");
    }
    let (outcome, notices) = run_init(place.path(), &settings, Lifetime::UNLIMITED);
    outcome.expect("it goes through");
    assert_eq!(notices.len(), 9, "{notices:?}");
    assert_eq!(exit_status(&reports(&alive)), 0);
    let recorded = std::fs::read(place.path().join(super::record::FILE)).expect("there");
    // Twice is as good as once.
    let (outcome, notices) = run_init(place.path(), &settings, Lifetime::UNLIMITED);
    outcome.expect("it goes through");
    assert_eq!(notices, []);
    let recorded_again = std::fs::read(place.path().join(super::record::FILE)).expect("there");
    assert_eq!(recorded, recorded_again);
    let (outcome, notices) = run_fini(place.path(), &settings, &Stage::ALL, Lifetime::UNLIMITED);
    assert_eq!(outcome.expect("it goes through").restored, 9);
    assert_eq!(*settings.borrow(), before());
    assert!(is_forgotten(place.path()));
    // The last one first.
    let order: Vec<Stage> = notices.iter().map(|notice| notice.stage).collect();
    assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
}

#[test]
fn a_killed_init_is_undone_wherever_it_was_killed() {
    let mut killed = 0;
    for moments in 0.. {
        let (place, settings) = machine();
        let (outcome, _) = run_init(place.path(), &settings, moments);
        let went = outcome.is_ok();
        let (outcome, notices) =
            run_fini(place.path(), &settings, &Stage::ALL, Lifetime::UNLIMITED);
        let undone = outcome.expect("it is not killed");
        assert_eq!(
            (undone.left, undone.failed),
            (0, 0),
            "{moments}: {notices:?}"
        );
        assert_eq!(*settings.borrow(), before(), "killed at {moments}");
        assert!(is_forgotten(place.path()), "killed at {moments}");
        if went {
            break;
        }
        killed += 1;
    }
    // Three moments for each of two lines of nine steps, and more than one for each act.
    assert!(killed > 70, "{killed}");
}

#[test]
fn the_next_init_completes_a_killed_one_and_keeps_its_record() {
    for moments in 0.. {
        let (place, settings) = machine();
        let (outcome, _) = run_init(place.path(), &settings, moments);
        let went = outcome.is_ok();
        run_init(place.path(), &settings, Lifetime::UNLIMITED)
            .0
            .expect("it is not killed");
        let alive = Fake::of(&settings, Lifetime::UNLIMITED);
        assert_eq!(exit_status(&reports(&alive)), 0, "killed at {moments}");
        run_fini(place.path(), &settings, &Stage::ALL, Lifetime::UNLIMITED)
            .0
            .expect("it is not killed");
        assert_eq!(*settings.borrow(), before(), "killed at {moments}");
        if went {
            break;
        }
    }
}

#[test]
fn a_fini_that_was_killed_is_completed_by_the_next() {
    for moments in 0.. {
        let (place, settings) = machine();
        run_init(place.path(), &settings, Lifetime::UNLIMITED)
            .0
            .expect("it is not killed");
        let (outcome, _) = run_fini(place.path(), &settings, &Stage::ALL, moments);
        let went = outcome.is_ok();
        let (outcome, _) = run_fini(place.path(), &settings, &Stage::ALL, Lifetime::UNLIMITED);
        let undone = outcome.expect("it is not killed");
        assert_eq!((undone.left, undone.failed), (0, 0), "killed at {moments}");
        assert_eq!(*settings.borrow(), before(), "killed at {moments}");
        assert!(is_forgotten(place.path()), "killed at {moments}");
        if went {
            break;
        }
    }
}

#[test]
fn a_foreign_change_is_reported_and_kept() {
    let (place, settings) = machine();
    run_init(place.path(), &settings, Lifetime::UNLIMITED)
        .0
        .expect("it is not killed");
    let alive = Fake::of(&settings, Lifetime::UNLIMITED);
    alive.put(&channels(), "combined 5");
    alive.put(&Setting::HugePages, "77");
    // Another program set the original value again, so this setting counts as undone.
    alive.put(&offload("rx-lro"), "on");
    let (outcome, notices) = run_fini(place.path(), &settings, &Stage::ALL, Lifetime::UNLIMITED);
    assert_eq!(outcome.expect("it goes through").left, 2);
    for (setting, now) in [(channels(), "combined 5"), (Setting::HugePages, "77")] {
        assert_eq!(alive.value(&setting), now);
        let word = format!("{setting}: it was changed to {now}");
        assert!(
            notices.iter().any(|notice| notice.text.contains(&word)),
            "{notices:?}"
        );
    }
    let mut wanted = before();
    wanted[0].1 = "77".into();
    wanted[1].1 = "combined 5".into();
    assert_eq!(*settings.borrow(), wanted);
    assert!(is_forgotten(place.path()));
}

#[test]
fn some_stages_are_undone_and_the_others_stay_recorded() {
    let (place, settings) = machine();
    run_init(place.path(), &settings, Lifetime::UNLIMITED)
        .0
        .expect("it is not killed");
    let some = [Stage::Offloads, Stage::Irq];
    run_fini(place.path(), &settings, &some, Lifetime::UNLIMITED)
        .0
        .expect("it is not killed");
    let alive = Fake::of(&settings, Lifetime::UNLIMITED);
    assert_eq!(alive.value(&offload("rx-lro")), "on");
    assert_eq!(alive.value(&Setting::Interrupt { irq: 40 }), "0-3");
    assert_eq!(alive.value(&channels()), "combined 2");
    let ledger = FileLedger::open(place.path(), "boot").expect("a record");
    assert!(
        held(ledger.lines())
            .iter()
            .all(|held| !some.contains(&held.stage))
    );
    run_fini(place.path(), &settings, &Stage::ALL, Lifetime::UNLIMITED)
        .0
        .expect("it is not killed");
    assert_eq!(*settings.borrow(), before());
}

#[test]
fn init_stops_at_an_impossible_stage_and_earlier_changes_stay() {
    let (place, settings) = machine();
    let mut fake = Fake::of(&settings, Lifetime::UNLIMITED);
    let mut ledger = FileLedger::open(place.path(), "boot").expect("none");
    let config = config();
    let seen = fake.clone();
    let error = init(
        &Stage::ALL,
        &mut |stage| {
            let mut reports = inspect(stage, &config, &facts(&seen));
            if stage == Stage::Rings {
                reports = vec![Report::cannot(stage, "eth1", "broken", "mend it")];
            }
            Ok(reports)
        },
        &mut fake,
        &mut ledger,
        &mut |_| Ok(()),
    )
    .expect_err("the rings cannot");
    assert!(error.to_string().contains("broken"), "{error:#}");
    assert_eq!(held(ledger.lines()).len(), 2, "pages and channels");
    assert!(
        reports(&seen)
            .iter()
            .any(|it| it.state == State::NotAsWanted)
    );
}
