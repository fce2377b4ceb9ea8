//! Commands that are killed: at every moment of `init` and of `fini`, on a machine of which every setting is to be changed.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    rc::Rc,
};

use anyhow::{Result, bail};
use covalent_api::{config::Config, control::Channels};

use super::{
    facts::{Facts, Interrupt, Memlock, Pool},
    fini::{Undone, fini},
    init::{init, look_at_all},
    plan::{Report, State, exit_status},
    record::{FileLedger, Ledger, Line, held},
    setting::{ABSENT, Act, Setting},
    show::Told,
    stage::Stage,
    stages::{look, samples},
    world::World,
};
use crate::nic::{Nic, Rings};

/// What every stage has something to do for.
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

/// A machine as somebody left it.
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

/// What kills: so many moments are left.
#[derive(Debug, Clone)]
struct Life(Rc<Cell<usize>>);

impl Life {
    fn of(moments: usize) -> Self {
        Self(Rc::new(Cell::new(moments)))
    }

    const FOR_EVER: usize = usize::MAX;

    /// Whether it goes on beyond this moment.
    fn moment(&self) -> bool {
        let left = self.0.get();
        if left != Self::FOR_EVER {
            self.0.set(left.saturating_sub(1));
        }
        left > 0
    }
}

/// A machine that does what the printed commands say.
#[derive(Clone)]
struct Fake {
    settings: Rc<RefCell<Settings>>,
    life: Life,
}

impl Fake {
    fn of(settings: &Rc<RefCell<Settings>>, moments: usize) -> Self {
        Self {
            settings: Rc::clone(settings),
            life: Life::of(moments),
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

/// What a command does: it is taken apart as its program would.
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
                other => panic!("who would run {other:?}?"),
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
        if self.life.0.get() == 0 {
            bail!("killed");
        }
        Ok(Some(self.value(setting)))
    }

    fn act(&mut self, act: &Act) -> Result<()> {
        if !self.life.moment() {
            bail!("killed before `{act}`");
        }
        let Some((setting, value)) = meaning(act) else {
            return Ok(());
        };
        let before = self.value(&setting);
        assert_ne!(before, value, "{setting} is touched without a need");
        if setting == Setting::HugePages && !self.life.moment() {
            // They come one by one.
            let number = |text: &str| text.parse::<u64>().expect("a number");
            self.put(
                &setting,
                &((number(&before) + number(&value)) / 2).to_string(),
            );
            bail!("killed in `{act}`");
        }
        self.put(&setting, &value);
        if !self.life.moment() {
            bail!("killed behind `{act}`");
        }
        Ok(())
    }
}

/// A record whose writer dies.
struct Torn {
    ledger: FileLedger,
    life: Life,
}

impl Ledger for Torn {
    fn lines(&self) -> &[Line] {
        self.ledger.lines()
    }

    fn note(&mut self, line: Line) -> Result<()> {
        if !self.life.moment() {
            bail!("killed before {line:?}");
        }
        if !self.life.moment() {
            let text = std::fs::read_to_string(self.ledger.path()).unwrap_or_default();
            let line = serde_json::to_string(&line)?;
            std::fs::write(
                self.ledger.path(),
                format!("{text}{}", &line[..line.len() / 2]),
            )?;
            bail!("killed in {line}");
        }
        self.ledger.note(line)?;
        if !self.life.moment() {
            bail!("killed behind a line");
        }
        Ok(())
    }

    fn forget(&mut self) -> Result<()> {
        if !self.life.moment() {
            bail!("killed before the end");
        }
        self.ledger.forget()
    }
}

/// What the stages see of it.
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
    let mut of = |stage| Ok(look(stage, &config, &facts));
    look_at_all(&Stage::ALL, &mut of).expect("it can be looked at")
}

/// What the command was heard to say.
type Heard = Vec<Told>;

/// Runs `init` as a process that lives for so many moments.
fn run_init(place: &Path, settings: &Rc<RefCell<Settings>>, moments: usize) -> (Result<()>, Heard) {
    let mut fake = Fake::of(settings, moments);
    let mut torn = Torn {
        ledger: FileLedger::open(place, "boot").expect("a record or none"),
        life: fake.life.clone(),
    };
    let mut heard = Vec::new();
    let seen = fake.clone();
    let config = config();
    let outcome = init(
        &Stage::ALL,
        &mut |stage| Ok(look(stage, &config, &facts(&seen))),
        &mut fake,
        &mut torn,
        &mut |told| {
            heard.push(told);
            Ok(())
        },
    );
    (outcome, heard)
}

fn run_fini(
    place: &Path,
    settings: &Rc<RefCell<Settings>>,
    stages: &[Stage],
    moments: usize,
) -> (Result<Undone>, Heard) {
    let mut fake = Fake::of(settings, moments);
    let mut torn = Torn {
        ledger: FileLedger::open(place, "boot").expect("a record or none"),
        life: fake.life.clone(),
    };
    let mut heard = Vec::new();
    let outcome = fini(stages, false, &mut fake, &mut torn, &mut |told| {
        heard.push(told);
        Ok(())
    });
    (outcome, heard)
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
fn every_stage_has_something_to_do_and_then_nothing() {
    let (place, settings) = machine();
    let alive = Fake::of(&settings, Life::FOR_EVER);
    for stage in Stage::ALL {
        let of = |report: &&Report| report.stage == stage && !report.steps.is_empty();
        let reports = reports(&alive);
        assert!(reports.iter().any(|report| of(&report)), "{stage}");
    }
    let (outcome, heard) = run_init(place.path(), &settings, Life::FOR_EVER);
    outcome.expect("it goes through");
    assert_eq!(heard.len(), 9, "{heard:?}");
    assert_eq!(exit_status(&reports(&alive)), 0);
    let recorded = std::fs::read(place.path().join(super::record::FILE)).expect("there");
    // Twice is as good as once.
    let (outcome, heard) = run_init(place.path(), &settings, Life::FOR_EVER);
    outcome.expect("it goes through");
    assert_eq!(heard, []);
    let again = std::fs::read(place.path().join(super::record::FILE)).expect("there");
    assert_eq!(recorded, again);
    let (outcome, heard) = run_fini(place.path(), &settings, &Stage::ALL, Life::FOR_EVER);
    assert_eq!(outcome.expect("it goes through").restored, 9);
    assert_eq!(*settings.borrow(), before());
    assert!(is_forgotten(place.path()));
    // The last one first.
    let order: Vec<Stage> = heard.iter().map(|told| told.stage).collect();
    assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
}

#[test]
fn what_init_was_killed_in_is_undone_wherever_that_was() {
    let mut killed = 0;
    for moments in 0.. {
        let (place, settings) = machine();
        let (outcome, _) = run_init(place.path(), &settings, moments);
        let went = outcome.is_ok();
        let (outcome, heard) = run_fini(place.path(), &settings, &Stage::ALL, Life::FOR_EVER);
        let undone = outcome.expect("nobody kills it");
        assert_eq!((undone.left, undone.failed), (0, 0), "{moments}: {heard:?}");
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
fn an_init_that_was_killed_is_completed_by_the_next_and_the_first_record_stays() {
    for moments in 0.. {
        let (place, settings) = machine();
        let (outcome, _) = run_init(place.path(), &settings, moments);
        let went = outcome.is_ok();
        run_init(place.path(), &settings, Life::FOR_EVER)
            .0
            .expect("nobody kills it");
        let alive = Fake::of(&settings, Life::FOR_EVER);
        assert_eq!(exit_status(&reports(&alive)), 0, "killed at {moments}");
        run_fini(place.path(), &settings, &Stage::ALL, Life::FOR_EVER)
            .0
            .expect("nobody kills it");
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
        run_init(place.path(), &settings, Life::FOR_EVER)
            .0
            .expect("nobody kills it");
        let (outcome, _) = run_fini(place.path(), &settings, &Stage::ALL, moments);
        let went = outcome.is_ok();
        let (outcome, _) = run_fini(place.path(), &settings, &Stage::ALL, Life::FOR_EVER);
        let undone = outcome.expect("nobody kills it");
        assert_eq!((undone.left, undone.failed), (0, 0), "killed at {moments}");
        assert_eq!(*settings.borrow(), before(), "killed at {moments}");
        assert!(is_forgotten(place.path()), "killed at {moments}");
        if went {
            break;
        }
    }
}

#[test]
fn what_somebody_else_changed_is_told_and_left() {
    let (place, settings) = machine();
    run_init(place.path(), &settings, Life::FOR_EVER)
        .0
        .expect("nobody kills it");
    let alive = Fake::of(&settings, Life::FOR_EVER);
    alive.put(&channels(), "combined 5");
    alive.put(&Setting::HugePages, "77");
    // Whoever gives it the value of before has undone it.
    alive.put(&offload("rx-lro"), "on");
    let (outcome, heard) = run_fini(place.path(), &settings, &Stage::ALL, Life::FOR_EVER);
    assert_eq!(outcome.expect("it goes through").left, 2);
    for (setting, now) in [(channels(), "combined 5"), (Setting::HugePages, "77")] {
        assert_eq!(alive.value(&setting), now);
        let word = format!("{setting}: somebody made it {now}");
        assert!(
            heard.iter().any(|told| told.text.contains(&word)),
            "{heard:?}"
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
    run_init(place.path(), &settings, Life::FOR_EVER)
        .0
        .expect("nobody kills it");
    let some = [Stage::Offloads, Stage::Irq];
    run_fini(place.path(), &settings, &some, Life::FOR_EVER)
        .0
        .expect("nobody kills it");
    let alive = Fake::of(&settings, Life::FOR_EVER);
    assert_eq!(alive.value(&offload("rx-lro")), "on");
    assert_eq!(alive.value(&Setting::Interrupt { irq: 40 }), "0-3");
    assert_eq!(alive.value(&channels()), "combined 2");
    let ledger = FileLedger::open(place.path(), "boot").expect("a record");
    assert!(
        held(ledger.lines())
            .iter()
            .all(|held| !some.contains(&held.stage))
    );
    run_fini(place.path(), &settings, &Stage::ALL, Life::FOR_EVER)
        .0
        .expect("nobody kills it");
    assert_eq!(*settings.borrow(), before());
}

#[test]
fn a_stage_that_cannot_stops_before_it_and_after_what_was_done() {
    let (place, settings) = machine();
    let mut fake = Fake::of(&settings, Life::FOR_EVER);
    let mut ledger = FileLedger::open(place.path(), "boot").expect("none");
    let config = config();
    let seen = fake.clone();
    let error = init(
        &Stage::ALL,
        &mut |stage| {
            let mut reports = look(stage, &config, &facts(&seen));
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
