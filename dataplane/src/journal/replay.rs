//! Reading a journal back. Changes nothing.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    error::OpenError,
    file::{failed, file_path},
    header::{FIRST_SECTOR, Found, Header},
    record::{self, Body, Lsn, Record},
    recovered::Recovered,
    sector::{PAYLOAD_BYTES, SECTOR_BYTES, Seen, Stamp, payload, see},
};

/// Sectors looked at at a time behind the last whole batch.
const TAIL_SECTORS: u64 = 2048;

/// What the journal in `directory` holds: everything up to the last whole batch. A directory without a journal holds nothing.
///
/// # Errors
/// [`OpenError::Damaged`] if a batch is not as it was written and it is not only torn; [`OpenError::Io`] if a file cannot be read.
pub fn replay(directory: &Path) -> Result<Recovered, OpenError> {
    let [first, second] = [
        Source::open(file_path(directory, 0))?,
        Source::open(file_path(directory, 1))?,
    ];
    let (newer, older) = match (first, second) {
        (Opened::Missing, Opened::Missing) => return Ok(Recovered::default()),
        (Opened::Begun(a), Opened::Begun(b)) if a.header.generation > b.header.generation => {
            (a, Some(b))
        }
        (Opened::Begun(a), Opened::Begun(b)) => (b, Some(a)),
        (Opened::Begun(only), _) | (_, Opened::Begun(only)) => (only, None),
        (Opened::Blank(path), _) | (_, Opened::Blank(path)) => {
            return Err(OpenError::Damaged {
                path,
                offset: 0,
                what: "no file of this journal has a header".into(),
            });
        }
    };
    let mut recovered = Recovered::default();
    let end = newer.scan(&mut |_| Ok(()))?;
    if !end.has_snapshot {
        let base = older.ok_or_else(|| {
            newer.damaged(
                0,
                "its snapshot has no end, and no other file has what was before",
            )
        })?;
        if base.header.generation + 1 != newer.header.generation {
            return Err(newer.damaged(0, "the generation before it is missing"));
        }
        let base_end = base.apply(&mut recovered)?;
        if !base_end.has_snapshot {
            return Err(base.damaged(0, "its snapshot has no end"));
        }
        if base_end.torn.is_some() || base_end.next != newer.header.first_lsn {
            return Err(base.damaged(
                base_end.offset,
                "it ends before the generation after it begins",
            ));
        }
    }
    newer.apply(&mut recovered)?;
    recovered.generation = newer.header.generation;
    recovered.last_lsn = Lsn(end.next.0 - 1);
    if let Some(bytes) = end.torn {
        recovered.tear(&newer.path, end.offset, bytes);
    }
    Ok(recovered)
}

/// A file as it was found.
enum Opened {
    Missing,
    /// No header, or not all of it: it is being blanked, or its first batch is torn.
    Blank(PathBuf),
    Begun(Source),
}

/// A file with a header.
struct Source {
    path: PathBuf,
    file: File,
    sectors: u64,
    header: Header,
}

/// How far a file goes.
struct End {
    /// Number of the record that would come next.
    next: Lsn,
    /// Where, in bytes.
    offset: u64,
    /// A snapshot lies before it.
    has_snapshot: bool,
    /// Bytes of a torn batch from there on.
    torn: Option<u64>,
}

impl Source {
    fn open(path: PathBuf) -> Result<Opened, OpenError> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Opened::Missing),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let bytes = file.metadata().map_err(failed("read", &path))?.len();
        let mut first = [0; SECTOR_BYTES];
        read(&file, 0, &mut first).map_err(failed("read", &path))?;
        match Header::read(&first) {
            Found::None => Ok(Opened::Blank(path)),
            Found::Header(header) => Ok(Opened::Begun(Self {
                path,
                file,
                sectors: bytes.div_ceil(SECTOR_BYTES as u64),
                header,
            })),
            Found::Damaged => Err(OpenError::Damaged {
                path,
                offset: 0,
                what: "its header is not as it was written".into(),
            }),
        }
    }

    fn damaged(&self, offset: u64, what: impl Into<String>) -> OpenError {
        OpenError::Damaged {
            path: self.path.clone(),
            offset,
            what: what.into(),
        }
    }

    /// Sectors from `first` on; what lies behind the end of the file is zero.
    fn sectors(&self, first: u64, count: u64, space: &mut Vec<u8>) -> Result<(), OpenError> {
        space.clear();
        space.resize(count as usize * SECTOR_BYTES, 0);
        read(&self.file, first * SECTOR_BYTES as u64, space).map_err(failed("read", &self.path))
    }

    /// Does what every record says.
    fn apply(&self, recovered: &mut Recovered) -> Result<End, OpenError> {
        let mut whole = recovered.generation != 0;
        recovered.last_key = recovered.last_key.max(self.header.last_key);
        let end = self.scan(&mut |record| {
            whole |= record.body == Body::SnapshotEnd;
            recovered.apply(&record.body, whole)
        })?;
        recovered.generation = self.header.generation;
        Ok(end)
    }

    /// Reads every record of every whole batch, in order.
    fn scan(
        &self,
        visit: &mut dyn FnMut(&Record<'_>) -> Result<(), String>,
    ) -> Result<End, OpenError> {
        let generation = self.header.generation;
        let mut end = End {
            next: self.header.first_lsn,
            offset: 0,
            has_snapshot: false,
            torn: None,
        };
        let mut at = u64::from(FIRST_SECTOR);
        let (mut space, mut records) = (Vec::new(), Vec::new());
        loop {
            end.offset = at * SECTOR_BYTES as u64;
            self.sectors(at, 1, &mut space)?;
            let stamp = match space.first_chunk().map(|sector| see(sector, generation)) {
                Some(Seen::Whole(stamp)) => stamp,
                Some(Seen::Blank | Seen::Unfinished) | None => {
                    end.torn = self.tail(at, None)?;
                    return Ok(end);
                }
                Some(Seen::Damaged) => return Err(self.damaged(end.offset, STRANGE)),
            };
            if u64::from(stamp.first) != at || stamp.count == 0 {
                return Err(self.damaged(end.offset, MISPLACED));
            }
            self.sectors(at, stamp.count.into(), &mut space)?;
            let (sectors, _) = space.as_chunks::<SECTOR_BYTES>();
            if sectors
                .iter()
                .any(|sector| see(sector, generation) != Seen::Whole(stamp))
            {
                end.torn = self.tail(at, Some(stamp))?;
                return Ok(end);
            }
            records.clear();
            sectors
                .iter()
                .for_each(|sector| records.extend_from_slice(payload(sector)));
            self.records(&records, &mut end, visit)?;
            at += u64::from(stamp.count);
        }
    }

    /// Reads the records of a whole batch.
    fn records(
        &self,
        bytes: &[u8],
        end: &mut End,
        visit: &mut dyn FnMut(&Record<'_>) -> Result<(), String>,
    ) -> Result<(), OpenError> {
        let mut done = 0;
        while bytes[done..].iter().any(|&byte| byte != 0) {
            let offset =
                end.offset + (done / PAYLOAD_BYTES * SECTOR_BYTES + done % PAYLOAD_BYTES) as u64;
            let record = record::decode(&bytes[done..])
                .map_err(|problem| self.damaged(offset, format!("of a record, {problem}")))?;
            if record.generation != self.header.generation || record.lsn != end.next {
                let what = format!(
                    "record {} of generation {} is where record {} of generation {} should be",
                    record.lsn.0, record.generation, end.next.0, self.header.generation
                );
                return Err(self.damaged(offset, what));
            }
            visit(&record).map_err(|problem| {
                self.damaged(offset, format!("in record {}, {problem}", record.lsn.0))
            })?;
            end.has_snapshot |= record.body == Body::SnapshotEnd;
            end.next.0 += 1;
            done += record.bytes;
        }
        Ok(())
    }

    /// Looks at everything behind the last whole batch. There may be parts of one batch, which begins at sector `at`, and then nothing: a
    /// batch is written only when the one before it is on disk, so whatever is behind shows that this one was whole once. Returns how many
    /// bytes from there on may have been written.
    fn tail(&self, at: u64, known: Option<Stamp>) -> Result<Option<u64>, OpenError> {
        let mut stamp = known;
        let mut last = None;
        let mut space = Vec::new();
        let mut from = at;
        while from < self.sectors {
            let count = TAIL_SECTORS.min(self.sectors - from);
            self.sectors(from, count, &mut space)?;
            for (sector, number) in space.as_chunks().0.iter().zip(from..) {
                let offset = number * SECTOR_BYTES as u64;
                match see(sector, self.header.generation) {
                    Seen::Blank => continue,
                    Seen::Unfinished => {}
                    Seen::Damaged => return Err(self.damaged(offset, STRANGE)),
                    Seen::Whole(found) => {
                        if *stamp.get_or_insert(found) != found || u64::from(found.first) != at {
                            return Err(self.damaged(at * SECTOR_BYTES as u64, LATER));
                        }
                    }
                }
                last = Some(number);
                if stamp.is_some_and(|stamp| number >= at + u64::from(stamp.count)) {
                    return Err(self.damaged(at * SECTOR_BYTES as u64, LATER));
                }
            }
            from += count;
        }
        Ok(last.map(|last| (last + 1 - at) * SECTOR_BYTES as u64))
    }
}

const STRANGE: &str = "a sector ends with what nobody wrote there";
const MISPLACED: &str = "a sector belongs to a batch that begins elsewhere";
const LATER: &str = "a batch is not whole although a later one was written";

/// Fills `space` from `offset` on; behind the end of the file with zeros.
fn read(file: &File, offset: u64, space: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < space.len() {
        match file.read_at(&mut space[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    space[done..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, os::unix::fs::FileExt};

    use super::{
        super::{
            batch::Batch,
            record::{RECORD_BYTES_MAX, RegionKey, encode},
            sector::BLOCK_BYTES,
        },
        *,
    };

    /// Replays a file of generation 1 whose batches have records of these generations and numbers.
    fn replayed(batches: &[&[(u64, u64)]]) -> Result<Recovered, OpenError> {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(file_path(directory.path(), 1)).unwrap();
        let mut batch = Batch::new(4 * BLOCK_BYTES);
        batch.begin_file(Header {
            generation: 1,
            first_lsn: Lsn(1),
            last_key: 0,
        });
        let mut scratch = [0; RECORD_BYTES_MAX];
        let mut key = 0;
        for records in batches {
            for &(generation, lsn) in *records {
                key += 1;
                let name = format!("0/{key}");
                let body = match key {
                    1 => Body::SnapshotEnd,
                    _ => Body::Region {
                        key: RegionKey(key),
                        size_bytes: 8,
                        name: &name,
                    },
                };
                let bytes = encode(&body, generation, Lsn(lsn), &mut scratch).unwrap();
                assert!(batch.push(&scratch[..bytes], Lsn(lsn)));
            }
            let (end, offset) = (batch.end_sector_with(0), batch.file_offset());
            file.write_all_at(batch.seal(), offset).unwrap();
            batch.begin(1, end);
        }
        fs::write(file_path(directory.path(), 0), vec![0; BLOCK_BYTES]).unwrap();
        replay(directory.path())
    }

    #[test]
    fn records_follow_each_other_without_gap_or_repetition() {
        let whole = replayed(&[&[(1, 1), (1, 2)], &[(1, 3)], &[(1, 4), (1, 5)]]).unwrap();
        assert_eq!((whole.last_lsn, whole.regions.len()), (Lsn(5), 4));
        let wrong: [&[&[(u64, u64)]]; 6] = [
            &[&[(1, 1), (1, 3)]],
            &[&[(1, 1), (1, 1)]],
            &[&[(1, 1), (1, 2)], &[(1, 4)]],
            &[&[(1, 1), (1, 2)], &[(1, 2)]],
            &[&[(1, 2)]],
            // Of an earlier time of the same file.
            &[&[(1, 1), (0, 2)]],
        ];
        for records in wrong {
            let error = replayed(records).expect_err("it is no journal").to_string();
            assert!(error.contains("should be"), "{records:?}: {error}");
        }
    }
}
