//! `covalent-control` as a process beside a daemon under test, and what it is asked.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    agreement::HeldBrief,
    config::Config,
    control::{ControlReply, ControlRequest},
    datagram,
};
use covalent_pipe::seqpacket::Connection;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::node::{PATIENCE, eventually};

/// A control process, killed without a chance to clean up when this goes.
pub struct Control {
    child: Child,
    file: PathBuf,
    asker: Asker,
}

/// Somebody who asks a control process.
#[derive(Clone)]
pub struct Asker(PathBuf);

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
    /// Starts it with what `file` says, in the network namespace of this thread.
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
            asker: Asker(config.control_socket_path()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it end in order; whether it did.
    pub fn stop(mut self) -> bool {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).expect("it runs");
        self.child.wait().expect("it ends").success()
    }

    /// Somebody who may ask it from another thread, and after its end.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// What it answers; `None` if it does not.
    pub fn ask(&self, request: &ControlRequest) -> Option<ControlReply> {
        self.asker.ask(request)
    }

    /// What it holds, if its daemon holds that too.
    pub fn agreed(&self) -> Option<HeldBrief> {
        match self.ask(&ControlRequest::Agreed)? {
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
        held.expect("it was told")
    }

    /// Has `config` put in force, which must be possible.
    pub fn reload(&self, config: &Config) {
        write(&self.file, config);
        match self.ask(&ControlRequest::Reload) {
            Some(ControlReply::Reloaded { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Asker {
    /// What control answers; `None` if it does not, or ends before.
    pub fn ask(&self, request: &ControlRequest) -> Option<ControlReply> {
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
