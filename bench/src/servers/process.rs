//! Processes of others, each in a namespace, pinned to a core where it should be.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{cores::pin, ends_with_this::ends_with_this, stage::Namespace, stop};

/// How long a process may take to exit after the request.
const ENDING: Duration = Duration::from_secs(5);

/// A running process. It is stopped on drop.
///
/// It belongs to the thread that starts it. That thread is pinned to the process's core from then
/// on and must not exit before it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Its command line.
    pub command: String,
}

impl Running {
    /// Starts `program` under the name `name`, with its output in `log`. Returns `None` if there is
    /// no such program.
    pub fn server(
        namespace: &Namespace,
        core: Option<usize>,
        (program, name): (&Path, &str),
        arguments: &[String],
        log: &Path,
    ) -> Result<Option<Self>> {
        let mut command = Command::new(program);
        command
            .arg0(name)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(File::create(log).context("making a log")?)
            .stderr(Stdio::null());
        let child = Self::start(namespace, core, command)?;
        Ok(child.map(|child| Self {
            child,
            command: format!("{name} {}", arguments.join(" ")),
        }))
    }

    /// Starts `program`. [`Running::wait`] reads its output.
    pub fn client(
        namespace: &Namespace,
        core: Option<usize>,
        program: impl AsRef<Path>,
        arguments: &[String],
    ) -> Result<Self> {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let name = program.file_name().unwrap_or(program.as_os_str());
        let name = name.to_string_lossy();
        let child = Self::start(namespace, core, command)?
            .with_context(|| format!("there is no {name}: run scripts/install-packages bench"))?;
        Ok(Self {
            child,
            command: format!("{name} {}", arguments.join(" ")),
        })
    }

    /// `None` if there is no such program.
    fn start(
        namespace: &Namespace,
        core: Option<usize>,
        mut command: Command,
    ) -> Result<Option<Child>> {
        // Inherited by the process.
        core.map_or(Ok(()), pin)?;
        // Ctrl-C on the terminal must reach only the measurement, which then shuts its processes
        // down gracefully.
        command.process_group(0);
        ends_with_this(&mut command);
        namespace.within(|| match command.spawn() {
            Ok(child) => Ok(Some(child)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("starting a process"),
        })
    }

    /// Waits until the process exits by itself, and returns its output: a few lines, which fit into
    /// a pipe.
    ///
    /// # Errors
    /// It does not exit within `patience`, or it failed.
    pub fn wait(self, patience: Duration) -> Result<String> {
        let command = self.command.clone();
        let (status, text) = self.wait_for_end(patience)?;
        if !status.success() {
            bail!("`{command}` failed ({status}): {text}");
        }
        Ok(text)
    }

    /// As [`Running::wait`], for a process whose exit status rates its own output.
    ///
    /// # Errors
    /// It does not exit within `patience`.
    pub fn wait_for_end(mut self, patience: Duration) -> Result<(ExitStatus, String)> {
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
                .context("reading the output of a process")?;
        }
        Ok((status, text))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let signaled = kill(
            Pid::from_raw(self.child.id().cast_signed()),
            Signal::SIGTERM,
        );
        let start = Instant::now();
        while signaled.is_ok() && start.elapsed() < ENDING {
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
