//! A server of Redis that keeps everything in memory and writes nothing.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::Running;
use crate::{stage::Namespace, stop};

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names of the server's program. In Debian, one binary is both the server and the file checker,
/// selected by its name. The package `redis-tools` installs it only under the checker's name,
/// without a service that starts automatically.
const SERVERS: [&str; 2] = ["redis-server", "redis-check-rdb"];

/// The name that makes the program a server.
const AS_SERVER: &str = "redis-server";

const MISSING: &str = "there is no redis-server: install the Debian package redis-tools \
    (scripts/install-packages bench)";

/// The version of the server, in its own words.
///
/// # Errors
/// There is none.
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
    bail!(MISSING)
}

/// A running server. It is stopped on drop. The rules of [`Running`] for its thread apply.
#[derive(Debug)]
pub struct Server {
    running: Running,
    place: TempDir,
}

impl Server {
    /// Starts a server at `address` of `namespace`, and waits until it responds in namespace
    /// `client_namespace`. Pins the server and the calling thread to `core`.
    ///
    /// # Errors
    /// The program is missing, or the server does not respond.
    pub fn start(
        namespace: &Namespace,
        client_namespace: &Namespace,
        core: usize,
        address: SocketAddr,
    ) -> Result<Self> {
        Self::start_with(namespace, client_namespace, Some(core), address, &[])
    }

    /// The same with more `options`; without a core it is pinned to none.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(
        namespace: &Namespace,
        client_namespace: &Namespace,
        core: Option<usize>,
        address: SocketAddr,
        options: &[&str],
    ) -> Result<Self> {
        let place = tempfile::tempdir().context("making a directory for Redis")?;
        let mut words = arguments(address, &place.path().display().to_string());
        words.extend(options.iter().map(|&word| word.to_owned()));
        let log = place.path().join("log");
        for program in SERVERS {
            let called = (Path::new(program), AS_SERVER);
            if let Some(running) = Running::server(namespace, core, called, &words, &log)? {
                let server = Self { running, place };
                server.wait_until_it_answers(client_namespace, address)?;
                return Ok(server);
            }
        }
        bail!(MISSING)
    }

    /// Its command line, with its own directory as DIR.
    pub fn command(&self) -> String {
        let place = self.place.path().display().to_string();
        self.running.command.replace(&place, "DIR")
    }

    fn wait_until_it_answers(
        &self,
        client_namespace: &Namespace,
        address: SocketAddr,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let there = client_namespace.within(|| {
                Ok(TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok())
            })?;
            if there {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "redis-server does not answer");
            stop::sleep(Duration::from_millis(5))?;
        }
    }
}

/// Everything in memory, nothing written, as fast as it goes.
fn arguments(address: SocketAddr, place: &str) -> Vec<String> {
    let (bind, port) = (address.ip(), address.port());
    format!(
        "--port {port} --bind {bind} --protected-mode no --appendonly no --daemonize no --dir \
         {place} --save"
    )
    .split(' ')
    .map(str::to_owned)
    .chain([String::new()])
    .collect()
}
