//! The start of a journal: check, replay, begin anew.
//!
//! Every start begins a new generation, with a snapshot of what was recovered, in a file that takes its place by a rename once it is whole on disk. So
//! nothing is ever appended behind a torn tail, and a start that is interrupted leaves what was there.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf};

use super::{
    batch::{BATCH_BYTES_MAX, Batch},
    error::{AppendError, OpenError},
    file::{Directory, failed, file_of, file_path},
    header::Header,
    record::{Lsn, RECORD_BYTES_MAX, encode},
    recovered::Recovered,
    replay::replay,
    ring::{Ring, probe},
    sector::BLOCK_BYTES,
    snapshot::Cursor,
    writer::{Beginning, Journal, regions_bytes_max},
};

/// Least bytes of a batch: a header and the longest record, twice, so that half of it holds one.
const BATCH_BYTES_MIN: usize = 64 * 1024;

/// Where a journal is and how large it may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOptions {
    /// Its directory, for this journal alone. Made if it is missing.
    pub directory: PathBuf,
    /// Size of each of the two files in bytes: a multiple of 4096, at least twice a batch, at most 64 GiB. All durable regions together may take a
    /// quarter of it in a snapshot, each its size and some bytes beside it.
    pub file_bytes: u64,
    /// Most bytes of one write, a multiple of 4096, 64 KiB to 16 MiB. There are two batches of this size in memory.
    pub batch_bytes: usize,
}

impl JournalOptions {
    /// Files of 64 MiB, batches of 256 KiB.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            file_bytes: 64 << 20,
            batch_bytes: 256 << 10,
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
    /// Opens the journal of `options`, or makes it, and tells what it held. Waits for the disk: it is for the start of a daemon.
    ///
    /// What the journal held is on disk already in what this returns; [`Journal::durable_lsn`] is not less than [`Recovered::last_lsn`].
    ///
    /// # Errors
    /// [`OpenError`]. Before everything that can be checked is checked, nothing but the directory and its lock is made; and at every moment the
    /// directory holds a journal that replays to the same.
    pub fn open(options: &JournalOptions) -> Result<(Self, Recovered), OpenError> {
        options.check()?;
        probe().map_err(OpenError::NoRing)?;
        let directory = Directory::take(&options.directory)?;
        let recovered = replay(&options.directory)?;
        if recovered.regions_bytes() > regions_bytes_max(options.file_bytes) {
            return Err(too_small(options, &recovered));
        }
        let generation = recovered.generation + 1;
        let mut snapshot = Snapshot {
            file: directory.make(options.file_bytes)?,
            path: file_path(&options.directory, file_of(generation)),
            file_bytes: options.file_bytes,
            batch: Batch::new(options.batch_bytes),
            next: Lsn(recovered.last_lsn.0 + 1),
            generation,
        };
        if !snapshot.write(&recovered)? {
            return Err(too_small(options, &recovered));
        }
        let Snapshot {
            file: active,
            batch,
            next,
            ..
        } = snapshot;
        let sector = batch.end_sector_with(0);
        directory.publish(&active, file_of(generation))?;
        let spare = directory.make(options.file_bytes)?;
        directory.publish(&spare, file_of(generation + 1))?;
        let files = if file_of(generation) == 0 {
            [active, spare]
        } else {
            [spare, active]
        };
        let journal = Self::begin(Beginning {
            directory,
            ring: Ring::new(files).map_err(OpenError::NoRing)?,
            file_bytes: options.file_bytes,
            batches: [batch, Batch::new(options.batch_bytes)],
            regions: recovered
                .regions
                .iter()
                .map(|(&key, region)| {
                    (
                        key,
                        (region.bytes.len() as u64, region.name.as_str().into()),
                    )
                })
                .collect(),
            last_key: recovered.last_key,
            generation,
            sector,
            next,
        });
        Ok((journal, recovered))
    }
}

/// A snapshot that is written at once.
struct Snapshot {
    file: File,
    path: PathBuf,
    file_bytes: u64,
    batch: Batch,
    next: Lsn,
    generation: u64,
}

impl Snapshot {
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
                    return Err(failed("write a snapshot to", &self.path)(
                        std::io::Error::other(error),
                    ));
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
        self.file
            .write_all_at(bytes, offset)
            .map_err(failed("write a snapshot to", &self.path))?;
        self.batch.begin(self.generation, end);
        Ok(true)
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
