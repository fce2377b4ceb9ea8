//! Starts, instructs and stops two processes that measure each other.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent_ipc::seqpacket::{Connection, Listener};
use tempfile::TempDir;

use crate::{
    stop,
    streams::{
        part::{MESSAGE_BYTES_MAX, Order, Part, Side, Word},
        peers::{self, near::NearEnd},
        session::{SessionPart, Trial},
        tally::Tally,
    },
};

/// How long a process may take for anything but measuring.
const PATIENCE: Duration = Duration::from_secs(15);

/// Longest time that a wait continues after a stop request.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Where the processes of a measurement meet. Its files go with it.
#[derive(Debug)]
pub struct Company {
    folder: TempDir,
    listener: Listener,
    program: PathBuf,
}

/// The counts of the processes of one repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tallies {
    /// The daemon's side.
    pub near: Tally,
    /// The application's side.
    pub far: Tally,
    /// A process that only makes the others possible, if there was one.
    pub aid: Option<Tally>,
}

impl Company {
    /// A folder and a socket in it.
    pub fn gather() -> Result<Self> {
        // In memory if possible, unless TMPDIR is set: some systems keep their rings in files.
        let in_memory = Path::new("/dev/shm");
        let folder = if std::env::var_os("TMPDIR").is_none() && in_memory.is_dir() {
            tempfile::tempdir_in(in_memory)
        } else {
            tempfile::tempdir()
        }
        .context("making a folder for the measurement")?;
        let listener = Listener::bind(&folder.path().join("bench.sock"))
            .context("listening for the measurement's processes")?;
        listener
            .set_nonblocking(true)
            .context("listening for the measurement's processes")?;
        Ok(Self {
            folder,
            listener,
            program: std::env::current_exe().context("finding this program")?,
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs one measurement and removes files that the processes leave. `part` is the near side's;
    /// the other parts are derived from it.
    pub fn measure(&self, part: &Part, far_core: usize) -> Result<Tallies> {
        let pair_folder = tempfile::tempdir_in(self.folder.path()).context("making a folder")?;
        let part = Part {
            folder: pair_folder.path().to_owned(),
            ..part.clone()
        };
        let tallies = self.measure_in(&part, far_core);
        remove_shared_memory(&part.shared_memory_prefix());
        tallies
    }

    fn measure_in(&self, part: &Part, far_core: usize) -> Result<Tallies> {
        let mut aid = self.start_aid(part)?;
        let mut near = self.start_part(part, &[])?;
        let far_part = Part {
            side: Side::Far,
            core: Some(far_core),
            note: near.note.clone(),
            ..part.clone()
        };
        let mut far = self.start_part(&far_part, &near.fds)?;
        // A socket that is open here too would not end with the far side.
        near.fds.clear();
        // The counting side starts last: its time must not pass before the other side has its order
        // to start.
        let players = if part.case.test.counted_far() {
            [&mut near, &mut far]
        } else {
            [&mut far, &mut near]
        };
        for player in aid.iter_mut().chain(players) {
            player.order(&Order::Go)?;
        }
        let patience = part.warm_up + part.slice + PATIENCE;
        let (near, far) = if part.case.test.counted_far() {
            let counted = far.done(patience)?;
            (near.end()?, counted)
        } else {
            let counted = near.done(patience)?;
            (counted, far.end()?)
        };
        let aid = aid.map(|mut aid| aid.end()).transpose()?;
        Ok(Tallies { near, far, aid })
    }

    /// Starts the far side of an echo and runs `use_near_end` as the near side in this thread.
    /// Removes files that the processes leave.
    pub fn accompany<T>(
        &self,
        part: &Part,
        far_core: usize,
        use_near_end: impl FnOnce(&mut dyn NearEnd) -> Result<T>,
    ) -> Result<T> {
        let pair_folder = tempfile::tempdir_in(self.folder.path()).context("making a folder")?;
        let part = Part {
            folder: pair_folder.path().to_owned(),
            ..part.clone()
        };
        let outcome = self.accompany_in(&part, far_core, use_near_end);
        remove_shared_memory(&part.shared_memory_prefix());
        outcome
    }

    fn accompany_in<T>(
        &self,
        part: &Part,
        far_core: usize,
        use_near_end: impl FnOnce(&mut dyn NearEnd) -> Result<T>,
    ) -> Result<T> {
        let mut aid = self.start_aid(part)?;
        let mut near = peers::near(part)?;
        let far_part = Part {
            side: Side::Far,
            core: Some(far_core),
            note: near.note.clone(),
            ..part.clone()
        };
        let mut far = self.start_part(&far_part, &near.fds)?;
        near.fds.clear();
        for player in aid.iter_mut().chain([&mut far]) {
            player.order(&Order::Go)?;
        }
        let outcome =
            wait_until_met(near.end.as_mut()).and_then(|()| use_near_end(near.end.as_mut()));
        // If the far side failed, its error explains the missing replies.
        far.end()?;
        drop(near);
        aid.map(|mut aid| aid.end()).transpose()?;
        outcome
    }

    /// The process that makes the others possible, where there is one.
    fn start_aid(&self, part: &Part) -> Result<Option<Player>> {
        let start = || {
            let aid = Part {
                side: Side::Aid,
                core: None,
                ..part.clone()
            };
            self.start_part(&aid, &[])
        };
        part.means.has_aid().then(start).transpose()
    }

    /// Runs a measurement with many rings. `part` is the near side's; the far side's part is
    /// derived from it. Returns the trials, and the core shares of the near and the far side.
    pub fn measure_session(
        &self,
        part: &SessionPart,
        far_core: usize,
    ) -> Result<(Vec<Trial>, [f64; 2])> {
        let pair_folder = tempfile::tempdir_in(self.folder.path()).context("making a folder")?;
        let near_part = SessionPart {
            folder: pair_folder.path().to_owned(),
            ..part.clone()
        };
        let far_part = SessionPart {
            side: Side::Far,
            core: Some(far_core),
            ..near_part.clone()
        };
        let patience = PATIENCE + part.time();
        let mut near = self.start_session(near_part)?;
        let mut far = self.start_session(far_part)?;
        for player in [&mut far, &mut near] {
            player.order(&Order::Go)?;
        }
        let (trials, sent, near_share) = near.tried(patience)?;
        let _ = far.order(&Order::Stop);
        let (_, received, far_share) = far.tried(PATIENCE)?;
        ensure!(
            received == sent,
            "the application received {received} of the {sent} packets that its rings took"
        );
        Ok((trials, [near_share, far_share]))
    }

    fn start_session(&self, part: SessionPart) -> Result<Player> {
        let name = format!("{:?} {:?}", part.rings, part.side);
        let (side, folder) = (part.side, part.folder.clone());
        self.start(
            name,
            side,
            &folder,
            &Order::PrepareSession(Box::new(part)),
            &[],
        )
    }

    fn start_part(&self, part: &Part, fds: &[OwnedFd]) -> Result<Player> {
        let name = format!("{:?} {:?}", part.means, part.side);
        let order = Order::Prepare(Box::new(part.clone()));
        self.start(name, part.side, &part.folder, &order, fds)
    }

    fn start(
        &self,
        name: String,
        side: Side,
        folder: &Path,
        prepare: &Order,
        fds: &[OwnedFd],
    ) -> Result<Player> {
        let log = folder.join(format!("{side:?}.log"));
        let child = Command::new(&self.program)
            .arg("role")
            .arg(self.listener.path())
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).context("making a log")?)
            // Ctrl-C on the terminal must reach only the measurement, which then shuts its
            // processes down gracefully.
            .process_group(0)
            .spawn()
            .context("starting a process of the measurement")?;
        let mut player = Player {
            name,
            child,
            log,
            connection: None,
            note: String::new(),
            fds: Vec::new(),
        };
        let deadline = Instant::now() + PATIENCE;
        player.connection = loop {
            match self.listener.accept() {
                Ok(connection) => break Some(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("meeting a process"),
            }
            player.still_there()?;
            if Instant::now() > deadline {
                bail!("{} did not connect", player.name);
            }
            stop::sleep(Duration::from_millis(1))?;
        };
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        player.send(prepare, &borrowed)?;
        match player.receive(PATIENCE)? {
            (Word::Ready { note }, fds) => {
                player.note = note;
                player.fds = fds;
                Ok(player)
            }
            (word, _) => bail!("{} sent {word:?} instead of \"ready\"", player.name),
        }
    }
}

fn wait_until_met(near: &mut dyn NearEnd) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !near.meet()? {
        stop::check()?;
        ensure!(
            Instant::now() < deadline,
            "the far side did not connect within {PATIENCE:?}"
        );
    }
    Ok(())
}

/// Removes shared memory whose name begins with `prefix`: some systems leave it by design.
fn remove_shared_memory(prefix: &str) {
    let left = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    for entry in left {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            // Another process may have removed it meanwhile.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// One process. It ends with this value.
#[derive(Debug)]
struct Player {
    name: String,
    child: Child,
    log: PathBuf,
    connection: Option<Connection>,
    note: String,
    fds: Vec<OwnedFd>,
}

impl Player {
    fn order(&mut self, order: &Order) -> Result<()> {
        self.send(order, &[])
    }

    fn send(&mut self, order: &Order, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let text = serde_json::to_vec(order).context("writing JSON")?;
        self.connection()?
            .send(&text, fds)
            .with_context(|| format!("sending an order to {}", self.name))
    }

    /// Stops it and returns its counts.
    fn end(&mut self) -> Result<Tally> {
        // A side whose socket closed with the other side has already stopped and reported its
        // counts.
        let _ = self.order(&Order::Stop);
        self.done(PATIENCE)
    }

    fn done(&mut self, patience: Duration) -> Result<Tally> {
        match self.receive(patience)? {
            (Word::Done(tally), _) => Ok(tally),
            (word, _) => bail!("{} sent {word:?} instead of its counts", self.name),
        }
    }

    fn tried(&mut self, patience: Duration) -> Result<(Vec<Trial>, u64, f64)> {
        match self.receive(patience)? {
            (
                Word::Tried {
                    trials,
                    packets,
                    core_share,
                },
                _,
            ) => Ok((trials, packets, core_share)),
            (word, _) => bail!("{} sent {word:?} instead of its trials", self.name),
        }
    }

    fn receive(&mut self, patience: Duration) -> Result<(Word, Vec<OwnedFd>)> {
        let deadline = Instant::now() + patience;
        while !self
            .connection()?
            .wait(Some(RECHECK_INTERVAL))
            .context("waiting for a process")?
        {
            stop::check()?;
            if Instant::now() > deadline {
                bail!(
                    "{} sent nothing for {patience:?}: {}",
                    self.name,
                    self.log()
                );
            }
        }
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let (length, fds) = match self.connection()?.recv(&mut buffer) {
            Ok(received) => received,
            Err(error) => {
                stop::check()?;
                bail!("{}: {error}: {}", self.name, self.log());
            }
        };
        match serde_json::from_slice(&buffer[..length]).context("reading JSON")? {
            Word::Failed(problem) => bail!("{}: {problem}", self.name),
            word => Ok((word, fds)),
        }
    }

    fn connection(&self) -> Result<&Connection> {
        self.connection
            .as_ref()
            .with_context(|| format!("{} is not connected", self.name))
    }

    fn still_there(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("asking after a process")? {
            bail!("{} ended at once ({status}): {}", self.name, self.log());
        }
        Ok(())
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        // The end of the log gives the reason.
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Closing the connection makes it exit. It then removes its own files.
        self.connection = None;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        // It may have ended meanwhile; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
