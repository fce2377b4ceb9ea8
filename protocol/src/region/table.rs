//! The regions that verbs can reach, by key and by name.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::fmt;

use super::{
    Memory, Rights,
    queue::{QUEUE_BYTES_MIN, Queue},
};

/// A region to take in.
#[derive(Debug)]
pub struct Registration<M> {
    /// Name on the node.
    pub name: String,
    /// The key that verbs must present. It names one region for good: a verb that was admitted for
    /// a region removed since must not find another one.
    pub rkey: u32,
    /// The operations that verbs may perform on it.
    pub rights: Rights,
    /// The registering owner, as passed to [`super::Engine::remove_owner`].
    pub owner: u64,
    /// The memory.
    pub memory: M,
}

/// The region cannot be taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterError {
    /// A region of this name is registered already.
    NameInUse,
    /// A region with this key is registered already.
    KeyInUse,
    /// A receive queue would grant rights to its memory too.
    MixedRights,
    /// A receive queue would have no space for any message.
    QueueTooSmall,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameInUse => "a region of this name is registered already",
            Self::KeyInUse => "a region with this key is registered already",
            Self::MixedRights => "a receive queue grants `send` and nothing else",
            Self::QueueTooSmall => {
                return write!(f, "a receive queue has {QUEUE_BYTES_MIN} bytes at least");
            }
        })
    }
}

impl core::error::Error for RegisterError {}

/// A region with its rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Region<M> {
    pub memory: M,
    pub rights: Rights,
    /// If it is a receive queue.
    pub queue: Option<Queue>,
    owner: u64,
}

/// Regions by key, and keys by name. Allocates when a region is taken in only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Regions<M> {
    by_rkey: BTreeMap<u32, Region<M>>,
    rkeys: BTreeMap<String, u32>,
}

impl<M> Regions<M> {
    pub const fn new() -> Self {
        Self {
            by_rkey: BTreeMap::new(),
            rkeys: BTreeMap::new(),
        }
    }

    /// Whether [`Regions::insert`] would take it.
    pub fn check(&self, new: &Registration<M>) -> Result<(), RegisterError>
    where
        M: Memory,
    {
        if self.rkeys.contains_key(&new.name) {
            return Err(RegisterError::NameInUse);
        }
        if self.by_rkey.contains_key(&new.rkey) {
            return Err(RegisterError::KeyInUse);
        }
        if new.rights.send && new.rights != Rights::SEND {
            return Err(RegisterError::MixedRights);
        }
        if new.rights.send && new.memory.size_bytes() < QUEUE_BYTES_MIN {
            return Err(RegisterError::QueueTooSmall);
        }
        Ok(())
    }

    pub fn insert(&mut self, new: Registration<M>) -> Result<(), RegisterError>
    where
        M: Memory,
    {
        self.check(&new)?;
        let queue = new.rights.send.then(Queue::default);
        self.rkeys.insert(new.name, new.rkey);
        self.by_rkey.insert(
            new.rkey,
            Region {
                memory: new.memory,
                rights: new.rights,
                queue,
                owner: new.owner,
            },
        );
        Ok(())
    }

    pub fn get(&self, rkey: u32) -> Option<&Region<M>> {
        self.by_rkey.get(&rkey)
    }

    pub fn get_mut(&mut self, rkey: u32) -> Option<&mut Region<M>> {
        self.by_rkey.get_mut(&rkey)
    }

    /// The region registered under `name`, with its key.
    pub fn find(&self, name: &str) -> Option<(u32, &Region<M>)> {
        let rkey = *self.rkeys.get(name)?;
        Some((rkey, self.get(rkey)?))
    }

    /// Forgets one region and gives its memory.
    pub fn remove(&mut self, rkey: u32) -> Option<M> {
        self.rkeys.retain(|_, other| *other != rkey);
        Some(self.by_rkey.remove(&rkey)?.memory)
    }

    /// Forgets the regions of `owner`; gives their keys and memory.
    pub fn remove_owner(&mut self, owner: u64) -> Vec<(u32, M)> {
        let gone: Vec<u32> = self
            .by_rkey
            .iter()
            .filter(|(_, region)| region.owner == owner)
            .map(|(&rkey, _)| rkey)
            .collect();
        self.rkeys.retain(|_, rkey| !gone.contains(rkey));
        gone.into_iter()
            .filter_map(|rkey| Some((rkey, self.by_rkey.remove(&rkey)?.memory)))
            .collect()
    }
}
