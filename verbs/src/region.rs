//! The application's own registered memory.

use std::sync::Arc;

use covalent_api::request::Rights;
use covalent_ipc::owner_process::OwnerProcess;
use covalent_pipe::region::RegionMemory;

use crate::error::{Error, Result};

/// Options for registering a region.
///
/// # Examples
/// ```no_run
/// use covalent::{Device, RegionOptions, Rights};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let options = RegionOptions::new(Rights::ALL).durable(true);
/// let region = device.register_region_with("ledger", 4096, options)?;
/// assert!(region.load(0)? < u64::MAX); // committed before the daemon or the machine restarted
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionOptions {
    pub(crate) rights: Rights,
    pub(crate) durable: bool,
}

impl RegionOptions {
    /// A region in memory alone, with these rights for verbs.
    #[must_use]
    pub const fn new(rights: Rights) -> Self {
        Self {
            rights,
            durable: false,
        }
    }

    /// Sets whether the region is durable. A verb on it is then acknowledged only after its effect
    /// is on the disk of the region's node. The region outlives this application, the daemon and a
    /// reboot of the machine. To access it again, the same user registers it under the same name,
    /// with the same size and on the same lane. It exists until
    /// [`Device::delete_region`](crate::Device::delete_region).
    ///
    /// Only verbs are durable, including the owner's verbs if they go through a queue to the local
    /// node. The owner's stores through [`Region`] itself (`store`, `swap`, `compare_and_swap`,
    /// `fetch_add`, `write`) are in no journal. After any restart of the daemon, the word may be
    /// back at the value that the last verb left. This includes a graceful shutdown that this
    /// device [survives](crate::Device::set_reconnect).
    #[must_use]
    pub const fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }
}

/// Memory that this application registered. Verbs of any node access it, and the application reads
/// and writes it itself.
///
/// It is `Send` and `Sync`: share it between threads. Every access is atomic for each aligned word,
/// with respect to verbs and other threads. Loads, stores and exchanges are sequentially
/// consistent. Several words are not accessed at once: loads here may see a verb that commits
/// several words half done. Other verbs never do. A word is a `u64` in the caller's byte order, and
/// little-endian where it is read or written as bytes.
///
/// Offsets are in bytes from the region's start. The memory stays mapped as long as this object
/// exists, and registered as long as its [`Device`](crate::Device) does.
///
/// # Examples
/// ```no_run
/// use covalent::{Device, Rights};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let region = device.register_region("counters", 4096, Rights::ALL)?;
/// region.store(0, 100)?;
/// assert_eq!(region.fetch_add(0, 5)?, 100); // other nodes may have added in between
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    name: String,
    rkey: u32,
    memory: Arc<RegionMemory>,
    owner: OwnerProcess,
}

/// A region may be shared between threads.
const _: () = {
    const fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Region>();
};

impl Region {
    pub(crate) fn new(
        name: &str,
        rkey: u32,
        memory: Arc<RegionMemory>,
        owner: OwnerProcess,
    ) -> Self {
        Self {
            name: name.to_owned(),
            rkey,
            memory,
            owner,
        }
    }

    /// The name that it is registered under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key that verbs show. Others learn it by looking the name up.
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    /// Reads a word.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the offset is not a multiple of 8 or is beyond the end.
    /// [`Error::Forked`] in a process that was forked from the one that registered the region. The
    /// same applies to all following methods.
    pub fn load(&self, offset_bytes: u64) -> Result<u64> {
        self.within(offset_bytes, 8, |memory| memory.load(offset_bytes))
    }

    /// Writes a word.
    ///
    /// # Errors
    /// As [`Region::load`].
    pub fn store(&self, offset_bytes: u64, value: u64) -> Result<()> {
        self.within(offset_bytes, 8, |memory| memory.store(offset_bytes, value))
    }

    /// Writes a word and returns its previous value.
    ///
    /// # Errors
    /// As [`Region::load`].
    pub fn swap(&self, offset_bytes: u64, value: u64) -> Result<u64> {
        self.within(offset_bytes, 8, |memory| memory.swap(offset_bytes, value))
    }

    /// Writes `new` if the word holds `expected`. The inner result is `Ok` with the previous value
    /// if the word was written, otherwise `Err` with the current value.
    ///
    /// # Errors
    /// As [`Region::load`].
    pub fn compare_and_swap(
        &self,
        offset_bytes: u64,
        expected: u64,
        new: u64,
    ) -> Result<std::result::Result<u64, u64>> {
        self.within(offset_bytes, 8, |memory| {
            memory.compare_exchange(offset_bytes, expected, new)
        })
    }

    /// Adds to a word, wrapping at 2⁶⁴, and returns its previous value.
    ///
    /// # Errors
    /// As [`Region::load`].
    pub fn fetch_add(&self, offset_bytes: u64, delta: u64) -> Result<u64> {
        self.within(offset_bytes, 8, |memory| {
            memory.fetch_add(offset_bytes, delta)
        })
    }

    /// Fills `target` with the bytes from `offset_bytes` on; no alignment needed.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they reach beyond the end.
    pub fn read(&self, offset_bytes: u64, target: &mut [u8]) -> Result<()> {
        let len = target.len();
        self.within(offset_bytes, len, |memory| {
            memory.read(offset_bytes, target)
        })
    }

    /// Writes bytes from `offset_bytes` on; no alignment needed.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they reach beyond the end.
    pub fn write(&self, offset_bytes: u64, source: &[u8]) -> Result<()> {
        self.within(offset_bytes, source.len(), |memory| {
            memory.write(offset_bytes, source)
        })
    }

    #[inline]
    fn within<T>(
        &self,
        offset_bytes: u64,
        len_bytes: usize,
        access: impl FnOnce(&RegionMemory) -> Option<T>,
    ) -> Result<T> {
        if !self.owner.is_here() {
            return Err(Error::Forked);
        }
        access(&self.memory).ok_or_else(|| {
            Error::Invalid(format!(
                "region `{}` of {} bytes: no {len_bytes} bytes at offset {offset_bytes} (words lie \
                 at multiples of 8)",
                self.name,
                self.size_bytes()
            ))
        })
    }
}
