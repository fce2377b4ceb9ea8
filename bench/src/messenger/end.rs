//! One end of a connection between two processes, by a library's table of calls (`bench/peers/messages.h`).

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ops::Range,
    ptr::{self, NonNull},
    slice,
};

use anyhow::{Context, Result, bail, ensure};

use super::{Library, depth};

/// Longest address of an end, in bytes: `ADDRESS_BYTES_MAX`.
const ADDRESS_BYTES_MAX: usize = 2048;

/// Bytes of what a library may say about a problem.
const PROBLEM_BYTES: usize = 256;

/// Where messages begin: at lines of the cache.
const LINE_BYTES: usize = 64;

/// `struct message_library`.
#[repr(C)]
#[derive(Debug)]
struct Table {
    version: unsafe extern "C" fn(*mut c_char, usize),
    open: unsafe extern "C" fn(*const c_char, usize, usize, *mut c_char, usize) -> *mut c_void,
    address: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> usize,
    connect: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    send: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    sent: unsafe extern "C" fn(*mut c_void) -> u64,
    receive: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut usize) -> c_int,
    work: unsafe extern "C" fn(*mut c_void) -> c_int,
    answer: unsafe extern "C" fn(*mut c_void) -> c_int,
    problem: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    close: unsafe extern "C" fn(*mut c_void),
}

#[cfg(has_ucx)]
// SAFETY: `ucx.c` defines it as a constant of this layout, `struct message_library` in `messages.h`.
unsafe extern "C" {
    safe static covalent_bench_ucx: Table;
}

#[cfg(has_libfabric)]
// SAFETY: `libfabric.c` defines it as a constant of this layout, `struct message_library` in `messages.h`.
unsafe extern "C" {
    safe static covalent_bench_libfabric: Table;
}

fn table(library: Library) -> Result<&'static Table, String> {
    let table = match library {
        #[cfg(has_ucx)]
        Library::Ucx => Some(&covalent_bench_ucx),
        #[cfg(has_libfabric)]
        Library::Libfabric => Some(&covalent_bench_libfabric),
        #[cfg(not(all(has_ucx, has_libfabric)))]
        _ => None,
    };
    table.ok_or_else(|| library.absent())
}

/// What a library tells of itself.
pub fn version(library: Library) -> Result<String, String> {
    let table = table(library)?;
    let mut text = [0; PROBLEM_BYTES];
    // SAFETY: the call writes a string of at most as many bytes as it is told that there are.
    unsafe { (table.version)(text.as_mut_ptr(), text.len()) };
    Ok(words(&text))
}

/// A string in a buffer.
fn words(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text
        .iter()
        .map(|&byte| byte.cast_unsigned())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One end. It belongs to the thread that opened it, and closes with this value.
///
/// Sends from memory of its own, because a library may read a message long after it took it.
#[derive(Debug)]
pub struct End {
    table: &'static Table,
    handle: NonNull<c_void>,
    /// As many messages as may be under way, [`End::stride`] bytes apart.
    slots: Box<[u8]>,
    stride: usize,
    bytes_max: usize,
    depth: u64,
    /// Messages that the library took.
    begun: u64,
    /// What [`End::send_from`] sends from. Never changed: the library may be reading it at any time.
    pool: Box<[u8]>,
    greeted: bool,
}

impl End {
    /// Opens one for messages of at most `bytes_max` bytes. `name` is for shared memory that has one; `pool` is what [`End::send_from`]
    /// sends from.
    ///
    /// # Errors
    /// The library is not there, or says what it lacks.
    pub fn open(library: Library, name: &str, bytes_max: usize, pool: Box<[u8]>) -> Result<Self> {
        let table = table(library).map_err(anyhow::Error::msg)?;
        // The first message is an address.
        let bytes_max = bytes_max.max(ADDRESS_BYTES_MAX);
        let (depth, stride) = (depth(bytes_max), bytes_max.next_multiple_of(LINE_BYTES));
        let name = CString::new(name).context("a name for shared memory")?;
        let mut problem = [0; PROBLEM_BYTES];
        // SAFETY: `name` is a string, and `problem` has as many bytes as the call is told; both live until it returns.
        let handle = unsafe {
            (table.open)(
                name.as_ptr(),
                bytes_max,
                depth,
                problem.as_mut_ptr(),
                problem.len(),
            )
        };
        let Some(handle) = NonNull::new(handle) else {
            bail!("{library:?}: {}", words(&problem));
        };
        Ok(Self {
            table,
            handle,
            slots: vec![0; stride * depth].into(),
            stride,
            bytes_max,
            depth: depth as u64,
            begun: 0,
            pool,
            greeted: false,
        })
    }

    /// Messages that may be under way each way.
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// What the other side names this one by.
    ///
    /// # Errors
    /// The library has none.
    pub fn address(&self) -> Result<Vec<u8>> {
        let mut address = vec![0_u8; ADDRESS_BYTES_MAX];
        // SAFETY: `handle` is open, and the call writes at most as many bytes as it is told that there are.
        let length = unsafe {
            (self.table.address)(
                self.handle.as_ptr(),
                address.as_mut_ptr().cast(),
                address.len(),
            )
        };
        ensure!(length > 0, "the library tells no address");
        address.truncate(length);
        Ok(address)
    }

    /// Names the other end, which is open.
    ///
    /// # Errors
    /// The library's.
    pub fn connect(&mut self, address: &[u8]) -> Result<()> {
        // SAFETY: `handle` is open, and the call reads the address only until it returns.
        let answer = unsafe {
            (self.table.connect)(self.handle.as_ptr(), address.as_ptr().cast(), address.len())
        };
        self.checked(answer).map(|_| ())
    }

    /// Tells the other end, which is connected to, of this one. To be called until it is `true`.
    ///
    /// # Errors
    /// The library's.
    pub fn greet(&mut self) -> Result<bool> {
        if !self.greeted {
            let address = self.address()?;
            self.greeted = self.send(address.len(), |room| room.copy_from_slice(&address))?;
            self.work()?;
        }
        Ok(self.greeted)
    }

    /// Hears of the other end and connects to it. To be called until it is `true`.
    ///
    /// # Errors
    /// The library's.
    pub fn accept(&mut self) -> Result<bool> {
        let Some(address) = self.receive()?.map(|address| address.to_vec()) else {
            return Ok(false);
        };
        self.connect(&address)?;
        Ok(true)
    }

    /// Sends a message of so many bytes that `compose` writes, over what an earlier one of the ring left. `false`: there is no room now.
    ///
    /// # Errors
    /// The library's, and a message that is longer than was said.
    #[inline]
    pub fn send(&mut self, length: usize, compose: impl FnOnce(&mut [u8])) -> Result<bool> {
        ensure!(
            length <= self.bytes_max,
            "a message of {length} bytes is longer than {}",
            self.bytes_max
        );
        if !self.has_room() {
            self.work()?;
            return Ok(false);
        }
        let at = (self.begun % self.depth) as usize * self.stride;
        let message = &mut self.slots[at..at + length];
        compose(message);
        let message = ptr::from_ref(message);
        self.hand_over(message)
    }

    /// Sends what lies at `place` in the pool. `false`: there is no room now.
    ///
    /// # Errors
    /// The library's, and a place that is not in the pool.
    #[inline]
    pub fn send_from(&mut self, place: Range<usize>) -> Result<bool> {
        let message = self
            .pool
            .get(place)
            .filter(|message| message.len() <= self.bytes_max)
            .context("there is no such message in the pool")?;
        let message = ptr::from_ref(message);
        self.hand_over(message)
    }

    /// `message` lies in `slots`, where no message is under way, or in `pool`.
    #[inline]
    fn hand_over(&mut self, message: *const [u8]) -> Result<bool> {
        // SAFETY: `handle` is open. The bytes stay where they are and as they are until `sent` has counted them: the pool is never changed,
        // a slot only after `has_room`, and both are freed after `close`, in `drop`.
        let answer =
            unsafe { (self.table.send)(self.handle.as_ptr(), message.cast(), message.len()) };
        let taken = self.checked(answer)?;
        self.begun += u64::from(taken);
        if !taken {
            self.work()?;
        }
        Ok(taken)
    }

    /// Whether the slot of the next message is free: the one that was sent from it, `depth` messages ago, is done.
    fn has_room(&self) -> bool {
        // SAFETY: `handle` is open.
        let sent = unsafe { (self.table.sent)(self.handle.as_ptr()) };
        self.begun - sent < self.depth
    }

    /// The next message that has come.
    ///
    /// # Errors
    /// The library's.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<&mut [u8]>> {
        let (mut bytes, mut length) = (ptr::null_mut(), 0);
        // SAFETY: `handle` is open; the call writes both words.
        let answer = unsafe { (self.table.receive)(self.handle.as_ptr(), &mut bytes, &mut length) };
        if !self.checked(answer)? {
            return Ok(None);
        }
        // SAFETY: a message of that length lies there, in memory that the library neither reads nor writes before the next call of `receive`
        // or `answer`, which cannot be made while the slice is used: it borrows `self`.
        Ok(Some(unsafe {
            slice::from_raw_parts_mut(bytes.cast(), length)
        }))
    }

    /// Sends the message that was received last back from where it lies. `false`: there is no room now.
    ///
    /// # Errors
    /// The library's; there was no message, or it went back already.
    #[inline]
    pub fn answer(&mut self) -> Result<bool> {
        // SAFETY: `handle` is open.
        let answer = unsafe { (self.table.answer)(self.handle.as_ptr()) };
        let taken = self.checked(answer)?;
        self.begun += u64::from(taken);
        if !taken {
            self.work()?;
        }
        Ok(taken)
    }

    /// Lets the library work.
    ///
    /// # Errors
    /// The library's.
    pub fn work(&mut self) -> Result<()> {
        // SAFETY: `handle` is open.
        let answer = unsafe { (self.table.work)(self.handle.as_ptr()) };
        self.checked(answer).map(|_| ())
    }

    /// Whether a call did what it was asked to.
    #[inline]
    fn checked(&self, answer: c_int) -> Result<bool> {
        match answer {
            0 => Ok(false),
            1 => Ok(true),
            _ => {
                // SAFETY: `handle` is open; the string lives until the next call, and is copied before.
                let problem = unsafe { CStr::from_ptr((self.table.problem)(self.handle.as_ptr())) };
                bail!("{}", problem.to_string_lossy())
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: `handle` is open, and nobody uses it after this.
        unsafe { (self.table.close)(self.handle.as_ptr()) };
    }
}
