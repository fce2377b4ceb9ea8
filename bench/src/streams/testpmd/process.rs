//! One testpmd process, controlled through its standard input.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::unistd::{SysconfVar, sysconf};

use super::output;
use crate::stop;

/// How long it may take to start, to find the other side, and to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long it may take to end by itself.
const ENDING: Duration = Duration::from_secs(3);

/// Longest time that a wait continues after a stop request.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A running testpmd. It ends with this value.
#[derive(Debug)]
pub struct Testpmd {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
    /// The last lines, for when something goes wrong.
    last: Vec<String>,
}

impl Testpmd {
    /// Starts it and waits until it takes commands.
    pub fn start(program: &str, arguments: &[String], folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{program}.log"));
        // testpmd buffers its output into a pipe. `stdbuf` makes it line-buffered and then execs
        // the program.
        let mut child = Command::new("stdbuf")
            .args(["-oL", program])
            .args(arguments)
            // Otherwise libxdp attaches its own dispatcher before the driver's program if a bpffs
            // is mounted, and leaves files there.
            .env("LIBXDP_SKIP_DISPATCHER", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).context("making a log")?)
            // Ctrl-C on the terminal must reach only the measurement, which then shuts its
            // processes down gracefully.
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let output = child.stdout.take().context("its output is a pipe")?;
        let (teller, lines) = channel();
        // Ends when the process closes its output, or the receiver is dropped.
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n') {
                let Ok(line) = line else { return };
                if teller
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
            }
        });
        let mut testpmd = Self {
            input: child.stdin.take(),
            child,
            lines,
            log,
            last: Vec::new(),
        };
        // It reads this when it is ready.
        testpmd.send_command("show port info 0")?;
        testpmd.wait_for("an answer", output::link_is_up)?;
        Ok(testpmd)
    }

    /// Gives a command.
    pub fn send_command(&mut self, command: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input is a pipe")?;
        let written = writeln!(input, "{command}").and_then(|()| input.flush());
        if let Err(error) = written {
            bail!(
                "testpmd does not take `{command}`: {error}: {}",
                self.words()
            );
        }
        Ok(())
    }

    /// Waits until the other side is there.
    pub fn wait_for_link(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.send_command("show port info 0")?;
            if self.wait_for("the state of its link", output::link_is_up)? {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("testpmd does not find the other side: {}", self.words());
            }
            stop::sleep(Duration::from_millis(20))?;
        }
    }

    /// Returns the received packets per second, since the previous call.
    pub fn packets_per_second(&mut self) -> Result<f64> {
        self.send_command("show port stats 0")?;
        self.wait_for("its rate", output::packets_per_second)
    }

    /// Returns the received packets since the start. testpmd replies after all earlier commands are
    /// complete.
    pub fn packets_received(&mut self) -> Result<u64> {
        self.send_command("show port stats 0")?;
        self.wait_for("how much it received", output::packets_received)
    }

    /// Waits until it has stopped forwarding.
    pub fn wait_until_done(&mut self) -> Result<()> {
        self.wait_for("that it stopped", output::is_done)
    }

    /// Processor time that it has taken, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let ticks = cpu_ticks(&stat).with_context(|| format!("{path} is not as it should be"))?;
        let per_second = sysconf(SysconfVar::CLK_TCK)
            .context("asking for the clock's ticks")?
            .context("the clock ticks")?;
        Ok(ticks as f64 / per_second as f64)
    }

    fn wait_for<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(RECHECK_INTERVAL) {
                Ok(line) => {
                    let found = find(&line);
                    self.last.push(line);
                    if self.last.len() > 6 {
                        self.last.remove(0);
                    }
                    if let Some(found) = found {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    stop::check()?;
                    bail!("testpmd ended: {}", self.words());
                }
            }
            stop::check()?;
            if Instant::now() > deadline {
                bail!("testpmd printed no {what}: {}", self.words());
            }
        }
    }

    /// Returns its last output.
    fn words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let mut words: Vec<&str> = self.last.iter().map(|line| line.trim()).collect();
        words.extend(log.lines().filter(|line| !line.is_empty()));
        words[words.len().saturating_sub(6)..].join("; ")
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // First ask it to quit, so that it removes its own files. Close its input after that, so
        // that it cannot wait for another command.
        if let Some(mut input) = self.input.take() {
            // If it takes no command any more, it has ended or is killed below.
            let _ = input.write_all(b"stop\nquit\n");
        }
        let deadline = Instant::now() + ENDING;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
        // It may have ended meanwhile; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses user and system time from a line of `/proc/PID/stat`, whose second field may contain
/// spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 700 25 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(725));
        assert_eq!(cpu_ticks("42 (x) S 1"), None);
    }

    #[test]
    fn a_program_that_ends_is_reported_with_its_last_lines() {
        let folder = tempfile::tempdir().expect("a directory");
        let arguments = ["-c".to_owned(), "echo no such device; exit 1".to_owned()];
        let problem = Testpmd::start("sh", &arguments, folder.path())
            .expect_err("it is no testpmd")
            .to_string();
        assert!(problem.contains("testpmd"), "{problem}");
    }
}
