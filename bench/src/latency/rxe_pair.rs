//! A reliable connection between two RDMA devices, through the C code of `bench/peers/rxe.c`: most
//! calls of libibverbs are inline functions in its header.

/// Whether the program has it, and if not how to have it.
pub const ABSENT: Option<&str> = if cfg!(has_ibverbs) {
    None
} else {
    Some(
        "this program was built without the feature `ibverbs`, or without Debian's libibverbs-dev \
         (`make guest-test` builds with both)",
    )
};

/// Maximum number of completions per poll.
#[cfg(has_ibverbs)]
const TAKEN: usize = 64;

/// A completed swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swapped {
    /// Number of the swap.
    pub number: u64,
    /// The old value of the word.
    pub found: u64,
}

/// The result of a poll for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// So many ended.
    #[cfg_attr(
        not(has_ibverbs),
        expect(dead_code, reason = "nothing swaps without the library")
    )]
    Ended(usize),
    /// The retries of one are spent: nothing ends any more before [`Pair::reconnect`].
    Broken,
}

/// The acknowledgment timeout, and the number of retransmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// 4.096 µs times 2 to this power: 1 to 31.
    pub timeout: u8,
    /// 0 to 7.
    pub count: u8,
}

#[cfg(has_ibverbs)]
mod connection {
    use std::{
        ffi::{CStr, CString, c_char, c_int},
        ptr::{self, NonNull},
    };

    use anyhow::{Context, Result, bail};

    use super::{Polled, Retry, Swapped, TAKEN};

    /// `struct pair`, of which only C knows the inside.
    #[repr(C)]
    struct Opaque {
        _inside: [u8; 0],
    }

    // SAFETY: `rxe.c` defines these functions with these types.
    unsafe extern "C" {
        fn covalent_bench_rxe_open(
            near: *const c_char,
            far: *const c_char,
            depth: u32,
            timeout: u8,
            retries: u8,
            problem: *mut *const c_char,
        ) -> *mut Opaque;
        fn covalent_bench_rxe_connect(pair: *mut Opaque) -> *const c_char;
        fn covalent_bench_rxe_close(pair: *mut Opaque);
        fn covalent_bench_rxe_swap(
            pair: *mut Opaque,
            number: u64,
            expected: u64,
            desired: u64,
        ) -> c_int;
        fn covalent_bench_rxe_poll(
            pair: *mut Opaque,
            numbers: *mut u64,
            found: *mut u64,
            room: c_int,
        ) -> c_int;
    }

    /// A connection. It belongs to the thread that opened it, and closes with this value.
    pub struct Pair {
        handle: NonNull<Opaque>,
        numbers: [u64; TAKEN],
        found: [u64; TAKEN],
    }

    impl Pair {
        /// Connects `near` with `far`, for up to `depth` swaps in flight.
        ///
        /// # Errors
        /// The step that failed.
        pub fn open([near, far]: [&str; 2], depth: u32, retry: Retry) -> Result<Self> {
            let names = [near, far].map(CString::new);
            let [Ok(near), Ok(far)] = names else {
                bail!("a device's name has a zero byte in it");
            };
            let mut problem = ptr::null();
            // SAFETY: both names are C strings, and `problem` has space for a pointer. All live
            // until the call returns.
            let handle = unsafe {
                covalent_bench_rxe_open(
                    near.as_ptr(),
                    far.as_ptr(),
                    depth,
                    retry.timeout,
                    retry.count,
                    &raw mut problem,
                )
            };
            let handle = NonNull::new(handle)
                .with_context(|| format!("an RDMA device: {}: {}", words(problem), last_error()))?;
            Ok(Self {
                handle,
                numbers: [0; TAKEN],
                found: [0; TAKEN],
            })
        }

        /// Reconnects. Operations in flight never complete.
        ///
        /// # Errors
        /// The step that failed.
        pub fn reconnect(&mut self) -> Result<()> {
            // SAFETY: the handle belongs to an open pair, which lives as long as `self`.
            let problem = unsafe { covalent_bench_rxe_connect(self.handle.as_ptr()) };
            if !problem.is_null() {
                bail!("an RDMA device: {}: {}", words(problem), last_error());
            }
            Ok(())
        }

        /// Replaces `expected` by `desired` in word `number % depth` of the far end. Returns
        /// `false` if there is no space now.
        ///
        /// # Errors
        /// The device refuses the request.
        pub fn swap(&mut self, number: u64, expected: u64, desired: u64) -> Result<bool> {
            // SAFETY: as above; the memory that the device reads and writes is the pair's own.
            let answer =
                unsafe { covalent_bench_rxe_swap(self.handle.as_ptr(), number, expected, desired) };
            match answer {
                0 => Ok(false),
                1 => Ok(true),
                _ => bail!(
                    "an RDMA device refuses a compare-and-swap: {}",
                    last_error()
                ),
            }
        }

        /// Looks for swaps that ended, and shows each.
        pub fn poll(&mut self, mut each: impl FnMut(Swapped)) -> Polled {
            // SAFETY: as above. Both buffers have space for the number of entries passed to the
            // call.
            let count = unsafe {
                covalent_bench_rxe_poll(
                    self.handle.as_ptr(),
                    self.numbers.as_mut_ptr(),
                    self.found.as_mut_ptr(),
                    TAKEN as c_int,
                )
            };
            let Ok(count) = usize::try_from(count) else {
                return Polled::Broken;
            };
            for (&number, &found) in self.numbers.iter().zip(&self.found).take(count) {
                each(Swapped { number, found });
            }
            Polled::Ended(count)
        }
    }

    impl Drop for Pair {
        fn drop(&mut self) {
            // SAFETY: the handle belongs to an open pair, which is not used after this.
            unsafe { covalent_bench_rxe_close(self.handle.as_ptr()) };
        }
    }

    fn words(problem: *const c_char) -> String {
        if problem.is_null() {
            return "no reason was given".to_owned();
        }
        // SAFETY: `rxe.c` returns only constant strings.
        unsafe { CStr::from_ptr(problem) }
            .to_string_lossy()
            .into_owned()
    }

    fn last_error() -> std::io::Error {
        std::io::Error::last_os_error()
    }
}

#[cfg(not(has_ibverbs))]
mod connection {
    use anyhow::{Result, bail};

    use super::{ABSENT, Polled, Retry, Swapped};

    /// A connection that this program cannot make.
    pub enum Pair {}

    impl Pair {
        /// Returns an error that names the reason.
        pub fn open(_devices: [&str; 2], _depth: u32, _retry: Retry) -> Result<Self> {
            bail!("{}", ABSENT.unwrap_or_default())
        }

        /// There is none.
        pub fn reconnect(&mut self) -> Result<()> {
            match *self {}
        }

        /// There is none.
        pub fn swap(&mut self, _number: u64, _expected: u64, _desired: u64) -> Result<bool> {
            match *self {}
        }

        /// There is none.
        pub fn poll(&mut self, _each: impl FnMut(Swapped)) -> Polled {
            match *self {}
        }
    }
}

pub use self::connection::Pair;

impl Retry {
    /// How long an acknowledgement is waited for at least, in milliseconds.
    pub fn timeout_ms(self) -> f64 {
        4.096e-3 * f64::from(1_u32 << self.timeout)
    }
}
