//! Waits for locks and sockets of an earlier daemon: the kernel releases those of a killed process
//! shortly after its process number is free.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use tracing::info;

/// How long that may take: a daemon with gigabytes of pipes ends in some tenths of a second.
const LET_GO: Duration = Duration::from_secs(2);

/// Time between two looks at a lock.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Interval between attempts on a socket. Its owner sees each attempt.
pub(crate) const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Locks `file` at `path`. Waits a moment for the present holder.
pub(crate) fn lock_when_free(file: &File, path: &Path) -> Result<(), TryLockError> {
    when_free(
        path,
        RECHECK_INTERVAL,
        |error| matches!(error, TryLockError::WouldBlock),
        || file.try_lock(),
    )
}

/// Calls `take` for `path`. Retries for a moment as long as another process holds it.
pub(crate) fn when_free<T, E>(
    path: &Path,
    pause: Duration,
    is_taken: impl Fn(&E) -> bool,
    mut take: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut deadline = None;
    loop {
        let taken = take();
        match &taken {
            Err(error) if is_taken(error) => {}
            _ => return taken,
        }
        let deadline = *deadline.get_or_insert_with(|| {
            info!(
                path = %path.display(),
                seconds = LET_GO.as_secs(),
                "another process holds this, maybe a daemon that was just killed: waiting until it \
                 is free"
            );
            Instant::now() + LET_GO
        });
        if Instant::now() >= deadline {
            return taken;
        }
        sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use super::*;

    #[test]
    fn a_lock_released_in_time_is_taken_and_a_held_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let open = || {
            File::options()
                .create(true)
                .append(true)
                .open(&path)
                .unwrap()
        };
        let (killed, next, third) = (open(), open(), open());
        killed.try_lock().unwrap();
        let ending = thread::spawn(move || {
            sleep(Duration::from_millis(200));
            drop(killed);
        });
        lock_when_free(&next, &path).unwrap();
        ending.join().unwrap();
        let begun = Instant::now();
        assert!(matches!(
            lock_when_free(&third, &path),
            Err(TryLockError::WouldBlock)
        ));
        assert!(begun.elapsed() >= LET_GO);
    }
}
