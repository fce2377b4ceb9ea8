//! `covalent_region`.

use std::{
    ffi::{c_char, c_int},
    sync::{Arc, PoisonError, RwLock},
};

use covalent::{Region, RegionOptions, Rights};

use crate::{
    argument::{Out, bytes_mut, text, values},
    device::{covalent_device, device},
    handle::{Kind, Table},
    name::covalent_name,
    status::{Result, call, call_with_status, covalent_status, invalid},
};

/// Others may read the region.
pub const COVALENT_RIGHT_READ: u32 = 1;
/// Others may write the region.
pub const COVALENT_RIGHT_WRITE: u32 = 2;
/// Others may use atomic verbs on the region.
pub const COVALENT_RIGHT_ATOMIC: u32 = 4;
/// Verbs may send messages to the region, which is a receive queue. Regions report this right.
/// covalent_region_register does not take it.
pub const COVALENT_RIGHT_SEND: u32 = 8;

/// Memory that this application registered and that verbs of any node access. Unlike other handles,
/// it may be used on every thread. Words are in the machine's byte order. Offsets are in bytes,
/// those of words multiples of 8. Every access is atomic for each word and sequentially consistent.
/// A zero handle is invalid.
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
        .get_shared(region.handle)
        .cloned()
}

/// Registers zeroed memory under a name that is unique on the node (1 to 32 bytes). `size_bytes` is
/// a multiple of 8, at most 1 GiB. `rights` is a sum of COVALENT_RIGHT_READ, COVALENT_RIGHT_WRITE
/// and COVALENT_RIGHT_ATOMIC. The region stays registered until the device and everything opened
/// through it are closed.
///
/// # Safety
/// `name` is a NUL-terminated string. `region` is valid for writes.
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

/// As covalent_region_register, for a durable region. A verb on it is acknowledged only after its
/// effect is on the disk of its node. Returns COVALENT_REFUSED if the daemon has no journal.
///
/// The region outlives this application, the daemon and a reboot of the machine. If the same user
/// registers it again under the same name, with the same size and on the same lane, it holds the
/// data that verbs left. It exists until covalent_region_delete.
///
/// The journal does not contain stores by covalent_region_store and similar calls. After any
/// restart of the daemon, the word may be back at the value that the last verb left. This includes
/// a graceful shutdown that the device survives.
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

/// Deletes a durable region of this user with its contents, and frees its name and its space in the
/// journal. If this device has it registered, it is an ordinary region from then on. Returns
/// COVALENT_REFUSED if another application has it registered, or if it belongs to another user.
///
/// # Safety
/// `name` is a NUL-terminated string.
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

/// Closes this application's view of a region. While the region is registered, verbs still access
/// it.
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

/// Returns the key that verbs present.
///
/// # Safety
/// `rkey` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_rkey(region: covalent_region, rkey: *mut u32) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(rkey, "rkey")? };
        out.set(self::region(region)?.rkey());
        Ok(())
    })
}

/// Returns the size in bytes.
///
/// # Safety
/// `size_bytes` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_size_bytes(
    region: covalent_region,
    size_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(size_bytes, "size_bytes")? };
        out.set(self::region(region)?.size_bytes());
        Ok(())
    })
}

/// Returns the name that the region is registered under.
///
/// # Safety
/// `name` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_region_name(
    region: covalent_region,
    name: *mut covalent_name,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(name, "name")? };
        out.set(covalent_name::new(self::region(region)?.name()));
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

/// Writes a word and returns its previous value in `old`.
///
/// # Safety
/// `old` is valid for writes.
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

/// Adds to a word, wrapping, and returns its previous value in `old`.
///
/// # Safety
/// `old` is valid for writes.
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

/// Writes `word` if the word holds `expected`. Otherwise returns COVALENT_MISMATCH. `found`
/// receives the word's previous value in both cases.
///
/// # Safety
/// `found` is valid for writes.
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
        match self::region(region)?.compare_and_swap(offset_bytes, expected, word)? {
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
/// `data` may be written `length_bytes` times and is initialized.
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
            "rights {rights:#x} are no sum of COVALENT_RIGHT_READ, COVALENT_RIGHT_WRITE and \
             COVALENT_RIGHT_ATOMIC"
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

/// Rights of a region that C passed in. Unknown bits are ignored.
pub(crate) const fn rights_from_bits(bits: u32) -> Rights {
    Rights {
        read: bits & COVALENT_RIGHT_READ != 0,
        write: bits & COVALENT_RIGHT_WRITE != 0,
        atomic: bits & COVALENT_RIGHT_ATOMIC != 0,
        send: bits & COVALENT_RIGHT_SEND != 0,
    }
}
