//! Handles: numbers that name objects of one kind on one thread.
//!
//! | bits | content |
//! |---|---|
//! | 60..64 | kind of object, 1 to 15 |
//! | 40..60 | the thread whose table it is in; 0 for objects that all threads share |
//! | 24..40 | generation of the entry: a closed handle does not name its successor |
//! | 0..24 | index of the entry |
//!
//! No handle is 0, so zeroed memory names nothing.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::status::{Failure, Result, invalid};

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 16;
const THREAD_BITS: u32 = 20;

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Device = 1,
    Pipe = 2,
    Client = 3,
    GroupBuilder = 4,
    Region = 5,
    Verbs = 6,
    ReceiveQueue = 8,
    Group = 9,
    Notice = 10,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Pipe => "pipe",
            Self::Client => "client",
            Self::GroupBuilder => "group builder",
            Self::Region => "region",
            Self::Verbs => "verb queue",
            Self::ReceiveQueue => "receive queue",
            Self::Group => "group",
            Self::Notice => "notice",
        }
    }
}

/// The number of the calling thread; never 0.
pub(crate) fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        // Numbers repeat after about a million threads. By then the earlier threads' handles are
        // long closed.
        let count = LAST.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(count % (low_bits(THREAD_BITS)) + 1);
    }
    NUMBER.get()
}

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    kind: Kind,
    thread: u64,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u64,
    object: Option<T>,
}

impl<T> Table<T> {
    /// An empty table. `thread` is [`this_thread`], or 0 for a table that all threads share.
    pub(crate) const fn new(kind: Kind, thread: u64) -> Self {
        Self {
            kind,
            thread,
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Puts an object in and names it.
    pub(crate) fn insert(&mut self, object: T) -> Result<u64> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() as u64 > low_bits(INDEX_BITS) => {
                return Err(invalid(format!(
                    "too many open handles of one kind: {}",
                    self.entries.len()
                )));
            }
            None => {
                self.entries.push(Entry {
                    generation: 0,
                    object: None,
                });
                (self.entries.len() - 1) as u32
            }
        };
        let entry = &mut self.entries[index as usize];
        entry.object = Some(object);
        let thread = self.thread << (INDEX_BITS + GENERATION_BITS);
        Ok((self.kind as u64) << 60 | thread | entry.generation << INDEX_BITS | u64::from(index))
    }

    /// The object that a handle names.
    pub(crate) fn get(&mut self, handle: u64) -> Result<&mut T> {
        let (index, generation) = self.place(handle)?;
        let kind = self.kind;
        match self.entries.get_mut(index) {
            Some(Entry {
                generation: current,
                object: Some(object),
            }) if *current == generation => Ok(object),
            _ => Err(closed(kind, handle)),
        }
    }

    /// As [`Table::get`], to look only.
    pub(crate) fn get_shared(&self, handle: u64) -> Result<&T> {
        let (index, generation) = self.place(handle)?;
        match self.entries.get(index) {
            Some(Entry {
                generation: current,
                object: Some(object),
            }) if *current == generation => Ok(object),
            _ => Err(closed(self.kind, handle)),
        }
    }

    /// Takes an object out; its handle names nothing from now on.
    pub(crate) fn remove(&mut self, handle: u64) -> Result<T> {
        let (index, generation) = self.place(handle)?;
        let kind = self.kind;
        let entry = self
            .entries
            .get_mut(index)
            .filter(|entry| entry.generation == generation);
        let Some(entry) = entry else {
            return Err(closed(kind, handle));
        };
        let object = entry.object.take().ok_or_else(|| closed(kind, handle))?;
        entry.generation = (generation + 1) & low_bits(GENERATION_BITS);
        // An entry whose numbers are used up stays empty: an old handle would name its next object.
        if entry.generation != 0 {
            self.free.push(index as u32);
        }
        Ok(object)
    }

    /// Where a handle points, if it is of this table.
    fn place(&self, handle: u64) -> Result<(usize, u64)> {
        if handle >> 60 != self.kind as u64 {
            return Err(invalid(format!("{handle:#x} is no {}", self.kind.name())));
        }
        let thread = handle >> (INDEX_BITS + GENERATION_BITS) & low_bits(THREAD_BITS);
        if thread != self.thread {
            return Err(invalid(format!(
                "the {} {handle:#x} was opened by another thread",
                self.kind.name()
            )));
        }
        let generation = handle >> INDEX_BITS & low_bits(GENERATION_BITS);
        Ok(((handle & low_bits(INDEX_BITS)) as usize, generation))
    }
}

fn closed(kind: Kind, handle: u64) -> Failure {
    invalid(format!("the {} {handle:#x} is not open", kind.name()))
}

const fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_later_objects_makes_an_old_handle_name_one() {
        let mut table = Table::new(Kind::Pipe, 3);
        let first = table.insert(0).ok();
        let mut last = first;
        for object in 1..=1 << GENERATION_BITS {
            assert!(last.is_some_and(|last| table.remove(last).is_ok()));
            last = table.insert(object).ok();
            assert!(last.is_some() && last != first, "object {object}");
        }
        assert!(first.is_some_and(|first| table.get(first).is_err()));
    }

    #[test]
    fn a_handle_names_its_object_until_it_is_closed_and_never_another() {
        let mut table = Table::new(Kind::Pipe, 3);
        let (Ok(one), Ok(two)) = (table.insert("one"), table.insert("two")) else {
            panic!("not inserted")
        };
        assert!(table.get(one).is_ok_and(|object| *object == "one"));
        assert!(table.remove(one).is_ok_and(|object| object == "one"));
        assert!(table.get(one).is_err() && table.remove(one).is_err());
        let Ok(three) = table.insert("three") else {
            panic!("not inserted")
        };
        assert_ne!(one, three);
        assert!(table.get(one).is_err(), "the entry is another's now");
        assert!(table.get(three).is_ok_and(|object| *object == "three"));
        assert!(table.get(two).is_ok_and(|object| *object == "two"));
    }

    #[test]
    fn handles_of_other_kinds_other_threads_and_of_none_are_refused() {
        let mut table = Table::new(Kind::Pipe, 3);
        let mut other_kind = Table::new(Kind::Region, 3);
        let mut other_thread = Table::new(Kind::Pipe, 4);
        assert!(table.insert(()).is_ok());
        for foreign in [other_kind.insert(()), other_thread.insert(())] {
            assert!(foreign.is_ok_and(|handle| table.get(handle).is_err()));
        }
        for nobodys in [0, 1, u64::MAX, (Kind::Pipe as u64) << 60 | 3 << 40 | 77] {
            assert!(table.get(nobodys).is_err());
            assert!(table.remove(nobodys).is_err());
        }
    }

    #[test]
    fn threads_have_distinct_numbers() {
        let here = this_thread();
        assert_eq!(here, this_thread());
        let there = std::thread::spawn(this_thread).join();
        assert!(there.is_ok_and(|there| there != here && there != 0));
    }
}
