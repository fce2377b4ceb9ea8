//! When to try again to reach a daemon that is not there.

use std::{
    ffi::{OsStr, OsString},
    future,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify},
};
use tokio::{
    net::unix::pipe::Receiver,
    time::{Duration, sleep},
};
use tracing::debug;

use super::backoff::Backoff;

/// Waits for the next attempt: until the backoff expires or the daemon's socket appears, whichever
/// is first.
pub(super) struct Comeback {
    backoff: Backoff,
    directory: PathBuf,
    name: OsString,
    watch: Option<Watch>,
}

impl Comeback {
    /// For the daemon that listens at `socket`.
    pub(super) fn of(socket: &Path) -> Self {
        Self {
            backoff: Backoff::new(),
            directory: socket.parent().unwrap_or(Path::new("/")).to_owned(),
            name: socket.file_name().unwrap_or_default().to_owned(),
            watch: None,
        }
    }

    /// The daemon was reached. Discards earlier events of its socket, because they do not concern
    /// the next attempt.
    pub(super) fn reached(&mut self) {
        if let Some(watch) = &mut self.watch {
            // A watch that is lost shows when it is waited for.
            let _ = watch.is_named(&self.name);
        }
    }

    /// The connection has ended after `lasted`.
    pub(super) fn connected_for(&mut self, lasted: Duration) {
        self.backoff.connected_for(lasted);
    }

    /// Waits until another attempt is worth it.
    pub(super) async fn next_attempt(&mut self) {
        let wait = self.backoff.take();
        tokio::select! {
            () = sleep(wait) => {}
            // It may not listen yet: the next attempts follow soon.
            () = self.appears() => self.backoff.hurry(),
        }
    }

    /// Waits until a file of the socket's name is made or changed.
    async fn appears(&mut self) {
        loop {
            if self.watch.is_none() {
                self.watch = Watch::open(&self.directory)
                    .inspect_err(|error| debug!(%error, "the daemon's directory is not watched"))
                    .ok();
            }
            let Some(watch) = &mut self.watch else {
                // Without a directory, or a watch to be had, there is the time.
                return future::pending().await;
            };
            if watch.receiver.readable().await.is_err() {
                self.watch = None;
                return future::pending().await;
            }
            match watch.is_named(&self.name) {
                Ok(true) => return,
                Ok(false) => {}
                // The directory was removed. Another one may be there.
                Err(Lost) => self.watch = None,
            }
        }
    }
}

/// The directory that was watched is there no more.
struct Lost;

/// An inotify watch of a directory.
struct Watch {
    inotify: Inotify,
    /// Another descriptor of the same: tokio waits for it as for a pipe.
    receiver: Receiver,
}

impl Watch {
    fn open(directory: &Path) -> std::io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        // The daemon creates the socket, listens, and then grants access, which shows as an
        // attribute change.
        let events = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_ONLYDIR;
        inotify.add_watch(directory, events)?;
        let receiver = Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)?;
        Ok(Self { inotify, receiver })
    }

    /// Reads the events, and returns whether one was about `name`.
    fn is_named(&mut self, name: &OsStr) -> Result<bool, Lost> {
        let mut named = false;
        loop {
            match self.inotify.read_events() {
                Ok(events) => {
                    for event in events {
                        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                            return Err(Lost);
                        }
                        // Events lost by an overflow may have been about `name`.
                        named |= event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)
                            || event.name.as_deref() == Some(name);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        // Clears tokio's readiness, which needs an empty read. An event that arrives now does not
        // fit into the buffer and stays queued.
        let _ = self.receiver.try_read(&mut [0]);
        Ok(named)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, os::unix::net::UnixDatagram};

    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    /// As good as for ever.
    const NEVER: Duration = Duration::from_secs(3600);

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test)
    }

    fn patient(socket: &Path) -> Comeback {
        let mut comeback = Comeback::of(socket);
        comeback.backoff = Backoff::waiting(NEVER);
        comeback
    }

    /// Whether an attempt is due already.
    async fn is_due(comeback: &mut Comeback) -> bool {
        let due = timeout(Duration::from_millis(50), comeback.next_attempt()).await;
        comeback.backoff = Backoff::waiting(NEVER);
        due.is_ok()
    }

    async fn is_due_soon(comeback: &mut Comeback) -> bool {
        let due = timeout(PATIENCE, comeback.next_attempt()).await;
        comeback.backoff = Backoff::waiting(NEVER);
        due.is_ok()
    }

    #[test]
    fn a_socket_that_appears_is_tried_at_once() {
        run(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("covalentd.sock");
            let mut comeback = patient(&path);
            assert!(!is_due(&mut comeback).await, "nothing happened");
            fs::write(directory.path().join("control.sock"), "").unwrap();
            assert!(!is_due(&mut comeback).await, "that is another one's");
            let socket = UnixDatagram::bind(&path).unwrap();
            assert!(is_due_soon(&mut comeback).await);
            assert!(!is_due(&mut comeback).await, "it was seen");

            // The socket was removed and recreated while control connected: no new event remains
            // when that connection closes.
            drop(socket);
            fs::remove_file(&path).unwrap();
            let _socket = UnixDatagram::bind(&path).unwrap();
            comeback.reached();
            assert!(!is_due(&mut comeback).await);
        });
    }

    #[test]
    fn a_directory_that_is_made_anew_is_watched_anew() {
        run(async {
            let above = tempfile::tempdir().unwrap();
            let directory = above.path().join("run");
            let path = directory.join("covalentd.sock");
            let mut comeback = patient(&path);
            assert!(!is_due(&mut comeback).await, "there is no directory");
            for _ in 0..2 {
                fs::create_dir(&directory).unwrap();
                assert!(!is_due(&mut comeback).await);
                let _socket = UnixDatagram::bind(&path).unwrap();
                assert!(is_due_soon(&mut comeback).await);
                fs::remove_dir_all(&directory).unwrap();
                assert!(!is_due(&mut comeback).await);
            }
        });
    }
}
