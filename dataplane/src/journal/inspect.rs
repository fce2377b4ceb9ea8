//! Checks without a change whether a start would accept a journal. It reads the content as a start
//! does.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
    time::Instant,
};

use super::{
    drive::{Files, probe},
    error::OpenError,
    file::{LET_GO, LOCK, failed},
    open::{JournalOptions, OnLoss, check_fit, loss_in},
    recovered::{AcceptedLoss, Recovered},
    replay::{replay_on, salvage},
};

/// The result of an inspection.
#[derive(Debug)]
pub enum Inspected {
    /// A daemon has the journal open: it changes while it is read, so it was left out.
    InUse,
    /// A start would begin with this. Nothing is set aside where a loss is accepted.
    Free(Recovered),
}

/// Reads the journal of `options` as [`super::Journal::open`] does, and changes nothing.
///
/// # Errors
/// [`OpenError`], with which a start would be refused.
pub fn inspect(options: &JournalOptions) -> Result<Inspected, OpenError> {
    options.check()?;
    probe().map_err(OpenError::NoRing)?;
    let directory = &options.directory;
    // Before the lock is looked at: a daemon that takes it later writes to files of its own.
    let files = Files::open(directory).map_err(failed("open the files of", directory))?;
    if is_in_use(directory)? {
        return Ok(Inspected::InUse);
    }
    files.wait_for_writers(Instant::now() + LET_GO)?;
    let recovered = match (replay_on(&files), options.on_loss) {
        (Err(refusal), OnLoss::SetAside) => {
            let Some(what) = loss_in(&refusal) else {
                return Err(refusal);
            };
            let accepted = Some(AcceptedLoss {
                what,
                set_aside: Vec::new(),
            });
            Recovered {
                accepted,
                ..salvage(&files)?
            }
        }
        (replayed, _) => replayed?,
    };
    check_fit(options, &recovered)?;
    Ok(Inspected::Free(recovered))
}

/// Whether a process holds the lock. The check releases its own lock at once, so that it barely
/// delays a starting daemon.
fn is_in_use(directory: &Path) -> Result<bool, OpenError> {
    let path = directory.join(LOCK);
    let lock = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(failed("open the lock file", &path))?,
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
    }
}
