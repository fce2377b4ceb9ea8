//! The start of a journal: check, replay, begin a new generation.
//!
//! Every start begins a new generation with a snapshot of the recovered state. The new file takes
//! its place by a rename once it is complete on disk. Therefore no record is ever appended behind a
//! torn tail, and an interrupted start leaves the previous journal intact.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    batch::{BATCH_BYTES_MAX, Batch},
    disk::Disk,
    drive::Drive,
    error::{AppendError, OpenError},
    file::{FILES, FRESH, failed, file_of, file_path},
    header::Header,
    mark::{Mark, MarkBlock, SLOTS, slot_offset},
    record::{Lsn, RECORD_BYTES_MAX, encode},
    recovered::{AcceptedLoss, Recovered},
    replay::{replay_on, salvage},
    ring::Ring,
    sector::BLOCK_BYTES,
    snapshot::Cursor,
    writer::{Beginning, Journal, regions_bytes_max},
};

/// Least bytes of a batch: a header and the longest record, twice, so that half a batch holds one.
const BATCH_BYTES_MIN: usize = 64 * 1024;

/// Behavior of a start if the journal has lost acknowledged records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoss {
    /// The start fails and changes nothing.
    Refuse,
    /// The start renames the files and continues with the intact part.
    SetAside,
}

/// Where a journal is and how large it may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOptions {
    /// Its directory, for this journal alone. Made if it is missing.
    pub directory: PathBuf,
    /// Size of each of the two files in bytes: a multiple of 4096, at least twice a batch, at most
    /// 64 GiB. All durable regions together may take a quarter of it in a snapshot. Each takes its
    /// size and a small overhead.
    pub file_bytes: u64,
    /// Largest write in bytes: a multiple of 4096, 64 KiB to 16 MiB. Two batches of this size are
    /// in memory.
    pub batch_bytes: usize,
    /// Behavior if the journal has lost acknowledged records.
    pub on_loss: OnLoss,
}

impl JournalOptions {
    /// Files of 64 MiB, batches of 256 KiB.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            file_bytes: 64 << 20,
            batch_bytes: 256 << 10,
            on_loss: OnLoss::Refuse,
        }
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        let Self {
            file_bytes,
            batch_bytes,
            ..
        } = *self;
        if !batch_bytes.is_multiple_of(BLOCK_BYTES)
            || !(BATCH_BYTES_MIN..=BATCH_BYTES_MAX).contains(&batch_bytes)
        {
            return Err(OpenError::Option {
                name: "batch_bytes",
                found: batch_bytes as u64,
                expected: "a multiple of 4096, 64 KiB to 16 MiB",
            });
        }
        if !file_bytes.is_multiple_of(BLOCK_BYTES as u64)
            || !(2 * batch_bytes as u64..=64 << 30).contains(&file_bytes)
        {
            return Err(OpenError::Option {
                name: "file_bytes",
                found: file_bytes,
                expected: "a multiple of 4096, twice the batch_bytes to 64 GiB",
            });
        }
        Ok(())
    }
}

impl Journal {
    /// Opens the journal of `options`, or creates it, and returns its content. Waits for the disk:
    /// for the start of a daemon only.
    ///
    /// The returned content is already on disk: [`Journal::durable_lsn`] is not less than
    /// [`Recovered::last_lsn`].
    ///
    /// # Errors
    /// [`OpenError`]. Until all checks have passed, only the directory and its lock are created. At
    /// every moment the directory holds a journal that replays to the same state.
    pub fn open(options: &JournalOptions) -> Result<(Self, Recovered), OpenError> {
        options.check()?;
        Self::open_on(options, Drive::take(&options.directory)?)
    }
}

impl<D: Disk> Journal<D> {
    /// As [`Journal::open`], on a disk whose directory is that of `options`.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_on(options: &JournalOptions, mut disk: D) -> Result<(Self, Recovered), OpenError> {
        options.check()?;
        let recovered = recover(&mut disk, options.on_loss)?;
        check_regions(options, &recovered)?;
        let generation = recovered.generation + 1;
        let path = disk.directory().join(FRESH);
        let allocated = disk.make_fresh(options.file_bytes);
        allocated.map_err(failed("allocate", &path))?;
        let write = |offset, bytes: &[u8]| disk.write_fresh(offset, bytes);
        let mut snapshot = Snapshot::of(options, &recovered, &path, write);
        if !snapshot.write(&recovered)? {
            return Err(too_small(options, &recovered));
        }
        let mark = snapshot.mark()?;
        let batch = snapshot.batch;
        publish(&mut disk, file_of(generation))?;
        let allocated = disk.make_fresh(options.file_bytes);
        allocated.map_err(failed("allocate", &path))?;
        publish(&mut disk, file_of(generation + 1))?;
        let regions = recovered.regions.iter().map(|(&key, region)| {
            let size_bytes = region.bytes.len() as u64;
            (key, (size_bytes, region.name.as_str().into()))
        });
        let journal = Self::begin(Beginning {
            ring: Ring::new(disk),
            file_bytes: options.file_bytes,
            batches: [batch, Batch::new(options.batch_bytes)],
            regions: regions.collect(),
            last_key: recovered.last_key,
            mark,
        });
        Ok((journal, recovered))
    }
}

/// Reads the existing journal. If the operator accepts a loss, damaged files get a second name.
/// They keep the first one until a new generation is complete, so an interrupted start changes
/// nothing.
fn recover(disk: &mut impl Disk, on_loss: OnLoss) -> Result<Recovered, OpenError> {
    let refusal = match replay_on(disk) {
        Err(refusal) if on_loss == OnLoss::SetAside => refusal,
        replayed => return replayed,
    };
    let Some(what) = loss_in(&refusal) else {
        return Err(refusal);
    };
    let mut recovered = salvage(disk)?;
    let suffix = format!("lost-{}", recovered.generation + 1);
    let mut set_aside = Vec::new();
    for file in 0..FILES.len() {
        let path = file_path(disk.directory(), file);
        let aside = disk.set_aside(file, &suffix);
        set_aside.extend(aside.map_err(failed("give another name to", &path))?);
    }
    let directory = disk.directory().to_owned();
    disk.sync_names()
        .map_err(failed("sync the directory", &directory))?;
    recovered.accepted = Some(AcceptedLoss { what, set_aside });
    Ok(recovered)
}

/// Returns the loss that an operator accepts with this refusal; `None` if the refusal is no loss.
pub(super) fn loss_in(refusal: &OpenError) -> Option<String> {
    match refusal {
        OpenError::Lost(loss) => Some(loss.to_string()),
        OpenError::Damaged { path, offset, what } => Some(format!(
            "journal file {} is damaged at byte {offset}: {what}",
            path.display()
        )),
        _ => None,
    }
}

/// Checks whether the first snapshot of `recovered` fits into files of `options`.
///
/// # Errors
/// [`OpenError::TooSmall`]
pub(super) fn check_fit(options: &JournalOptions, recovered: &Recovered) -> Result<(), OpenError> {
    check_regions(options, recovered)?;
    let path = options.directory.join(FRESH);
    if Snapshot::of(options, recovered, &path, |_, _| Ok(())).write(recovered)? {
        return Ok(());
    }
    Err(too_small(options, recovered))
}

fn check_regions(options: &JournalOptions, recovered: &Recovered) -> Result<(), OpenError> {
    if recovered.regions_bytes() > regions_bytes_max(options.file_bytes) {
        return Err(too_small(options, recovered));
    }
    Ok(())
}

/// Puts the fresh file in the place of one of the two, for good.
fn publish(disk: &mut impl Disk, file: usize) -> Result<(), OpenError> {
    let directory = disk.directory().to_owned();
    let path = file_path(&directory, file);
    disk.sync_fresh()
        .map_err(failed("sync", &directory.join(FRESH)))?;
    disk.place_fresh(file)
        .map_err(failed("rename a file to", &path))?;
    disk.sync_names()
        .map_err(failed("sync the directory", &directory))
}

/// A snapshot that is written at once.
struct Snapshot<'a, W> {
    /// Writes bytes at an offset of the fresh file.
    write_at: W,
    path: &'a Path,
    file_bytes: u64,
    batch: Batch,
    next: Lsn,
    generation: u64,
}

impl<'a, W: FnMut(u64, &[u8]) -> io::Result<()>> Snapshot<'a, W> {
    /// Creates the snapshot of `recovered`, for the fresh file at `path`.
    fn of(options: &JournalOptions, recovered: &Recovered, path: &'a Path, write_at: W) -> Self {
        Self {
            write_at,
            path,
            file_bytes: options.file_bytes,
            batch: Batch::new(options.batch_bytes),
            next: Lsn(recovered.last_lsn.0 + 1),
            generation: recovered.generation + 1,
        }
    }

    /// `false` if it takes more than half of the file.
    fn write(&mut self, recovered: &Recovered) -> Result<bool, OpenError> {
        self.batch.begin_file(Header {
            generation: self.generation,
            first_lsn: self.next,
            last_key: recovered.last_key,
        });
        let mut cursor = Cursor::default();
        let mut scratch = Box::new([0; RECORD_BYTES_MAX]);
        loop {
            let stepped = cursor.step(recovered, usize::MAX, |body| {
                let bytes = encode(body, self.generation, self.next, &mut scratch)
                    .map_err(|_| AppendError::TooLong)?;
                if !self.batch.push(&scratch[..bytes], self.next) {
                    return Err(AppendError::Full);
                }
                self.next.0 += 1;
                Ok(Lsn(self.next.0 - 1))
            });
            if !self.flush()? {
                return Ok(false);
            }
            match stepped {
                Ok(Some(_)) => return Ok(true),
                Ok(None) | Err(AppendError::Full) => {}
                Err(error) => {
                    return Err(failed("write a snapshot to", self.path)(io::Error::other(
                        error,
                    )));
                }
            }
        }
    }

    /// Writes the batch and begins the next one behind it.
    fn flush(&mut self) -> Result<bool, OpenError> {
        let end = self.batch.end_sector_with(0);
        let offset = self.batch.file_offset();
        let bytes = self.batch.seal();
        if offset + bytes.len() as u64 > self.file_bytes / 2 {
            return Ok(false);
        }
        (self.write_at)(offset, bytes).map_err(failed("write a snapshot to", self.path))?;
        self.batch.begin(self.generation, end);
        Ok(true)
    }

    /// Writes the mark of the snapshot to all slots.
    fn mark(&mut self) -> Result<Mark, OpenError> {
        let mut mark = Mark {
            end_sector: self.batch.end_sector_with(0),
            last: Lsn(self.next.0 - 1),
            ..Mark::none(self.generation)
        };
        let mut block = MarkBlock::new();
        for slot in 0..SLOTS {
            mark.count = slot as u64;
            block.set(mark);
            (self.write_at)(slot_offset(slot), block.bytes())
                .map_err(failed("write a mark to", self.path))?;
        }
        Ok(mark)
    }
}

fn too_small(options: &JournalOptions, recovered: &Recovered) -> OpenError {
    OpenError::TooSmall {
        path: options.directory.clone(),
        found_bytes: recovered.regions_bytes(),
        latches: recovered.latches.len(),
        file_bytes: options.file_bytes,
    }
}
