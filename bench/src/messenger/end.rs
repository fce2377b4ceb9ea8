//! One end of a connection between two processes, through a library's function table
//! (`bench/peers/messages.h`).

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

/// Buffer size for a library's error message.
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
// SAFETY: `ucx.c` defines it as a constant of this layout, `struct message_library` in
// `messages.h`.
unsafe extern "C" {
    safe static covalent_bench_ucx: Table;
}

#[cfg(has_libfabric)]
// SAFETY: `libfabric.c` defines it as a constant of this layout, `struct message_library` in
// `messages.h`.
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

/// Returns the version string of a library.
pub fn version(library: Library) -> Result<String, String> {
    let table = table(library)?;
    let mut text = [0; PROBLEM_BYTES];
    // SAFETY: the call writes a string of at most the number of bytes passed to it.
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
    /// Space for the maximum number of messages in flight, [`End::stride`] bytes apart.
    slots: Box<[u8]>,
    stride: usize,
    bytes_max: usize,
    depth: u64,
    /// Messages that the library took.
    begun: u64,
    /// The source memory of [`End::send_from`]. Never modified: the library may read it at any
    /// time.
    pool: Box<[u8]>,
    greeted: bool,
}

impl End {
    /// Opens an end for messages of at most `bytes_max` bytes. `name` is for libraries with named
    /// shared memory. `pool` is the source memory of [`End::send_from`].
    ///
    /// # Errors
    /// The library is missing, or reports an error.
    pub fn open(library: Library, name: &str, bytes_max: usize, pool: Box<[u8]>) -> Result<Self> {
        let table = table(library).map_err(anyhow::Error::msg)?;
        // The first message is an address.
        let bytes_max = bytes_max.max(ADDRESS_BYTES_MAX);
        let (depth, stride) = (depth(bytes_max), bytes_max.next_multiple_of(LINE_BYTES));
        let name = CString::new(name).context("a name for shared memory")?;
        let mut problem = [0; PROBLEM_BYTES];
        // SAFETY: `name` is a C string, and `problem` has as many bytes as the call is given. Both
        // live until it returns.
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

    /// Returns the maximum number of messages in flight each way.
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// Returns the address by which the other side connects to this end.
    ///
    /// # Errors
    /// The library has none.
    pub fn address(&self) -> Result<Vec<u8>> {
        let mut address = vec![0_u8; ADDRESS_BYTES_MAX];
        // SAFETY: `handle` is open, and the call writes at most the number of bytes passed to it.
        let length = unsafe {
            (self.table.address)(
                self.handle.as_ptr(),
                address.as_mut_ptr().cast(),
                address.len(),
            )
        };
        ensure!(length > 0, "the library returned no address");
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

    /// Sends this end's address to the other end, which must be connected. Call until it returns
    /// `true`.
    ///
    /// # Errors
    /// An error of the library.
    pub fn greet(&mut self) -> Result<bool> {
        if !self.greeted {
            let address = self.address()?;
            self.greeted = self.send(address.len(), |room| room.copy_from_slice(&address))?;
            self.work()?;
        }
        Ok(self.greeted)
    }

    /// Receives the other end's address and connects to it. Call until it returns `true`.
    ///
    /// # Errors
    /// An error of the library.
    pub fn accept(&mut self) -> Result<bool> {
        let Some(address) = self.receive()?.map(|address| address.to_vec()) else {
            return Ok(false);
        };
        self.connect(&address)?;
        Ok(true)
    }

    /// Sends a message of `length` bytes that `compose` writes. The buffer holds the content of an
    /// earlier message. Returns `false` if there is no space now.
    ///
    /// # Errors
    /// An error of the library, or a message that is longer than `bytes_max`.
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

    /// Sends the bytes at `place` of the pool. Returns `false` if there is no space now.
    ///
    /// # Errors
    /// An error of the library, or a place outside the pool.
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

    /// `message` must lie in a free slot of `slots`, or in `pool`.
    #[inline]
    fn hand_over(&mut self, message: *const [u8]) -> Result<bool> {
        // SAFETY: `handle` is open. The bytes do not move or change until `sent` has counted them:
        // the pool is never modified, and a slot only after `has_room`. Both are freed after
        // `close`, in `drop`.
        let answer =
            unsafe { (self.table.send)(self.handle.as_ptr(), message.cast(), message.len()) };
        let taken = self.checked(answer)?;
        self.begun += u64::from(taken);
        if !taken {
            self.work()?;
        }
        Ok(taken)
    }

    /// Returns whether the slot of the next message is free: the message sent from it `depth`
    /// messages ago is complete.
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
        // SAFETY: a message of that length lies there. The library does not access this memory
        // before the next call of `receive` or `answer`. Such a call is impossible while the slice
        // is in use, because the slice borrows `self`.
        Ok(Some(unsafe {
            slice::from_raw_parts_mut(bytes.cast(), length)
        }))
    }

    /// Sends the last received message back from its receive buffer. Returns `false` if there is no
    /// space now.
    ///
    /// # Errors
    /// An error of the library. Also if no message was received, or it was already sent back.
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

    /// Makes the library progress.
    ///
    /// # Errors
    /// An error of the library.
    pub fn work(&mut self) -> Result<()> {
        // SAFETY: `handle` is open.
        let answer = unsafe { (self.table.work)(self.handle.as_ptr()) };
        self.checked(answer).map(|_| ())
    }

    /// Converts a return code: whether the call took effect, or the library's error.
    #[inline]
    fn checked(&self, answer: c_int) -> Result<bool> {
        match answer {
            0 => Ok(false),
            1 => Ok(true),
            _ => {
                // SAFETY: `handle` is open. The string lives until the next call, and is copied
                // before that.
                let problem = unsafe { CStr::from_ptr((self.table.problem)(self.handle.as_ptr())) };
                bail!("{}", problem.to_string_lossy())
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: `handle` is open, and it is not used after this.
        unsafe { (self.table.close)(self.handle.as_ptr()) };
    }
}
