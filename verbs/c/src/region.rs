//! `covalent_region`.

use std::{
    ffi::{c_char, c_int},
    sync::{Arc, PoisonError, RwLock},
};

use covalent_verbs::{Region, RegionOptions, Rights};

use crate::{
    argument::{Out, bytes_mut, text, values},
    device::{covalent_device, device},
    handle::{Kind, Table},
    status::{Result, call, call_with_status, covalent_status, invalid},
};

/// Others may read the region.
pub const COVALENT_RIGHT_READ: u32 = 1;
/// Others may write the region.
pub const COVALENT_RIGHT_WRITE: u32 = 2;
/// Others may use atomic verbs on the region.
pub const COVALENT_RIGHT_ATOMIC: u32 = 4;
/// Others may send messages to the region, which is a receive queue: told of regions, not given to covalent_region_register.
pub const COVALENT_RIGHT_SEND: u32 = 8;

/// Memory that this application registered and that verbs of any node act on. Unlike other handles it may be used on every thread. Words are in the machine's
/// byte order; offsets are in bytes, those of words multiples of 8. Every access is atomic for each word and sequentially consistent. Zero names nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_region {
    /// Opaque.
    pub handle: u64,
}

/// All regions of the process.
static REGIONS: RwLock<Table<Arc<Region>>> = RwLock::new(Table::new(Kind::Region, 0));

fn region(region: covalent_region) -> Result<Arc<Region>> {
    REGIONS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .look(region.handle)
        .cloned()
}

/// Registers memory, all zero, under a name that is unique on the node (1 to 32 bytes). `size_bytes` is a multiple of 8, at most 1 GiB; `rights` is a sum of
/// COVALENT_RIGHT_READ, COVALENT_RIGHT_WRITE and COVALENT_RIGHT_ATOMIC. It stays registered until the device is closed with all that was opened through it.
///
/// # Safety
/// `name` is text that ends in a zero; `region` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_register(
    device: covalent_device,
    name: *const c_char,
    size_bytes: u64,
    rights: u32,
    region: *mut covalent_region,
) -> c_int {
    // SAFETY: as the caller promises.
    call(|| unsafe { register(device, name, size_bytes, rights, false, region) })
}

/// As covalent_region_register, for a durable region: a verb on it is acknowledged only once what it did is on the disk of its node. It outlives this
/// application, the daemon and the machine: registered again by the same user, under the same name, with the same size and on the same lane, it holds what verbs
/// left there. What is stored by covalent_region_store and its like is in no journal: after any restart of the daemon, also one in order that the device lives
/// through, the word may be back at what the last verb left in it. It lasts until covalent_region_delete. COVALENT_REFUSED
/// by a daemon without a journal.
///
/// # Safety
/// As covalent_region_register.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_register_durable(
    device: covalent_device,
    name: *const c_char,
    size_bytes: u64,
    rights: u32,
    region: *mut covalent_region,
) -> c_int {
    // SAFETY: as the caller promises.
    call(|| unsafe { register(device, name, size_bytes, rights, true, region) })
}

/// # Safety
/// As [`covalent_region_register`].
unsafe fn register(
    device: covalent_device,
    name: *const c_char,
    size_bytes: u64,
    rights: u32,
    durable: bool,
    region: *mut covalent_region,
) -> Result<()> {
    // SAFETY: the caller's word, for both.
    let (name, mut out) = unsafe { (text(name, "name")?, Out::new(region, "region")?) };
    let options = RegionOptions::new(rights_of(rights)?).durable(durable);
    let registered = self::device(device)?.register_region_with(name, size_bytes, options)?;
    let handle = REGIONS
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(Arc::new(registered))?;
    out.set(covalent_region { handle });
    Ok(())
}

/// Deletes a durable region of this user: what it holds is gone, and its name and its room in the journal are free. COVALENT_REFUSED if another application
/// has it registered, or it is another user's. If this device has, it is an ordinary region from then on.
///
/// # Safety
/// `name` is text that ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_delete(
    device: covalent_device,
    name: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let name = unsafe { text(name, "name")? };
        Ok(self::device(device)?.delete_region(name)?)
    })
}

/// Closes this application's view of a region. Verbs go on acting on it as long as it is registered.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_region_close(region: covalent_region) -> c_int {
    call(|| {
        let closed = REGIONS
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(region.handle)?;
        drop(closed);
        Ok(())
    })
}

/// Tells the key that verbs show.
///
/// # Safety
/// `rkey` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_rkey(region: covalent_region, rkey: *mut u32) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(rkey, "rkey")? };
        out.set(self::region(region)?.rkey());
        Ok(())
    })
}

/// Reads a word.
///
/// # Safety
/// `word` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_load(
    region: covalent_region,
    offset_bytes: u64,
    word: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(word, "word")? };
        out.set(self::region(region)?.load(offset_bytes)?);
        Ok(())
    })
}

/// Writes a word.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_region_store(
    region: covalent_region,
    offset_bytes: u64,
    word: u64,
) -> c_int {
    call(|| Ok(self::region(region)?.store(offset_bytes, word)?))
}

/// Writes a word and tells what it held.
///
/// # Safety
/// `old` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_swap(
    region: covalent_region,
    offset_bytes: u64,
    word: u64,
    old: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(old, "old")? };
        out.set(self::region(region)?.swap(offset_bytes, word)?);
        Ok(())
    })
}

/// Adds to a word, wrapping, and tells what it held.
///
/// # Safety
/// `old` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_fetch_add(
    region: covalent_region,
    offset_bytes: u64,
    delta: u64,
    old: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(old, "old")? };
        out.set(self::region(region)?.fetch_add(offset_bytes, delta)?);
        Ok(())
    })
}

/// Writes `word` if the word holds `expected`, else COVALENT_MISMATCH; tells what it held either way.
///
/// # Safety
/// `found` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_compare_and_swap(
    region: covalent_region,
    offset_bytes: u64,
    expected: u64,
    word: u64,
    found: *mut u64,
) -> c_int {
    call_with_status(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(found, "found")? };
        match self::region(region)?.compare_exchange(offset_bytes, expected, word)? {
            Ok(old) => {
                out.set(old);
                Ok(covalent_status::COVALENT_OK)
            }
            Err(found) => {
                out.set(found);
                Ok(covalent_status::COVALENT_MISMATCH)
            }
        }
    })
}

/// Reads bytes; no alignment needed.
///
/// # Safety
/// `data` may be written `length_bytes` times and is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_read(
    region: covalent_region,
    offset_bytes: u64,
    data: *mut u8,
    length_bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { bytes_mut(data, length_bytes, "data")? };
        Ok(self::region(region)?.read(offset_bytes, data)?)
    })
}

/// Writes bytes; no alignment needed.
///
/// # Safety
/// `data` points to `length_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_write(
    region: covalent_region,
    offset_bytes: u64,
    data: *const u8,
    length_bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { values(data, length_bytes, "data")? };
        Ok(self::region(region)?.write(offset_bytes, data)?)
    })
}

fn rights_of(rights: u32) -> Result<Rights> {
    if rights & !(COVALENT_RIGHT_READ | COVALENT_RIGHT_WRITE | COVALENT_RIGHT_ATOMIC) != 0 {
        return Err(invalid(format!(
            "rights {rights:#x} are no sum of COVALENT_RIGHT_READ, COVALENT_RIGHT_WRITE and COVALENT_RIGHT_ATOMIC"
        )));
    }
    Ok(Rights {
        read: rights & COVALENT_RIGHT_READ != 0,
        write: rights & COVALENT_RIGHT_WRITE != 0,
        atomic: rights & COVALENT_RIGHT_ATOMIC != 0,
        send: false,
    })
}

/// A region's rights as C has them.
pub(crate) const fn rights_bits(rights: Rights) -> u32 {
    let mut bits = 0;
    if rights.read {
        bits |= COVALENT_RIGHT_READ;
    }
    if rights.write {
        bits |= COVALENT_RIGHT_WRITE;
    }
    if rights.atomic {
        bits |= COVALENT_RIGHT_ATOMIC;
    }
    if rights.send {
        bits |= COVALENT_RIGHT_SEND;
    }
    bits
}

/// For a region that came as C has it; bits that mean nothing are ignored.
pub(crate) const fn rights_from_bits(bits: u32) -> Rights {
    Rights {
        read: bits & COVALENT_RIGHT_READ != 0,
        write: bits & COVALENT_RIGHT_WRITE != 0,
        atomic: bits & COVALENT_RIGHT_ATOMIC != 0,
        send: bits & COVALENT_RIGHT_SEND != 0,
    }
}
