//! One device: found or created, configured, started, queried, and removed from the process.

use std::{
    collections::BTreeSet,
    ffi::{CStr, CString, c_char, c_int, c_void},
    io,
    os::fd::{BorrowedFd, RawFd},
    sync::{Mutex, PoisonError},
};

use covalent_config::{HugePages, PortConfig, PortKind};
use covalent_dpdk_sys as sys;
use tracing::debug;

use super::{Plan, eal::words, events::Events, pool::Pool, rules};
use crate::port::PortError;

/// Devices that some port of this process has.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Most counts that a device reports. Some cards have thousands, most of them per queue.
const COUNTS_MAX: usize = 4096;

/// Why a device cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    /// Another port of this process has it.
    #[error("another port of this process has it")]
    Taken,
    /// DPDK refused.
    #[error("{step}: {}", words(*.answer))]
    Refused { step: String, answer: c_int },
    /// No descriptor or no such text.
    #[error(transparent)]
    System(#[from] io::Error),
}

fn check(step: &str, answer: c_int) -> Result<c_int, DeviceError> {
    if answer >= 0 {
        return Ok(answer);
    }
    Err(DeviceError::Refused {
        step: step.to_owned(),
        answer,
    })
}

/// The capabilities of a device.
#[derive(Debug, Clone)]
pub(super) struct Abilities {
    pub(super) driver: String,
    pub(super) mac: [u8; 6],
    pub(super) mtu_bytes: u32,
    pub(super) queues_max: u32,
    pub(super) rx_slots: u32,
    pub(super) tx_slots: u32,
    pub(super) rss: bool,
    pub(super) rx_checksum: bool,
    pub(super) tx_checksum: bool,
}

/// The parameters for the start of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) queues: u32,
    pub(super) rx_slots: u32,
    pub(super) tx_slots: u32,
    pub(super) rss_key: &'a [u8],
    pub(super) rx_checksum: bool,
    pub(super) tx_checksum: bool,
}

/// How it was started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started {
    /// It runs; if not it may be tried again.
    pub(super) running: bool,
    pub(super) rx_interrupts: bool,
}

/// A device that belongs to one port. Closed and taken from the process when dropped.
#[derive(Debug)]
pub(super) struct Device {
    port: u16,
    name: CString,
    events: Box<Events>,
    listener: Box<sys::covalent_listener>,
    is_subscribed: bool,
}

// SAFETY: the listener's pointer leads to `events`, which the device owns and which any thread may
// use. All other fields are plain values.
unsafe impl Send for Device {}

impl Device {
    /// Finds the device, or makes DPDK create it. `device` is its name or PCI address, with
    /// arguments after commas.
    pub(super) fn open(device: &str) -> Result<Self, DeviceError> {
        let text = |text: &str| CString::new(text).map_err(io::Error::from);
        let (name, all) = (
            text(device.split_once(',').map_or(device, |(name, _)| name))?,
            text(device)?,
        );
        let events = Box::new(Events::new()?);
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let port = match find(&name) {
            Some(port) => port,
            None => {
                // SAFETY: the environment layer is up. The text lives through the call.
                check("making it", unsafe { sys::covalent_probe(all.as_ptr()) })?;
                find(&name).ok_or_else(|| DeviceError::Refused {
                    step: "creating it (is it a network device?)".to_owned(),
                    answer: -libc::ENODEV,
                })?
            }
        };
        if !taken.insert(port) {
            return Err(DeviceError::Taken);
        }
        drop(taken);
        let mut device = Self {
            port,
            name,
            listener: Box::new(events.listener()),
            events,
            is_subscribed: false,
        };
        // SAFETY: name and listener do not move until `drop` has ended the subscription.
        let answer = unsafe {
            sys::covalent_events_begin(device.port, device.name.as_ptr(), &raw mut *device.listener)
        };
        device.is_subscribed = true;
        check("listening to its events", answer)?;
        Ok(device)
    }

    /// DPDK's number of it.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    /// Returns its capabilities, with rings of `slots` if supported.
    pub(super) fn abilities(&self, slots: u32) -> Result<Abilities, DeviceError> {
        let mut reported = sys::covalent_device::default();
        // SAFETY: the device exists. The call may write to `reported`.
        let answer = unsafe { sys::covalent_inspect(self.port, slots, &mut reported) };
        check("asking about it", answer)?;
        Ok(Abilities {
            driver: from_c(&reported.driver),
            mac: reported.mac,
            mtu_bytes: reported.mtu.into(),
            queues_max: reported.queues_max.into(),
            rx_slots: reported.rx_slots.into(),
            tx_slots: reported.tx_slots.into(),
            rss: reported.rss,
            rx_checksum: reported.rx_checksum,
            tx_checksum: reported.tx_checksum,
        })
    }

    /// Configures and starts the device, and fills it with buffers of `pool`, which must outlive
    /// the device. With `may_wait`, a device that cannot start yet is no error.
    pub(super) fn start(
        &mut self,
        wish: &Wish<'_>,
        pool: &Pool,
        may_wait: bool,
    ) -> Result<Started, DeviceError> {
        let wish = sys::covalent_wish {
            queues: wish.queues as u16,
            rx_slots: wish.rx_slots as u16,
            tx_slots: wish.tx_slots as u16,
            pool: pool.raw(),
            rss_key: wish.rss_key.as_ptr(),
            rss_key_bytes: wish.rss_key.len() as u8,
            rx_checksum: wish.rx_checksum,
            tx_checksum: wish.tx_checksum,
        };
        let mut result = sys::covalent_result::default();
        // SAFETY: the device exists and is not running. The key lives through the call, and the
        // pool as long as the device.
        let answer = unsafe { sys::covalent_start(self.port, &wish, &mut result) };
        let step = if result.step.is_null() {
            String::new()
        } else {
            // SAFETY: the shim stores one of its own texts there, which live forever.
            unsafe { CStr::from_ptr(result.step) }
                .to_string_lossy()
                .into_owned()
        };
        let waits = may_wait && step.as_bytes() == sys::COVALENT_STEP_START.to_bytes();
        if answer < 0 && !waits {
            check(&step, answer)?;
        }
        Ok(Started {
            running: answer >= 0,
            rx_interrupts: result.rx_interrupts,
        })
    }

    /// Starts it again after [`Device::stop`]. Returns whether it runs.
    pub(super) fn restart(&mut self) -> bool {
        // SAFETY: the device is configured, and this thread alone uses its queues.
        unsafe { sys::covalent_restart(self.port) >= 0 }
    }

    /// Stops it: nothing may be received or sent until it is started again.
    pub(super) fn stop(&mut self) {
        // SAFETY: as for `restart`. A device that does not stop is used no more all the same.
        let _ = unsafe { sys::covalent_stop(self.port) };
    }

    /// Has it drop or raise its carrier, if it can.
    pub(super) fn set_link(&mut self, up: bool) {
        // SAFETY: the device is there.
        let answer = unsafe { sys::covalent_set_link(self.port, up) };
        if answer < 0 {
            debug!(device = ?self.name, up, answer, "the device keeps its carrier");
        }
    }

    /// Whether it has a carrier; `None` when it is gone.
    pub(super) fn carrier(&self) -> Option<bool> {
        // SAFETY: the device is there.
        let answer = unsafe { sys::covalent_carrier(self.port) };
        if answer > 0 {
            return Some(true);
        }
        // SAFETY: as before. A card is queried only if it has no carrier: the answer comes over the
        // bus.
        let removed = answer < 0 || unsafe { sys::covalent_is_removed(self.port) };
        (!removed).then_some(false)
    }

    /// The descriptor that a queue's receive interrupts make readable.
    pub(super) fn interrupt_fd(&self, queue: u32) -> Option<RawFd> {
        // SAFETY: the device was started with that queue.
        let fd = unsafe { sys::covalent_rx_interrupt_fd(self.port, queue as u16) };
        (fd >= 0).then_some(fd)
    }

    /// Enables or disables the interrupt of a queue. Returns whether it succeeded.
    pub(super) fn set_interrupt(&mut self, queue: u32, on: bool) -> bool {
        // SAFETY: the device was started with that queue and with receive interrupts.
        unsafe { sys::covalent_rx_interrupt(self.port, queue as u16, on) >= 0 }
    }

    /// Takes back the readability of a queue's interrupt.
    pub(super) fn drain_interrupt(&self, fd: RawFd) {
        // SAFETY: the device keeps its descriptors open while it exists. Only this call uses the
        // borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = nix::unistd::read(fd, &mut [0; 8]);
    }

    /// Frames that it lost.
    pub(super) fn losses(&self) -> sys::covalent_losses {
        let mut losses = sys::covalent_losses::default();
        // SAFETY: the device exists. The call may write to `losses`. A device that reports nothing
        // leaves zeros.
        let _ = unsafe { sys::covalent_losses(self.port, &mut losses) };
        losses
    }

    /// Every count that it keeps, by its driver's names.
    pub(super) fn counts(&self) -> Vec<(String, u64)> {
        let mut counts = vec![sys::covalent_count::default(); COUNTS_MAX];
        // SAFETY: the device exists. The buffer holds that many counts.
        let reported =
            unsafe { sys::covalent_counts(self.port, counts.as_mut_ptr(), COUNTS_MAX as u32) };
        counts.truncate(usize::try_from(reported).unwrap_or(0));
        counts
            .iter()
            .map(|count| (from_c(&count.name), count.value))
            .collect()
    }
}

/// A rule in the device.
#[derive(Debug)]
pub(super) struct RuleHandle(*mut c_void);

// SAFETY: the pointer is an opaque name for state of the driver. Only the port that owns the device
// uses it.
unsafe impl Send for RuleHandle {}

impl rules::Device for Device {
    type Handle = RuleHandle;

    fn drop_rule(&mut self, rule: &rules::DropRule) -> Option<RuleHandle> {
        let rule = sys::covalent_rule {
            ethertype: rule.ethertype,
            vlan: rule.vlan,
            ip_version: rule.ip_version,
            transport: rule.transport,
            source_bits: rule.source_bits,
            destination_bits: rule.destination_bits,
            source: rule.source,
            destination: rule.destination,
            source_port: rule.source_port,
            destination_port: rule.destination_port,
        };
        let mut why: [c_char; 128] = [0; 128];
        // SAFETY: the device exists. The call reads the rule, and `why` has as many bytes as its
        // length states.
        let handle =
            unsafe { sys::covalent_drop_rule(self.port, &rule, why.as_mut_ptr(), why.len()) };
        if handle.is_null() {
            debug!(device = ?self.name, why = from_c(&why), "the lane drops instead of the device");
            return None;
        }
        Some(RuleHandle(handle))
    }

    fn end_rule(&mut self, handle: RuleHandle) {
        // SAFETY: the device gave the handle, and it is forgotten here.
        let answer = unsafe { sys::covalent_drop_rule_end(self.port, handle.0) };
        if answer < 0 {
            tracing::warn!(device = ?self.name, why = words(answer), "the device keeps a rule that \
                drops");
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the subscription ends here, before name and listener are dropped. The device
        // belongs to this port, which no longer uses it.
        unsafe {
            if self.is_subscribed {
                sys::covalent_events_end(self.port, self.name.as_ptr(), &raw mut *self.listener);
            }
            sys::covalent_close(self.port);
        }
        taken.remove(&self.port);
    }
}

/// The port of a device that is there.
fn find(name: &CStr) -> Option<u16> {
    let mut port = 0;
    // SAFETY: the environment layer is up. The name lives through the call. The call may write to
    // `port`.
    let answer = unsafe { sys::covalent_find(name.as_ptr(), &mut port) };
    (answer >= 0).then_some(port)
}

fn from_c(text: &[c_char]) -> String {
    text.iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| char::from(byte.cast_unsigned()))
        .collect()
}

/// Creates the devices that two ports name. Each device receives the frames that the other one
/// sends, through rings of `slots` frames (a power of two) in DPDK's memory. Sets DPDK up for these
/// ports, without huge pages. The device names begin with `net_ring_`. The devices cease to exist
/// with their ports.
///
/// # Errors
/// [`PortError::Setup`] with DPDK's error text, under the name of the first port.
pub fn ring_pair(ports: &[PortConfig; 2], slots: u32) -> Result<(), PortError> {
    let refuse = |problem: String| PortError::Setup {
        port: ports[0].name.clone(),
        problem,
        remedy: "cure: see DPDK's own lines in the log".to_owned(),
    };
    super::eal::ensure(&ports[0].name, &Plan::of(ports), HugePages::Never)?;
    let mut names = Vec::with_capacity(ports.len());
    for port in ports {
        let PortKind::Dpdk { device, .. } = &port.kind else {
            return Err(refuse(format!("port `{}` is of another kind", port.name)));
        };
        names.push(CString::new(device.as_str()).map_err(|error| refuse(error.to_string()))?);
    }
    // SAFETY: The environment layer is up. The names outlive the call.
    let answer = unsafe { sys::covalent_ring_pair(names[0].as_ptr(), names[1].as_ptr(), slots) };
    if answer < 0 {
        return Err(refuse(format!(
            "the rings cannot be created: {}",
            words(answer)
        )));
    }
    Ok(())
}
