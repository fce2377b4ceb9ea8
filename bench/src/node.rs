//! A production daemon under measurement.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use covalent::{Client, status::NodeStatus};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{ends_with_this::ends_with_this, stage::Namespace, stop};

/// How long a daemon may take to start, a link to come up, and a daemon to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon's configuration.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The node's name.
    pub name: &'a str,
    /// `poll` or `adaptive`.
    pub idle: &'a str,
    /// Core of its one lane. `None` leaves it unpinned.
    pub core: Option<usize>,
    /// Interfaces, each a port of the same name. Without interfaces and cables, the node has no
    /// neighbor.
    pub interfaces: &'a [&'a str],
    /// Cables in memory: each a port, and where its two ends meet.
    pub cables: &'a [(String, PathBuf)],
    /// Whether the ports run the link protocol.
    pub link: bool,
    /// Descriptors in each ring.
    pub ring_slots: u32,
    /// Keys of `[link]` that are not left to the daemon, with their values.
    pub link_settings: &'a [(&'a str, u32)],
    /// Whether the ports support fault injection. No faults are active at the start.
    pub faulty: bool,
}

impl Plan<'_> {
    fn toml(&self, place: &Path) -> String {
        let Self {
            name,
            idle,
            link,
            ring_slots,
            faulty,
            ..
        } = self;
        let core = self
            .core
            .map(|core| format!("core = {core}\n"))
            .unwrap_or_default();
        let settings: String = self
            .link_settings
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        let faults = if *faulty { "[port.faults]\n" } else { "" };
        let place = place.display();
        // A daemon needs a port. A cable without a second end stays idle.
        let lonely = if self.interfaces.is_empty() && self.cables.is_empty() {
            format!("[[port]]\nname = \"none\"\nkind = \"cable\"\npath = \"{place}/cable.sock\"\n")
        } else {
            String::new()
        };
        let cables: String = self
            .cables
            .iter()
            .map(|(name, path)| {
                let path = path.display();
                format!(
                    "[[port]]\nname = \"{name}\"\nlink = {link}\nkind = \"cable\"\npath \
                     = \"{path}\"\n{faults}"
                )
            })
            .collect();
        let ports: String = self
            .interfaces
            .iter()
            .map(|interface| {
                format!(
                    "[[port]]\nname = \"{interface}\"\nlink = {link}\nkind = \"af_xdp\"\ninterface \
                     = \"{interface}\"\n\
                     ring_slots = {ring_slots}\n{faults}"
                )
            })
            .collect();
        format!(
            "[node]\nname = \"{name}\"\nruntime_dir = \"{place}/run\"\nstate_dir \
             = \"{place}/state\"\n\
             [dataplane]\nidle \
             = \"{idle}\"\n[link]\n{settings}[[lane]]\n{core}{ports}{cables}{lonely}"
        )
    }
}

/// Starts a daemon in `namespace` with the files of `directory`.
fn spawn(program: &Path, namespace: &Namespace, directory: &Path, faulty: bool) -> Result<Child> {
    let log = fs::File::create(directory.join("log")).context("making a node's log")?;
    let mut command = Command::new(program);
    command
        .arg("--config")
        .arg(directory.join("node.toml"))
        .env("RUST_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    if faulty {
        command.arg("--allow-faults");
    }
    ends_with_this(&mut command);
    namespace.within(|| {
        command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))
    })
}

/// Returns the path of `covalentd`: the given one, or the one beside this program.
pub fn find_daemon(configured: Option<&Path>) -> Result<PathBuf> {
    let path = match configured {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()
            .context("finding this program")?
            .with_file_name("covalentd"),
    };
    if !path.is_file() {
        bail!(
            "there is no {}: build it (cargo build --release), or give --covalentd",
            path.display()
        );
    }
    Ok(path)
}

/// A running daemon. It ends with this value, and with this process.
#[derive(Debug)]
pub struct Node {
    name: String,
    child: Child,
    directory: TempDir,
    command: Vec<String>,
    program: PathBuf,
    faulty: bool,
}

impl Node {
    /// Starts the daemon in `namespace` and waits until it answers.
    pub fn start(program: &Path, namespace: &Namespace, plan: &Plan<'_>) -> Result<Self> {
        let directory = tempfile::tempdir().context("making a directory for a node")?;
        let toml = plan.toml(directory.path());
        Self::started(program, namespace, plan.name, toml, plan.faulty, directory)
    }

    /// As [`Node::start`], but `toml` builds the configuration from the node's directory. That
    /// directory is in memory (like `/run`) if possible.
    pub fn start_from(
        program: &Path,
        namespace: &Namespace,
        name: &str,
        toml: impl FnOnce(&Path) -> String,
    ) -> Result<Self> {
        let directory = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .context("making a directory for a node")?;
        let toml = toml(directory.path());
        Self::started(program, namespace, name, toml, false, directory)
    }

    fn started(
        program: &Path,
        namespace: &Namespace,
        name: &str,
        toml: String,
        faulty: bool,
        directory: TempDir,
    ) -> Result<Self> {
        fs::write(directory.path().join("node.toml"), &toml)
            .context("writing a node's configuration")?;
        let child = spawn(program, namespace, directory.path(), faulty)?;
        let mut node = Self {
            name: name.to_owned(),
            child,
            program: program.to_owned(),
            faulty,
            command: vec![
                program.file_name().map_or_else(
                    || program.display().to_string(),
                    |name| name.to_string_lossy().into_owned(),
                ),
                "--config".to_owned(),
                toml.replace(&directory.path().display().to_string(), "DIR")
                    .replace('\n', "; "),
            ],
            directory,
        };
        node.wait_until_ready()?;
        Ok(node)
    }

    /// Stops the daemon with `signal` and starts it again in `namespace` at once. Returns when it
    /// responds.
    pub fn restart(&mut self, namespace: &Namespace, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, signal).context("ending a daemon")?;
        self.child.wait().context("waiting for a daemon's end")?;
        self.child = spawn(&self.program, namespace, self.directory.path(), self.faulty)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            if Client::connect(self.socket(), "bench").is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().context("asking after a daemon")? {
                bail!("covalentd ended at once ({status}): {}", self.log());
            }
            if start.elapsed() > PATIENCE {
                bail!("covalentd does not answer: {}", self.log());
            }
            stop::sleep(Duration::from_millis(5))?;
        }
    }

    /// Waits until every link is up.
    pub fn wait_for_links(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let status = self.status()?;
            if !status.links.is_empty() && status.links.iter().all(|link| link.state == "up") {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "the links are not up in time: {:?}; {}",
                    status.links,
                    self.log()
                );
            }
            stop::sleep(Duration::from_millis(5))?;
        }
    }

    /// Queries the daemon's status.
    pub fn status(&self) -> Result<NodeStatus> {
        let mut client =
            Client::connect(self.socket(), "bench").context("connecting to covalentd")?;
        client.status().context("asking covalentd for its status")
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("run/covalentd.sock")
    }

    /// Its configuration.
    pub fn config(&self) -> PathBuf {
        self.directory.path().join("node.toml")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its command line, with the configuration written out, the program by its name, and
    /// its own directory as DIR.
    pub fn command(&self) -> Vec<String> {
        self.command.clone()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // First try SIGTERM, so that the daemon releases its sockets before the next side binds
        // them.
        let signaled = kill(
            Pid::from_raw(self.child.id().cast_signed()),
            Signal::SIGTERM,
        );
        let start = Instant::now();
        while signaled.is_ok() && start.elapsed() < PATIENCE {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
        // It may have ended meanwhile; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_one_that_the_daemon_takes() {
        let plan = Plan {
            name: "a",
            idle: "poll",
            core: Some(1),
            interfaces: &["a0", "a1"],
            cables: &[],
            link: true,
            ring_slots: 512,
            link_settings: &[("slots", 255), ("event_ratio", 8)],
            faulty: true,
        };
        let config = covalent_config::Config::parse(&plan.toml(Path::new("/tmp/x")), "plan")
            .expect("a good file");
        assert_eq!(config.lane[0].core, Some(1));
        assert_eq!(
            (
                config.port.len(),
                config.link.slots,
                config.link.event_ratio
            ),
            (2, 255, 8)
        );
        assert!(config.port.iter().all(|port| port.faults.is_some()));
        let alone = Plan {
            interfaces: &[],
            link_settings: &[],
            ..plan
        };
        let config = covalent_config::Config::parse(&alone.toml(Path::new("/tmp/x")), "plan")
            .expect("a good file");
        assert_eq!(config.port.len(), 1);
        let cables = [("c1".to_owned(), PathBuf::from("/tmp/x/c1.sock"))];
        let cabled = Plan {
            cables: &cables,
            ..alone
        };
        let config = covalent_config::Config::parse(&cabled.toml(Path::new("/tmp/x")), "plan")
            .expect("a good file");
        assert_eq!((config.port.len(), &*config.port[0].name), (1, "c1"));
        let floating = Plan {
            core: None,
            interfaces: &["a0"],
            cables: &[],
            faulty: false,
            ..cabled
        };
        assert!(
            covalent_config::Config::parse(&floating.toml(Path::new("/tmp/x")), "plan").is_ok()
        );
    }

    #[test]
    fn a_missing_daemon_is_named() {
        let problem = find_daemon(Some(Path::new("/nowhere/covalentd")))
            .expect_err("not there")
            .to_string();
        assert!(problem.contains("/nowhere/covalentd"), "{problem}");
    }
}
