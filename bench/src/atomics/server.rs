//! A server of Redis that keeps everything in memory and writes nothing.

use std::{
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::process::Running;
use crate::{stage::Namespace, stop};

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server. It ends with this value, and with it the thread's claim to start others: see [`Running`].
#[derive(Debug)]
pub struct Server {
    running: Running,
    place: TempDir,
}

impl Server {
    /// Starts one at `address` of `namespace` on `core`, to which the calling thread is pinned too, and waits until it answers in namespace `asking`.
    ///
    /// # Errors
    /// There is no such program; it does not answer.
    pub fn start(
        namespace: &Namespace,
        asking: &Namespace,
        core: usize,
        address: SocketAddr,
    ) -> Result<Self> {
        let place = tempfile::tempdir().context("making a directory for Redis")?;
        let running = Running::server(
            namespace,
            core,
            &arguments(address, &place.path().display().to_string()),
            &place.path().join("log"),
        )?;
        let server = Self { running, place };
        server.wait_until_it_answers(asking, address)?;
        Ok(server)
    }

    /// Its command line, with its own directory as DIR.
    pub fn command(&self) -> String {
        let place = self.place.path().display().to_string();
        self.running.command.replace(&place, "DIR")
    }

    fn wait_until_it_answers(&self, asking: &Namespace, address: SocketAddr) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let there = asking.within(|| {
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
        "--port {port} --bind {bind} --protected-mode no --appendonly no --daemonize no --dir {place} --save"
    )
    .split(' ')
    .map(str::to_owned)
    .chain([String::new()])
    .collect()
}
