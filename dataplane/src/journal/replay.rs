//! Reading a journal back. Changes nothing.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    disk::Store,
    drive::Files,
    error::{Loss, OpenError},
    file::{failed, file_of, file_path},
    header::{Format, Found, Header},
    mark::{Mark, SLOTS, slot_offset},
    record::{self, Body, Lsn, Record},
    recovered::Recovered,
    sector::{PAYLOAD_BYTES, SECTOR_BYTES, Seen, Stamp, payload, see},
};

/// Sectors looked at at a time behind the last whole batch.
const TAIL_SECTORS: u64 = 2048;

/// Returns the content of the journal in `directory`, up to the last whole batch. A directory
/// without a journal is empty.
///
/// # Errors
/// - [`OpenError::Damaged`] if a batch differs from its written form and is not merely torn.
/// - [`OpenError::Lost`] if acknowledged records are missing.
/// - [`OpenError::Io`] if a file cannot be read.
pub fn replay(directory: &Path) -> Result<Recovered, OpenError> {
    let files = Files::open(directory).map_err(failed("open the files of", directory))?;
    replay_on(&files)
}

/// As [`replay`], from a disk.
///
/// # Errors
/// As [`replay`].
pub fn replay_on(store: &impl Store) -> Result<Recovered, OpenError> {
    let [first, second] = [Source::open(store, 0)?, Source::open(store, 1)?];
    let (newer, older) = match (first, second) {
        (Opened::Missing, Opened::Missing) => return Ok(Recovered::default()),
        (Opened::Begun(a), Opened::Begun(b)) if a.header.generation > b.header.generation => {
            (a, Some(b))
        }
        (Opened::Begun(a), Opened::Begun(b)) => (b, Some(a)),
        (Opened::Begun(only), _) | (_, Opened::Begun(only)) => {
            only.refuse_if_succeeded()?;
            (only, None)
        }
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
    newer.refuse_if_short(&end)?;
    if !end.has_snapshot {
        let base = older.ok_or_else(|| {
            newer.damaged(
                0,
                "its snapshot has no end, and no other file has the earlier records",
            )
        })?;
        if base.header.generation + 1 != newer.header.generation {
            return Err(newer.damaged(0, "the generation before it is missing"));
        }
        let base_end = base.apply(&mut recovered)?;
        base.refuse_if_short(&base_end)?;
        if !base_end.has_snapshot {
            return Err(base.damaged(0, "its snapshot has no end"));
        }
        if base_end.torn.is_some() || base_end.next != newer.header.first_lsn {
            return Err(base.damaged(
                base_end.offset,
                "it ends before the generation after it begins",
            ));
        }
        if base.is_succeeded() && end.offset == newer.first_offset() {
            return Err(newer.damaged(end.offset, FIRSTLESS));
        }
    }
    newer.apply(&mut recovered)?;
    recovered.generation = newer.header.generation;
    recovered.last_lsn = end.last();
    if let Some(bytes) = end.torn {
        recovered.tear(&newer.path, end.offset, bytes);
    }
    Ok(recovered)
}

/// Recovers from a journal that [`replay`] refuses: the longest intact prefix of the acknowledged
/// records. Changes nothing.
///
/// # Errors
/// [`OpenError::Io`] if a file cannot be read.
pub(super) fn salvage(store: &impl Store) -> Result<Recovered, OpenError> {
    let open = |file| match Source::open(store, file) {
        Ok(Opened::Begun(source)) => Ok(Some(source)),
        Ok(Opened::Missing | Opened::Blank(_)) | Err(OpenError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let mut sources = [open(0)?, open(1)?];
    sources.sort_by_key(|source| source.as_ref().map(|it| it.header.generation));
    let [older, newer] = sources;
    let mut recovered = Recovered::default();
    let Some(newer) = newer else {
        return Ok(recovered);
    };
    let seen = [Some(&newer), older.as_ref()].into_iter().flatten();
    let generation = seen.clone().map(Source::highest_generation).max();
    let known = seen.map(Source::highest_lsn).max();
    if newer.has_snapshot()? {
        newer.apply_whole(&mut recovered)?;
    } else if let Some(base) = older
        && base.header.generation + 1 == newer.header.generation
        && base.has_snapshot()?
    {
        base.apply_whole(&mut recovered)?;
        // A gap ends the intact prefix.
        if recovered.last_lsn.0 + 1 == newer.header.first_lsn.0 {
            newer.apply_whole(&mut recovered)?;
        }
    }
    // As far as the files show, no number of a generation, record or region is used twice.
    recovered.generation = generation.unwrap_or(0);
    recovered.last_lsn = recovered.last_lsn.max(known.unwrap_or_default());
    recovered.last_key = recovered.last_key.max(newer.header.last_key);
    Ok(recovered)
}

/// A file as it was found.
enum Opened<'a, S> {
    Missing,
    /// No header, or not all of it: it is being blanked, or its first batch is torn.
    Blank(PathBuf),
    Begun(Source<'a, S>),
}

/// A file with a header.
struct Source<'a, S> {
    store: &'a S,
    file: usize,
    path: PathBuf,
    sectors: u64,
    header: Header,
    format: Format,
    /// The last mark that is whole.
    mark: Mark,
}

/// How far a file goes.
struct End {
    /// Number of the record that would come next.
    next: Lsn,
    /// Where, in bytes.
    offset: u64,
    /// Offsets of the last four whole batches in bytes, the last one first; 0 if there is none.
    begins: [u64; 4],
    /// A snapshot lies before it.
    has_snapshot: bool,
    /// Bytes of a torn batch from there on.
    torn: Option<u64>,
}

impl End {
    const fn last(&self) -> Lsn {
        Lsn(self.next.0 - 1)
    }
}

impl<'a, S: Store> Source<'a, S> {
    fn open(store: &'a S, file: usize) -> Result<Opened<'a, S>, OpenError> {
        let path = file_path(store.directory(), file);
        let Some(bytes) = store.length(file).map_err(failed("read", &path))? else {
            return Ok(Opened::Missing);
        };
        let sector = |offset| {
            let mut sector = [0; SECTOR_BYTES];
            read(store, file, offset, &mut sector).map_err(failed("read", &path))?;
            Ok(sector)
        };
        let (header, format) = match Header::read(&sector(0)?) {
            Found::None => return Ok(Opened::Blank(path)),
            Found::Header(header, format) if file_of(header.generation) == file => (header, format),
            Found::Header(..) | Found::Damaged => {
                return Err(OpenError::Damaged {
                    path,
                    offset: 0,
                    what: "its header is not as it was written".into(),
                });
            }
        };
        let mut mark = Mark::none(header.generation);
        if format == Format::Second {
            for slot in 0..SLOTS {
                let found = Mark::read(&sector(slot_offset(slot))?);
                let is_later =
                    |it: &Mark| it.generation == header.generation && it.count > mark.count;
                mark = found.filter(is_later).unwrap_or(mark);
            }
        }
        Ok(Opened::Begun(Self {
            store,
            file,
            path,
            sectors: bytes.div_ceil(SECTOR_BYTES as u64),
            header,
            format,
            mark,
        }))
    }

    fn first_offset(&self) -> u64 {
        u64::from(self.format.first_sector()) * SECTOR_BYTES as u64
    }

    /// Whether the generation after this one had begun when something of that was acknowledged.
    const fn is_succeeded(&self) -> bool {
        self.mark.is_succeeded
    }

    /// The highest generation that shows.
    fn highest_generation(&self) -> u64 {
        self.header.generation + u64::from(self.is_succeeded())
    }

    /// The highest record that shows, whole or not.
    fn highest_lsn(&self) -> Lsn {
        self.mark.last.max(Lsn(self.header.first_lsn.0 - 1))
    }

    fn loss(&self, end: &End, expected_bytes: u64, expected: Lsn) -> Loss {
        Loss {
            path: self.path.clone(),
            expected_bytes,
            expected,
            found_bytes: end.offset,
            found: end.last(),
        }
    }

    /// Refuses a file that ends before its acknowledged end, or has lost its marks.
    fn refuse_if_short(&self, end: &End) -> Result<(), OpenError> {
        if self.format == Format::First {
            return Ok(());
        }
        let marked_bytes = u64::from(self.mark.end_sector) * SECTOR_BYTES as u64;
        if end.offset < marked_bytes {
            return Err(OpenError::Lost(self.loss(
                end,
                marked_bytes,
                self.mark.last,
            )));
        }
        // A power cut may leave a last, unacknowledged batch, and lose the marks of at most three
        // before it.
        if marked_bytes < end.begins[3] {
            return Err(self.damaged(slot_offset(0), MARKLESS));
        }
        Ok(())
    }

    /// Refuses the only file with a header if its mark shows that a later file was begun.
    fn refuse_if_succeeded(&self) -> Result<(), OpenError> {
        if !self.is_succeeded() {
            return Ok(());
        }
        let generation = self.header.generation + 1;
        Err(OpenError::Damaged {
            path: file_path(self.store.directory(), file_of(generation)),
            offset: 0,
            what: format!(
                "generation {generation} was acknowledged up to record {} or beyond, and there is \
                 no header of it",
                self.mark.last.0 + 1
            ),
        })
    }

    fn has_snapshot(&self) -> Result<bool, OpenError> {
        let mut has_snapshot = false;
        let scanned = self.scan(&mut |record| {
            has_snapshot |= record.body == Body::SnapshotEnd;
            Ok(())
        });
        match scanned {
            Err(error @ OpenError::Io { .. }) => Err(error),
            _ => Ok(has_snapshot),
        }
    }

    /// Applies every record up to the first one that is not intact.
    fn apply_whole(&self, recovered: &mut Recovered) -> Result<(), OpenError> {
        let mut last = Lsn(self.header.first_lsn.0 - 1);
        let mut whole = recovered.generation != 0;
        let scanned = self.scan(&mut |record| {
            whole |= record.body == Body::SnapshotEnd;
            recovered.apply(&record.body, whole)?;
            last = record.lsn;
            Ok(())
        });
        recovered.last_lsn = last;
        recovered.generation = self.header.generation;
        match scanned {
            Err(error @ OpenError::Io { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    fn damaged(&self, offset: u64, what: impl Into<String>) -> OpenError {
        OpenError::Damaged {
            path: self.path.clone(),
            offset,
            what: what.into(),
        }
    }

    /// Reads sectors from `first` on. Bytes behind the end of the file are zero.
    fn sectors(&self, first: u64, count: u64, space: &mut Vec<u8>) -> Result<(), OpenError> {
        space.clear();
        space.resize(count as usize * SECTOR_BYTES, 0);
        let offset = first * SECTOR_BYTES as u64;
        read(self.store, self.file, offset, space).map_err(failed("read", &self.path))
    }

    /// Applies every record.
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
            begins: [0; 4],
            has_snapshot: false,
            torn: None,
        };
        let mut at = u64::from(self.format.first_sector());
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
            let [one, two, three, _] = end.begins;
            end.begins = [end.offset, one, two, three];
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

    /// Scans everything behind the last whole batch. Only parts of one batch, which begins at
    /// sector `at`, may be there. A batch is written only when the previous one is on disk, so any
    /// later batch shows that this one was whole once. Returns how many bytes from `at` on may have
    /// been written.
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

const STRANGE: &str = "a sector ends with bytes that the daemon did not write";
const MISPLACED: &str = "a sector belongs to a batch that begins elsewhere";
const LATER: &str = "a batch is incomplete although a later one was written";

const FIRSTLESS: &str = "its first batch was acknowledged and is incomplete";
const MARKLESS: &str = "no slot has the latest mark that was written";

/// Fills `space` from `offset` on; behind the end of the file with zeros.
fn read(store: &impl Store, file: usize, offset: u64, space: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < space.len() {
        match store.read_at(file, offset + done as u64, &mut space[done..]) {
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

    use std::{
        fs::{self, File},
        os::unix::fs::FileExt,
    };

    use super::{
        super::{
            batch::Batch,
            mark::MarkBlock,
            record::{RECORD_BYTES_MAX, RegionKey, encode},
            sector::BLOCK_BYTES,
        },
        *,
    };

    /// Replays a file of generation 1. Each inner slice is a batch of records, given as generation
    /// and number.
    fn replayed(batches: &[&[(u64, u64)]]) -> Result<Recovered, OpenError> {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(file_path(directory.path(), 1)).unwrap();
        let mut batch = Batch::new(5 * BLOCK_BYTES);
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
            let mut block = MarkBlock::new();
            block.set(Mark {
                count: 1,
                end_sector: end,
                ..Mark::none(1)
            });
            file.write_all_at(block.bytes(), slot_offset(1)).unwrap();
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
