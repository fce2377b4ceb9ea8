//! Environment of a page's commands: two machines, joined by two cables.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
    time::{Duration, Instant},
};

use covalent_guide::{console::Step, expect::is_shown, pages};

use crate::machine::Machine;

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for output that appears eventually: 200,000 additions of a debug build, beside a dozen
/// other processes that need the processors.
const SOON: Duration = Duration::from_secs(180);

/// How far a page takes its reader to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// There is a clone.
    Bare,
    /// Covalent is installed.
    Installed,
    /// On each machine a node of its name runs on its interfaces `eth1` and `eth2`.
    Running,
}

impl Standing {
    /// Reads the state that a page declares in a comment: `<!-- world: running -->`.
    pub fn of(page: &str) -> Self {
        let declared = page
            .lines()
            .find_map(|line| line.strip_prefix("<!-- world: ")?.strip_suffix(" -->"));
        match declared {
            None | Some("bare") => Self::Bare,
            Some("installed") => Self::Installed,
            Some("running") => Self::Running,
            Some(other) => panic!("there is no world `{other}`"),
        }
    }
}

/// Two machines.
pub struct World {
    machines: [Machine; 2],
    _places: [tempfile::TempDir; 2],
}

impl World {
    /// Makes them, as far as a page takes its reader to be.
    pub fn make(standing: Standing) -> Self {
        let places = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let machines = [Machine::start(), Machine::start()];
        let mut world = Self {
            machines,
            _places: places,
        };
        for (at, machine) in world.machines.iter_mut().enumerate() {
            let name = format!("machine-{}", at + 1);
            machine.furnish(&name, world._places[at].path(), &pages::root(), &built());
        }
        let [one, two] = [0, 1].map(|at: usize| world.machines[at].pid().to_string());
        for interface in ["eth1", "eth2"] {
            let made = Command::new("ip")
                .args(["link", "add", interface, "netns", &one, "type", "veth"])
                .args(["peer", "name", interface, "netns", &two])
                .status();
            assert!(made.expect("ip is installed").success());
        }
        if standing >= Standing::Installed {
            world.both("make -s install");
        }
        if standing >= Standing::Running {
            world.both("covalent up --name $(hostname) --interfaces eth1,eth2");
            world.both(
                "until [ $(covalent links --format json | grep -c '\"state\": *\"up\"') = 2 \
                ]; do sleep 0.1; done",
            );
        }
        world
    }

    fn both(&mut self, command: &str) {
        for machine in &mut self.machines {
            let done = machine.run(command, PATIENCE);
            let done = done.unwrap_or_else(|| panic!("`{command}` does not end"));
            assert_eq!(done.status, 0, "`{command}`:\n{}", done.printed.join("\n"));
        }
    }

    /// Runs the command of a step and compares its output.
    ///
    /// # Panics
    /// Panics if the output differs from the page.
    pub fn walk(&mut self, page: &Path, step: &Step) {
        let at = format!("{}:{}: `{}`", page.display(), step.line, step.command);
        let machine = self
            .machines
            .get_mut(step.machine - 1)
            .unwrap_or_else(|| panic!("{at}: there are two machines"));
        let deadline = Instant::now() + SOON;
        loop {
            let done = machine.run(&step.command, PATIENCE);
            let mut done = done.unwrap_or_else(|| panic!("{at} does not end within {PATIENCE:?}"));
            let in_background = step.command.trim_end().ends_with('&');
            let mut fits = step.shown.is_empty() || is_shown(&step.shown, &done.printed);
            while in_background && !fits {
                let Some(line) = machine.line(deadline) else {
                    break;
                };
                done.printed.push(line);
                fits = is_shown(&step.shown, &done.printed);
            }
            if fits && done.status == step.status {
                eprintln!("{at}\n{}", done.printed.join("\n"));
                return;
            }
            assert!(
                step.eventually && Instant::now() < deadline,
                "{at}\n\
                 exits with status {} (the page expects {}) and prints\n\
                 {}\n\
                 where the page shows\n\
                 {}\n",
                done.status,
                step.status,
                done.printed.join("\n"),
                step.shown.join("\n")
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the directory of cargo's build output.
///
/// # Panics
/// Panics if a program that the pages need was not built. It belongs to another package, so cargo
/// does not build it here.
pub fn built() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_covalent-guide"));
    let directory = program.parent().expect("in a directory").to_owned();
    for name in [
        "covalent",
        "covalentd",
        "covalent-control",
        "covalent-bank",
        "covalent-registers",
        "libcovalent_c.a",
    ] {
        assert!(
            directory.join(name).exists(),
            "{name} is not in {}: run `cargo build --workspace --all-targets` first (`make test` \
             does)",
            directory.display()
        );
    }
    static LINKED: Once = Once::new();
    LINKED.call_once(|| link_library(&directory));
    directory
}

/// Makes the C library as `make build` does, which no page runs before its installation.
fn link_library(directory: &Path) {
    let linked = Command::new(pages::root().join("scripts/link-library"))
        .arg(directory.join("libcovalent_c.a"))
        .args([Path::new(env!("CARGO_PKG_VERSION")), directory])
        .status()
        .expect("scripts/link-library runs");
    assert!(linked.success(), "scripts/link-library: {linked}");
}
