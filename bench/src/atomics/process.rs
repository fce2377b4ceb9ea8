//! Processes of Redis, each pinned to a core and in a namespace.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{cores::pin, ends_with_this::ends_with_this, stage::Namespace, stop};

/// How long one may take to end once it is asked to.
const ENDING: Duration = Duration::from_secs(5);

/// Names of the server's program. In Debian it is one with the checker of its files: the package `redis-tools` has it under that name
/// alone, without a service that starts by itself, and what it is depends on the name that it is called by.
const SERVERS: [&str; 2] = ["redis-server", "redis-check-rdb"];

/// The name that makes the program a server.
const AS_SERVER: &str = "redis-server";

/// The version of the server, in its own words.
pub fn version() -> Result<String> {
    for program in SERVERS {
        let answer = Command::new(program)
            .arg0(AS_SERVER)
            .arg("--version")
            .output();
        match answer {
            Ok(answer) => return Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("starting {program}")),
        }
    }
    bail!(
        "there is no redis-server: install the Debian package redis-tools (scripts/install-packages bench)"
    )
}

/// A running process. It ends with this value.
///
/// It belongs to the thread that starts it, which is pinned to its core from then on and must not end before it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Its command line.
    pub command: String,
}

impl Running {
    /// Starts the server with what it writes going to `log`.
    pub fn server(
        namespace: &Namespace,
        core: usize,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self> {
        for program in SERVERS {
            let mut command = Command::new(program);
            command
                .arg0(AS_SERVER)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(File::create(log).context("making a log")?)
                .stderr(Stdio::null());
            match Self::start(namespace, core, command)? {
                Some(child) => {
                    return Ok(Self {
                        child,
                        command: format!("{AS_SERVER} {}", arguments.join(" ")),
                    });
                }
                None => continue,
            }
        }
        bail!("there is no redis-server: install the Debian package redis-tools")
    }

    /// Starts `program`, whose output is read by [`Running::wait`].
    pub fn client(
        namespace: &Namespace,
        core: usize,
        program: &str,
        arguments: &[String],
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = Self::start(namespace, core, command)?.with_context(|| {
            format!("there is no {program}: install the Debian package redis-tools")
        })?;
        Ok(Self {
            child,
            command: format!("{program} {}", arguments.join(" ")),
        })
    }

    /// `None` if there is no such program.
    fn start(namespace: &Namespace, core: usize, mut command: Command) -> Result<Option<Child>> {
        // Inherited by the process.
        pin(core)?;
        // A Ctrl-C on the terminal is for the measurement, which then ends its processes in order.
        command.process_group(0);
        ends_with_this(&mut command);
        namespace.within(|| match command.spawn() {
            Ok(child) => Ok(Some(child)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("starting a process of Redis"),
        })
    }

    /// Waits until it ends by itself, and gives what it wrote. A few lines, which a pipe holds.
    pub fn wait(mut self, patience: Duration) -> Result<String> {
        let deadline = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("asking after a process")? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("`{}` does not end", self.command);
            }
            stop::sleep(Duration::from_millis(2))?;
        };
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text)
                .context("reading what a process wrote")?;
        }
        if !status.success() {
            bail!("`{}` failed ({status}): {text}", self.command);
        }
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let asked = kill(
            Pid::from_raw(self.child.id().cast_signed()),
            Signal::SIGTERM,
        );
        let start = Instant::now();
        while asked.is_ok() && start.elapsed() < ENDING {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
        // It may have ended meanwhile; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
