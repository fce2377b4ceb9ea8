//! What a daemon of before may hold for a moment longer: the kernel takes the locks and sockets of a killed process back a little after its number is free.

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
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Time between two looks at a socket, whose owner hears of each.
pub(crate) const KNOCK_AGAIN: Duration = Duration::from_millis(100);

/// Locks `file`, which lies at `path`. Waits a moment for who has it.
pub(crate) fn lock_when_free(file: &File, path: &Path) -> Result<(), TryLockError> {
    when_free(
        path,
        LOOK_AGAIN,
        |error| matches!(error, TryLockError::WouldBlock),
        || file.try_lock(),
    )
}

/// Does what `take` does with `path`; again, for a moment, as long as that is because somebody has it.
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
                "somebody has this, maybe a daemon that was killed a moment ago: waiting until it is free"
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
    fn a_lock_that_is_let_go_in_time_is_had_and_one_that_is_not_is_refused() {
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
