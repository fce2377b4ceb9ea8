//! DPDK's environment layer: set up once per process, in a thread of its own, and never torn down.
//!
//! DPDK pins the thread that sets it up and records it as its main thread, so that thread exits
//! right after setup. Its cores are all cores that this process may use, all assigned to that one
//! thread. DPDK starts no workers, and its interrupt thread is not pinned. Lanes are the daemon's
//! own threads. Each lane registers with DPDK when it first receives ([`join`]), which gives it a
//! cache in every pool.

use std::{
    ffi::{CStr, CString, c_char},
    fs,
    os::raw::c_int,
    slice,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use covalent_config::HugePages;
use covalent_dpdk_sys as sys;
use tracing::{debug, error, info, warn};

use super::{Plan, arguments::arguments};
use crate::port::PortError;

/// How it went, for every port that comes later.
static EAL: OnceLock<Result<Setup, String>> = OnceLock::new();

/// Threads that DPDK knows have numbers below this.
static THREADS: AtomicU32 = AtomicU32::new(1);

/// The last line of DPDK's log: drivers repeat themselves.
static LAST_LINE: Mutex<String> = Mutex::new(String::new());

/// The parameters of DPDK's setup.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pci: Vec<String>,
}

/// DPDK's version, as "DPDK 22.11.11".
#[must_use]
pub fn version() -> String {
    // SAFETY: DPDK returns text that lives as long as the library.
    let text = unsafe { CStr::from_ptr(sys::covalent_version()) };
    text.to_string_lossy().into_owned()
}

/// Sets DPDK up, or remembers that it is.
///
/// # Errors
/// [`PortError::Setup`] in the name of `port`.
pub(super) fn ensure(
    port: &str,
    plan: &Plan,
    pages: HugePages,
) -> Result<&'static Setup, PortError> {
    let refuse = |problem: String, remedy: &str| PortError::Setup {
        port: port.to_owned(),
        problem,
        remedy: remedy.to_owned(),
    };
    // Run all checks before the setup: the setup cannot be repeated in this process.
    let huge = match EAL.get() {
        Some(_) => false,
        None => {
            let wanted_bytes = plan.memory_mib() << 20;
            let free_bytes = free_huge_bytes();
            if pages == HugePages::Require && free_bytes < wanted_bytes {
                return Err(refuse(
                    format!(
                        "`dataplane.huge_pages = \"require\"`, and of the {} MiB that the DPDK \
                         ports need {} MiB of huge pages are free",
                        wanted_bytes >> 20,
                        free_bytes >> 20
                    ),
                    "reserve more (`sysctl vm.nr_hugepages`), or set `dataplane.huge_pages \
                     = \"auto\"`",
                ));
            }
            let huge = pages != HugePages::Never && free_bytes >= wanted_bytes;
            if pages == HugePages::Auto && !huge {
                warn!(
                    wanted_mib = wanted_bytes >> 20,
                    free_mib = free_bytes >> 20,
                    "too few huge pages are free for all DPDK ports: DPDK's memory is on small \
                     pages; cure: `sysctl vm.nr_hugepages`"
                );
            }
            huge
        }
    };
    let answer = EAL.get_or_init(|| {
        let arguments = arguments(plan, huge, &allowed_cores());
        thread::Builder::new()
            .name("covalent-dpdk".to_owned())
            .spawn(move || set_up(&arguments))
            .map_err(|error| error.to_string())?
            .join()
            .unwrap_or_else(|_| Err("its thread panicked".to_owned()))?;
        Ok(Setup {
            pci: plan.pci().to_vec(),
        })
    });
    answer.as_ref().map_err(|problem| {
        refuse(
            format!("DPDK could not be set up: {problem}"),
            "cure: see DPDK's own lines in the log above, and start the daemon again",
        )
    })
}

impl Setup {
    /// Whether DPDK may touch that device on PCI: it had to be known when DPDK was set up.
    pub(super) fn knows(&self, address: &str) -> bool {
        self.pci
            .iter()
            .any(|known| known.split(',').next() == Some(address))
    }
}

/// Bytes in free huge pages of the usual size.
fn free_huge_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |key: &str| {
        text.lines()
            .find_map(|line| {
                line.strip_prefix(key)?
                    .split_whitespace()
                    .next()?
                    .parse::<u64>()
                    .ok()
            })
            .unwrap_or(0)
    };
    number("HugePages_Free:") * (number("Hugepagesize:") << 10)
}

/// Cores that this process may use, as far as DPDK can count them.
fn allowed_cores() -> Vec<usize> {
    const DPDK_CORES_MAX: usize = 128;
    core_affinity::get_core_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|core| core.id)
        .filter(|core| *core < DPDK_CORES_MAX)
        .collect()
}

fn set_up(arguments: &[String]) -> Result<(), String> {
    info!(version = version(), ?arguments, "setting DPDK up");
    let texts: Vec<CString> = arguments
        .iter()
        .map(|argument| CString::new(argument.as_str()))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("an argument with a zero in it: {error}"))?;
    let mut pointers: Vec<*mut c_char> =
        texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
    // SAFETY: called once for the process, before DPDK logs anything.
    if unsafe { sys::covalent_log_to(Some(take_line)) } < 0 {
        return Err("its log cannot be taken over".to_owned());
    }
    // SAFETY: `pointers` holds that many texts, which outlive the call. DPDK reorders the pointers
    // and writes into none of the texts. This is called once.
    let answer = unsafe { sys::covalent_eal_init(pointers.len() as c_int, pointers.as_mut_ptr()) };
    if answer < 0 {
        return Err(words(answer));
    }
    Ok(())
}

/// DPDK's words for one of its errors, a negative errno.
pub(super) fn words(answer: c_int) -> String {
    // SAFETY: DPDK returns text that lives until this thread's next call. It is copied here.
    let text = unsafe { CStr::from_ptr(sys::covalent_strerror(answer.saturating_neg())) };
    text.to_string_lossy().into_owned()
}

/// One line of DPDK's log.
extern "C" fn take_line(level: u32, text: *const c_char, bytes: usize) {
    // SAFETY: The shim passes that many bytes of text, which outlive the call.
    let text = unsafe { slice::from_raw_parts(text.cast::<u8>(), bytes) };
    let text = String::from_utf8_lossy(text);
    let mut last = LAST_LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if *last == text {
        return;
    }
    last.clear();
    last.push_str(&text);
    drop(last);
    match level {
        0..=4 => error!(target: "dpdk", "{text}"),
        5 => warn!(target: "dpdk", "{text}"),
        6 | 7 => info!(target: "dpdk", "{text}"),
        _ => debug!(target: "dpdk", "{text}"),
    }
}

/// A thread that DPDK knows, until it ends.
struct Member {
    joined: bool,
}

impl Member {
    fn join() -> Self {
        // SAFETY: The environment layer is up, because only ports get here. This thread has not
        // joined yet.
        let answer = unsafe { sys::covalent_thread_register() };
        if let Ok(number) = u32::try_from(answer) {
            THREADS.fetch_max(number + 1, Ordering::Relaxed);
        }
        Self {
            // A thread without a number also works, but slower: DPDK has 128 numbers.
            joined: answer >= 0,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.joined {
            // SAFETY: this thread joined, and ends.
            unsafe { sys::covalent_thread_unregister() };
        }
    }
}

thread_local! {
    static MEMBER: Member = Member::join();
}

/// Makes the calling thread known to DPDK. Does nothing but the first time.
pub(super) fn join() {
    // A thread that is ending has had its turn.
    let _ = MEMBER.try_with(|_| ());
}

/// Threads that DPDK knows have numbers below this.
pub(super) fn threads() -> u32 {
    THREADS.load(Ordering::Relaxed)
}
