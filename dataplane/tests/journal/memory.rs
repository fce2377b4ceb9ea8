//! A disk in memory. It fails as configured, and knows its contents after a power failure.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    rc::Rc,
};

use covalent_dataplane::journal::{Action, Disk, Lsn, Step, Store};

use super::lane::Draw;

pub const SECTOR_BYTES: usize = 512;

/// How likely a power cut leaves a sector that was not synced, in 256: none, all, or any of them.
pub const LEFT: [usize; 5] = [0, 256, 20, 128, 236];

/// The fault in a step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It fails with this error number, and does nothing.
    Fail(i32),
    /// A sync fails with this error number. The data that it should have written stays lost for
    /// good, or not: as the system does.
    Drop(i32),
    /// A write is acknowledged and not done.
    Lose,
    /// A write is acknowledged and done elsewhere.
    Misdirect {
        file: usize,
        offset: u64,
    },
}

/// The kind of a step of a running journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Write,
    Sync,
}

/// Something that happened.
#[derive(Debug, Clone)]
enum Event {
    Made {
        inode: usize,
        bytes: usize,
    },
    Wrote {
        inode: usize,
        offset: usize,
        bytes: Vec<u8>,
    },
    Synced(usize),
    Named {
        file: usize,
        inode: usize,
    },
    NamesSynced,
    Acknowledged(Lsn),
}

#[derive(Debug, Clone)]
struct Owned {
    tag: u64,
    inode: usize,
    write: Option<(u64, Vec<u8>)>,
}

/// Chooses the fault in each step.
type Faults = Box<dyn FnMut(Seen, &mut Draw) -> Fault>;

struct World {
    inodes: Vec<Vec<u8>>,
    /// The contents that are on disk.
    synced: Vec<Vec<u8>>,
    names: [Option<usize>; 2],
    fresh: Option<usize>,
    trace: Vec<Event>,
    staged: Vec<Vec<Owned>>,
    chains: Vec<VecDeque<Owned>>,
    completions: VecDeque<(u64, i32)>,
    draw: Draw,
    faults: Faults,
    /// No step that was submitted to the disk completes.
    is_stalled: bool,
    /// Probability that a call takes only a part of the staged steps, in 256.
    takes_a_part: usize,
}

/// See the module. A clone is the same disk.
#[derive(Clone)]
pub struct Memory(Rc<RefCell<World>>);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self::with([None, None], seed)
    }

    fn with(files: [Option<Vec<u8>>; 2], seed: u64) -> Self {
        let mut inodes = Vec::new();
        let names = files.map(|bytes| {
            inodes.push(bytes?);
            Some(inodes.len() - 1)
        });
        Self(Rc::new(RefCell::new(World {
            synced: inodes.clone(),
            inodes,
            names,
            fresh: None,
            trace: Vec::new(),
            staged: Vec::new(),
            chains: Vec::new(),
            completions: VecDeque::new(),
            draw: Draw(seed),
            faults: Box::new(|_, _| Fault::None),
            is_stalled: false,
            takes_a_part: 0,
        })))
    }

    /// Lets `faults` choose the fault in each step from now on.
    pub fn fail_by(&self, faults: impl FnMut(Seen, &mut Draw) -> Fault + 'static) {
        self.0.borrow_mut().faults = Box::new(faults);
    }

    pub fn set_stalled(&self, is_stalled: bool) {
        self.0.borrow_mut().is_stalled = is_stalled;
    }

    pub fn take_parts(&self, of_256: usize) {
        self.0.borrow_mut().takes_a_part = of_256;
    }

    /// Notes that everything up to `lsn` was acknowledged.
    pub fn acknowledge(&self, lsn: Lsn) {
        self.0.borrow_mut().trace.push(Event::Acknowledged(lsn));
    }

    /// How many moments there were.
    pub fn moments(&self) -> usize {
        self.0.borrow().trace.len() + 1
    }

    /// Returns the moments directly before a sync of a file or of the names completed.
    pub fn barriers(&self) -> Vec<usize> {
        let world = self.0.borrow();
        let is_sync = |event: &Event| matches!(event, Event::Synced(_) | Event::NamesSynced);
        let events = world.trace.iter().enumerate();
        events
            .filter_map(|(at, event)| is_sync(event).then_some(at))
            .collect()
    }

    /// The last record of each batch that was acknowledged before a moment.
    pub fn acknowledged(&self, moment: usize) -> Vec<Lsn> {
        let world = self.0.borrow();
        let events = world.trace[..moment].iter();
        events
            .filter_map(|event| match event {
                Event::Acknowledged(lsn) => Some(*lsn),
                _ => None,
            })
            .collect()
    }

    /// Returns the contents of a file.
    pub fn bytes(&self, file: usize) -> Option<Vec<u8>> {
        let world = self.0.borrow();
        Some(world.inodes[world.names[file]?].clone())
    }

    /// Replaces the contents of a file.
    pub fn set_bytes(&self, file: usize, bytes: Vec<u8>) {
        let mut world = self.0.borrow_mut();
        let inode = world.names[file].expect("a file");
        world.inodes[inode] = bytes;
    }

    /// Returns the disk after a kill: all completed writes, and the current write of each chain,
    /// which has reached the disk.
    pub fn after_kill(&self, seed: u64) -> Self {
        let world = self.0.borrow();
        let mut inodes = world.inodes.clone();
        for step in world.chains.iter().filter_map(|chain| chain.front()) {
            if let Some((offset, bytes)) = &step.write {
                let from = *offset as usize;
                inodes[step.inode][from..from + bytes.len()].copy_from_slice(bytes);
            }
        }
        Self::with(world.names.map(|inode| Some(inodes[inode?].clone())), seed)
    }

    /// Returns the disk after a power failure at a moment, and the last acknowledged record. The
    /// disk has all synced data and any sectors of the rest, chosen by `draw`. It begins with the
    /// contents of `before`.
    pub fn after_cut(&self, before: &Self, moment: usize, draw: &mut Draw) -> (Self, Option<Lsn>) {
        let likely = LEFT[draw.below(LEFT.len())];
        self.after_cut_with(before, moment, likely, draw)
    }

    /// As [`Memory::after_cut`]. Each unsynced sector is present with a probability of `likely` in
    /// 256.
    pub fn after_cut_with(
        &self,
        before: &Self,
        moment: usize,
        likely: usize,
        draw: &mut Draw,
    ) -> (Self, Option<Lsn>) {
        let mut disk = Vec::new();
        let mut names = [before.bytes(0), before.bytes(1)].map(|bytes| {
            disk.push(bytes?);
            Some(disk.len() - 1)
        });
        let mut loose: Vec<Vec<(usize, Vec<u8>)>> = vec![Vec::new(); disk.len()];
        let mut loose_names = Vec::new();
        let mut acknowledged = None;
        for event in &self.0.borrow().trace[..moment] {
            match event {
                Event::Made { inode, bytes } => {
                    assert_eq!(*inode, disk.len());
                    disk.push(vec![0; *bytes]);
                    loose.push(Vec::new());
                }
                Event::Wrote {
                    inode,
                    offset,
                    bytes,
                } => loose[*inode].push((*offset, bytes.clone())),
                Event::Synced(inode) => {
                    for (offset, bytes) in loose[*inode].drain(..) {
                        disk[*inode][offset..offset + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                Event::Named { file, inode } => loose_names.push((*file, *inode)),
                Event::NamesSynced => {
                    for (file, inode) in loose_names.drain(..) {
                        names[file] = Some(inode);
                    }
                }
                Event::Acknowledged(lsn) => acknowledged = Some(*lsn),
            }
        }
        for (inode, writes) in loose.into_iter().enumerate() {
            for (offset, bytes) in writes {
                for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                    if draw.below(256) < likely {
                        let from = offset + at * SECTOR_BYTES;
                        // Only the beginning of a sector may be written. A torn sector of zeros
                        // looks like a complete one.
                        let is_torn = draw.below(16) == 0 && sector.iter().any(|&byte| byte != 0);
                        let count = match is_torn {
                            true => draw.below(sector.len()),
                            false => sector.len(),
                        };
                        disk[inode][from..from + count].copy_from_slice(&sector[..count]);
                    }
                }
            }
        }
        let kept = draw.below(loose_names.len() + 1);
        for (file, inode) in loose_names.into_iter().take(kept) {
            names[file] = Some(inode);
        }
        let files = names.map(|inode| Some(disk[inode?].clone()));
        (Self::with(files, draw.next()), acknowledged)
    }
}

impl World {
    /// Does a step of any chain.
    fn go_on(&mut self) {
        self.chains.retain(|chain| !chain.is_empty());
        if self.is_stalled || self.chains.is_empty() {
            return;
        }
        let at = self.draw.below(self.chains.len());
        let Some(step) = self.chains[at].pop_front() else {
            return;
        };
        let seen = match step.write {
            Some(_) => Seen::Write,
            None => Seen::Sync,
        };
        let fault = (self.faults)(seen, &mut self.draw);
        let result = self.done(&step, fault);
        self.completions.push_back((step.tag, result));
        if result < 0 {
            for step in self.chains[at].drain(..) {
                self.completions.push_back((step.tag, -libc::ECANCELED));
            }
        }
    }

    fn done(&mut self, step: &Owned, fault: Fault) -> i32 {
        if let Fault::Fail(number) = fault {
            return -number;
        }
        let Some((offset, bytes)) = &step.write else {
            if let Fault::Drop(number) = fault {
                self.drop_unsynced(step.inode);
                return -number;
            }
            self.sync(step.inode);
            return 0;
        };
        let (inode, offset) = match fault {
            Fault::Lose => return bytes.len() as i32,
            Fault::Misdirect { file, offset } => (self.names[file].expect("a file"), offset),
            _ => (step.inode, *offset),
        };
        let offset = offset as usize;
        // A misdirected write also stops at the end of the file.
        let room = self.inodes[inode].len().saturating_sub(offset);
        let bytes_there = bytes[..bytes.len().min(room)].to_vec();
        self.inodes[inode][offset..offset + bytes_there.len()].copy_from_slice(&bytes_there);
        self.trace.push(Event::Wrote {
            inode,
            offset,
            bytes: bytes_there,
        });
        bytes.len() as i32
    }

    fn sync(&mut self, inode: usize) {
        self.synced[inode].copy_from_slice(&self.inodes[inode]);
        self.trace.push(Event::Synced(inode));
    }

    /// Reverts the writes since the last sync, sector by sector, or not.
    fn drop_unsynced(&mut self, inode: usize) {
        let synced = self
            .trace
            .iter()
            .rposition(|event| matches!(event, Event::Synced(one) if *one == inode));
        let since = synced.map_or(0, |at| at + 1);
        for event in self.trace.split_off(since) {
            match event {
                Event::Wrote {
                    inode: one,
                    offset,
                    bytes,
                } if one == inode => {
                    for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        if self.draw.below(2) == 0 {
                            let from = offset + at * SECTOR_BYTES;
                            let span = from..from + sector.len();
                            self.inodes[inode][span.clone()]
                                .copy_from_slice(&self.synced[inode][span]);
                        }
                    }
                }
                other => self.trace.push(other),
            }
        }
    }
}

impl Store for Memory {
    fn directory(&self) -> &Path {
        Path::new("/memory")
    }

    fn length(&self, file: usize) -> io::Result<Option<u64>> {
        Ok(self.bytes(file).map(|bytes| bytes.len() as u64))
    }

    fn read_at(&self, file: usize, offset: u64, space: &mut [u8]) -> io::Result<usize> {
        let world = self.0.borrow();
        let inode = world.names[file].expect("a file");
        let rest = world.inodes[inode].get(offset as usize..).unwrap_or(&[]);
        let count = rest.len().min(space.len());
        space[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl Disk for Memory {
    fn make_fresh(&mut self, bytes: u64) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        let (inode, bytes) = (world.inodes.len(), bytes as usize);
        world.inodes.push(vec![0; bytes]);
        world.synced.push(vec![0; bytes]);
        world.fresh = Some(inode);
        world.trace.push(Event::Made { inode, bytes });
        Ok(())
    }

    fn write_fresh(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        let (inode, offset) = (world.fresh.expect("a file"), offset as usize);
        world.inodes[inode][offset..offset + bytes.len()].copy_from_slice(bytes);
        let bytes = bytes.to_vec();
        world.trace.push(Event::Wrote {
            inode,
            offset,
            bytes,
        });
        Ok(())
    }

    fn sync_fresh(&mut self) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        let inode = world.fresh.expect("a file");
        world.sync(inode);
        Ok(())
    }

    fn place_fresh(&mut self, file: usize) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        let inode = world.fresh.take().expect("a file");
        world.names[file] = Some(inode);
        world.trace.push(Event::Named { file, inode });
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.0.borrow_mut().trace.push(Event::NamesSynced);
        Ok(())
    }

    fn set_aside(&mut self, file: usize, suffix: &str) -> io::Result<Option<PathBuf>> {
        let is_there = self.0.borrow().names[file].is_some();
        let path = Path::new("/memory").join(format!("journal.{file}.{suffix}"));
        Ok(is_there.then_some(path))
    }

    unsafe fn stage(&mut self, chain: &[Step<'_>]) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        let chain = chain
            .iter()
            .map(|step| Owned {
                tag: step.tag,
                inode: world.names[step.file].expect("a file"),
                write: match step.action {
                    Action::Write { offset, bytes } => Some((offset, bytes.to_vec())),
                    Action::Sync => None,
                },
            })
            .collect();
        world.staged.push(chain);
        Ok(())
    }

    fn enter(&mut self) -> io::Result<usize> {
        let mut world = self.0.borrow_mut();
        let part = world.takes_a_part;
        let steps: usize = world.staged.iter().map(Vec::len).sum();
        let mut left = match world.draw.below(256) < part {
            true => world.draw.below(steps + 1),
            false => steps,
        };
        let taken = left;
        while left > 0 {
            let mut chain = world.staged.remove(0);
            let rest = chain.split_off(left.min(chain.len()));
            left -= chain.len();
            world.chains.push(chain.into());
            if !rest.is_empty() {
                world.staged.insert(0, rest);
            }
        }
        Ok(taken)
    }

    fn completion(&mut self) -> Option<(u64, i32)> {
        let mut world = self.0.borrow_mut();
        if world.draw.below(3) > 0 {
            world.go_on();
        }
        world.completions.pop_front()
    }

    fn wait(&mut self) -> io::Result<usize> {
        let taken = self.enter()?;
        self.0.borrow_mut().go_on();
        Ok(taken)
    }
}
