//! QEMU's monitor, and a request line from the guest to it: a job requests actions that only the
//! machine around it can do.
//!
//! A request is a line on the guest's second serial port. The reply is one line: `ok`, or `failed:
//! WHY`.
//!
//! | request | what happens |
//! |---|---|
//! | `link END off`, `link END on` | the carrier of that NIC goes down or up, as with its cable |
//! | `unplug END` | that NIC is removed; the reply follows when it is gone |

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::nic::ENDS;

/// How long QEMU may take to make its sockets.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// How long a guest may take to release a NIC.
const UNPLUG_PATIENCE: Duration = Duration::from_secs(60);

const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A request of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Carrier of a NIC.
    Link {
        /// Its end.
        end: String,
        /// Whether it has one.
        up: bool,
    },
    /// A NIC is taken out.
    Unplug {
        /// Its end.
        end: String,
    },
}

impl Request {
    /// Parses a line.
    ///
    /// # Errors
    /// The reason why the line is invalid.
    pub fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let known = |end: &str| {
            if ENDS.concat().contains(&end) {
                Ok(end.to_owned())
            } else {
                bail!("no NIC `{end}`")
            }
        };
        match words[..] {
            ["link", end, state @ ("on" | "off")] => Ok(Self::Link {
                end: known(end)?,
                up: state == "on",
            }),
            ["unplug", end] => Ok(Self::Unplug { end: known(end)? }),
            _ => bail!("`{line}` is no request"),
        }
    }
}

/// A connection to the monitor.
#[derive(Debug)]
pub struct Monitor {
    reader: BufReader<UnixStream>,
    /// Removed devices, as reported by events.
    deleted: Vec<String>,
}

impl Monitor {
    /// Connects as soon as QEMU listens, and leaves the negotiation of capabilities behind.
    ///
    /// # Errors
    /// When it does not within ten seconds.
    pub fn connect(path: &Path) -> Result<Self> {
        let mut monitor = Self {
            reader: BufReader::new(connect(path)?),
            deleted: Vec::new(),
        };
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes a request of a job.
    ///
    /// # Errors
    /// QEMU's error message.
    pub fn serve(&mut self, request: &Request) -> Result<()> {
        match request {
            Request::Link { end, up } => self
                .execute("set_link", &json!({ "name": end, "up": up }))
                .map(|_| ()),
            Request::Unplug { end } => {
                self.execute("device_del", &json!({ "id": end }))?;
                let deadline = Instant::now() + UNPLUG_PATIENCE;
                while !self.deleted.contains(end) {
                    if Instant::now() > deadline {
                        bail!("the guest did not release `{end}` within {UNPLUG_PATIENCE:?}");
                    }
                    // An event is received with the reply to the next command.
                    self.execute("query-status", &json!({}))?;
                    thread::sleep(RECHECK_INTERVAL);
                }
                Ok(())
            }
        }
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments }).to_string();
        let mut stream = self.reader.get_ref();
        stream
            .write_all(line.as_bytes())
            .context("QEMU closed its monitor")?;
        loop {
            let mut line = String::new();
            if self
                .reader
                .read_line(&mut line)
                .context("QEMU closed its monitor")?
                == 0
            {
                bail!("QEMU closed its monitor");
            }
            let message: Value = serde_json::from_str(&line)
                .with_context(|| format!("QEMU sent invalid JSON: `{line}`"))?;
            if let Some(answer) = message.get("return") {
                return Ok(answer.clone());
            }
            if let Some(error) = message.get("error") {
                bail!("QEMU refused `{command}`: {}", error["desc"]);
            }
            if message["event"] == "DEVICE_DELETED"
                && let Some(device) = message["data"]["device"].as_str()
            {
                self.deleted.push(device.to_owned());
            }
        }
    }
}

/// Serves the guest's requests until its serial port closes.
///
/// # Errors
/// The socket at `path` does not appear.
pub fn attend(path: &Path, monitor: &mut Monitor) -> Result<()> {
    let stream = connect(path)?;
    let mut answers = stream.try_clone().context("cannot answer the guest")?;
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        let answer = match Request::parse(line.trim()).and_then(|request| monitor.serve(&request)) {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("failed: {error:#}"),
        };
        if writeln!(answers, "{answer}").is_err() {
            break;
        }
    }
    Ok(())
}

fn connect(path: &Path) -> Result<UnixStream> {
    let deadline = Instant::now() + START_PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => {
                return Err(anyhow!(error))
                    .with_context(|| format!("QEMU does not listen at {}", path.display()));
            }
            Err(_) => thread::sleep(RECHECK_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn requests_name_a_nic_and_a_deed() {
        assert_eq!(
            Request::parse("link near0 off").expect("a request"),
            Request::Link {
                end: "near0".into(),
                up: false
            }
        );
        assert_eq!(
            Request::parse("unplug far1").expect("a request"),
            Request::Unplug { end: "far1".into() }
        );
        for wrong in [
            "",
            "link near0",
            "link near2 on",
            "link near0 up",
            "quit",
            "unplug near0 now",
        ] {
            assert!(Request::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Plays QEMU: each answer may come after events.
    #[test]
    fn an_unplugged_nic_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("qmp");
        let listener = UnixListener::bind(&path).expect("a socket");
        let qemu = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let mut answers = stream.try_clone().expect("a second handle");
            writeln!(answers, r#"{{"QMP": {{"version": {{}}}}}}"#).expect("greets");
            let mut executed = Vec::new();
            let mut bytes = BufReader::new(stream);
            // One command is one JSON value, without a line's end.
            let mut commands =
                serde_json::Deserializer::from_reader(&mut bytes).into_iter::<Value>();
            while let Some(Ok(command)) = commands.next() {
                let name = command["execute"].as_str().expect("a command").to_owned();
                if executed
                    .iter()
                    .filter(|&known| *known == "query-status")
                    .count()
                    == 1
                {
                    writeln!(
                        answers,
                        r#"{{"event": "DEVICE_DELETED", "data": {{"device": "near0"}}}}"#
                    )
                    .expect("reports");
                }
                let answer = if command["arguments"]["name"] == "far0" {
                    r#"{"error": {"desc": "no"}}"#
                } else {
                    r#"{"return": {}}"#
                };
                writeln!(answers, "{answer}").expect("answers");
                executed.push(name);
            }
            executed
        });
        let mut monitor = Monitor::connect(&path).expect("connects");
        monitor
            .serve(&Request::Unplug {
                end: "near0".into(),
            })
            .expect("it is gone");
        let refused = monitor.serve(&Request::Link {
            end: "far0".into(),
            up: true,
        });
        assert!(refused.is_err_and(|error| error.to_string().contains("set_link")));
        drop(monitor);
        let executed = qemu.join().expect("QEMU's part ends");
        assert_eq!(
            executed,
            [
                "qmp_capabilities",
                "device_del",
                "query-status",
                "query-status",
                "set_link"
            ]
        );
    }
}
