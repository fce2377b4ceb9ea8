//! `covalent-control` as a process beside a daemon under test, and requests to it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    agreement::HeldBrief,
    control::{ControlReply, ControlRequest},
    datagram,
};
use covalent_config::Config;
use covalent_ipc::seqpacket::Connection;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::node::{PATIENCE, eventually};

/// A control process, killed without a chance to clean up when this goes.
pub struct Control {
    child: Child,
    file: PathBuf,
    control_client: ControlClient,
}

/// A client of a control process.
#[derive(Clone)]
pub struct ControlClient(PathBuf);

/// The program, which is built beside the daemon's. Without it: a word, and nothing.
pub fn program() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_covalentd")).with_file_name("covalent-control");
    if !program.exists() {
        eprintln!("skipped: {} is not built", program.display());
        return None;
    }
    Some(program)
}

/// Writes `config` into `file`, whole at once.
pub fn write(file: &Path, config: &Config) {
    let new = file.with_extension("new");
    fs::write(&new, config.to_toml().expect("a configuration")).expect("room on the disk");
    fs::rename(&new, file).expect("room on the disk");
}

impl Control {
    /// Starts it with the configuration in `file`, in the network namespace of this thread.
    pub fn start(program: &Path, file: &Path) -> Self {
        let config = Config::load(file).expect("a configuration");
        let child = Command::new(program)
            .arg("--config")
            .arg(file)
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("covalent-control runs");
        Self {
            child,
            file: file.to_owned(),
            control_client: ControlClient(config.control_socket_path()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Shuts it down gracefully. Returns whether it exited successfully.
    pub fn stop(mut self) -> bool {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).expect("it runs");
        self.child.wait().expect("it ends").success()
    }

    /// Returns a client for use from another thread, and after the end of the process.
    pub fn control_client(&self) -> ControlClient {
        self.control_client.clone()
    }

    /// Returns its reply, or `None` if it does not reply.
    pub fn call(&self, request: &ControlRequest) -> Option<ControlReply> {
        self.control_client.call(request)
    }

    /// Returns the configuration that it holds, if its daemon holds the same.
    pub fn agreed(&self) -> Option<HeldBrief> {
        match self.call(&ControlRequest::Agreed)? {
            ControlReply::Agreed {
                agreed,
                is_shared: true,
            } => agreed,
            _ => None,
        }
    }

    /// Waits until it and its daemon hold the same.
    pub fn await_agreed(&self) -> HeldBrief {
        let mut held = None;
        eventually("control and the daemon hold the same", || {
            held = self.agreed();
            held.is_some()
        });
        held.expect("it was reported")
    }

    /// Has `config` put in force, which must be possible.
    pub fn reload(&self, config: &Config) {
        write(&self.file, config);
        match self.call(&ControlRequest::Reload) {
            Some(ControlReply::Reloaded { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

impl ControlClient {
    /// Returns control's reply, or `None` if it does not reply or exits first.
    pub fn call(&self, request: &ControlRequest) -> Option<ControlReply> {
        let connection = Connection::connect(&self.0).ok()?;
        let bytes = datagram::encode(request).expect("a request fits");
        connection.send(&bytes, &[]).ok()?;
        assert!(
            connection.wait(Some(PATIENCE)).expect("poll works"),
            "control answers in time"
        );
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let (length, _) = connection.recv(&mut buffer).ok()?;
        Some(datagram::decode(&buffer[..length]).expect("control speaks the protocol"))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
