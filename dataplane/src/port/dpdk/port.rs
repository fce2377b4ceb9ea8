//! A device as a lane drives it.

use std::{
    os::fd::RawFd,
    time::{Duration, Instant},
};

use covalent_api::status::PortMode;
use covalent_config::{DataplaneConfig, RxChecksum, TxChecksum};
use covalent_pipe::SharedBytes;
use tracing::info;

use super::{
    Plan, Wanted,
    device::{Abilities, Device, DeviceError, RuleHandle, Wish},
    driver::Driver,
    eal,
    nap::Nap,
    poll_timer::PollTimer,
    pool::{FRAME_BYTES_MAX, Pool, STRAY_BUFFERS},
    receive::Receiver,
    rules::Rules,
    transmit::{self, Sender},
    xstats,
};
use crate::port::{
    Burst, ETHERNET_HEADER_BYTES, Port, PortCounters, PortError, PortInfo, SteerChange, Tally,
    TxRefusal,
    af_xdp::{interface::Interface, preflight},
};

/// Bytes of two VLAN tags, which come on top of the longest frame.
const TAGS_BYTES: usize = 8;

/// Buffers besides those in rings: those of a burst in progress, and those that a pool does not
/// lend.
const SPARE_BUFFERS: u32 = 512;

const CURE: &str = "cure: see DPDK's own lines in the log; `dpdk-devbind.py --status` shows which \
                    PCI devices a DPDK driver may use; virtual devices on an interface need root";

/// Minimum and maximum time between two attempts to reconnect a calling device. The same between
/// two checks whether an interface without a carrier still exists.
///
/// Shorter intervals are unsafe: a caller that closes before the other process has greeted it
/// terminates that process. The driver there closes a descriptor that DPDK still waits on.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// See the module's documentation.
pub(in crate::port) struct DpdkPort {
    info: PortInfo,
    // In this order: a device that closes gives its buffers back to pools that are still there.
    device: Device,
    receiver: Receiver,
    sender: Sender,
    rules: Rules<RuleHandle>,
    medium: Medium,
    /// The device counts as transmit errors only frames that are lost, not frames that it refused
    /// and received again.
    counts_losses: bool,
    frame_space_bytes: usize,
    drop_bad_checksums: bool,
    enabled: bool,
    running: bool,
    device_carrier: bool,
    /// The kernel's interface that the device sits on, where it does.
    interface: Option<Interface>,
    interface_carrier: bool,
    gone: bool,
    /// The last flush could not give the device anything.
    stuck: bool,
    poll_timer: PollTimer,
    retry: Retry,
    nap: Nap,
    /// Of each queue; empty where lanes must nap.
    interrupts: Vec<RawFd>,
    tally: Tally,
    dropped_disabled: u64,
    dropped_too_short: u64,
    dropped_too_long: u64,
    dropped_bad_checksum: u64,
    dropped_by_reconnect: u64,
}

/// Distinguishes kinds of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Medium {
    /// A cable, or a device that behaves like one.
    Wire,
    /// `net_memif`: stopping the device disconnects the cable. The calling end must call again
    /// after the other end was away.
    Memif { calls: bool },
}

/// When to try again.
#[derive(Debug)]
struct Retry {
    next: Instant,
    pause: Duration,
}

impl Retry {
    fn new() -> Self {
        Self {
            next: Instant::now() + RETRY.0,
            pause: RETRY.0,
        }
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(RETRY.1);
        true
    }
}

/// This build has DPDK.
///
/// # Errors
/// None.
pub(in crate::port) const fn check(_port: &str) -> Result<(), PortError> {
    Ok(())
}

/// Opens the device and starts it.
pub(in crate::port) fn open(
    wanted: &Wanted<'_>,
    dataplane: &DataplaneConfig,
    plan: &Plan,
) -> Result<Box<dyn Port>, PortError> {
    let own;
    let plan = if plan.is_empty() {
        own = plan
            .clone()
            .and(wanted.device, wanted.queues, wanted.ring_slots);
        &own
    } else {
        plan
    };
    let interface = wanted
        .interface
        .map(|name| preflight::interface(wanted.port, name))
        .transpose()?;
    let name = wanted
        .device
        .split_once(',')
        .map_or(wanted.device, |(name, _)| name);
    let setup = eal::ensure(wanted.port, plan, dataplane.huge_pages)?;
    if name.contains(':') && !setup.knows(name) {
        return Err(refuse(
            wanted,
            "DPDK was set up in this process without it".to_owned(),
            "restart the daemon with all its PCI devices in the file",
        ));
    }
    DpdkPort::start(wanted, dataplane, interface, name).map(|port| Box::new(port) as Box<dyn Port>)
}

fn refuse(wanted: &Wanted<'_>, problem: String, remedy: &str) -> PortError {
    PortError::Setup {
        port: wanted.port.to_owned(),
        problem: format!("device `{}`: {problem}", wanted.device),
        remedy: remedy.to_owned(),
    }
}

impl DpdkPort {
    fn start(
        wanted: &Wanted<'_>,
        dataplane: &DataplaneConfig,
        interface: Option<Interface>,
        name: &str,
    ) -> Result<Self, PortError> {
        let failed = |error: DeviceError| refuse(wanted, error.to_string(), CURE);
        let io = |source| PortError::Io {
            port: wanted.port.to_owned(),
            doing: "making a descriptor",
            source,
        };
        let mut device = Device::open(wanted.device).map_err(failed)?;
        let can = device.abilities(wanted.ring_slots).map_err(failed)?;
        check_wishes(wanted, &can)?;
        let driver = Driver::named(&can.driver);
        let pools = || {
            let receive = Pool::create(receive_buffers(wanted.queues, &can, driver))?;
            let transmit = Pool::create(transmit::pool_buffers(wanted.ring_slots, can.tx_slots))?;
            Some((receive, transmit))
        };
        let (receive, transmit) = pools().ok_or_else(|| {
            refuse(
                wanted,
                "DPDK's memory has no room for its packets".to_owned(),
                "raise `dpdk.memory_mib`, reserve more huge pages, or set a smaller `ring_slots`",
            )
        })?;
        let page_bytes = receive.page_bytes();
        let medium = Medium::of(wanted.device, driver);
        let wish = Wish {
            queues: wanted.queues,
            rx_slots: can.rx_slots,
            tx_slots: can.tx_slots,
            rss_key: dataplane.rss_key.bytes(),
            rx_checksum: wanted.rx_checksum == RxChecksum::Drop,
            tx_checksum: wanted.tx_checksum == TxChecksum::Fill,
        };
        // The calling end finds no peer yet if it starts first.
        let may_wait = medium == Medium::Memif { calls: true };
        let started = device.start(&wish, &receive, may_wait).map_err(failed)?;
        let interrupts: Option<Vec<RawFd>> = if started.rx_interrupts {
            (0..wanted.queues)
                .map(|queue| device.interrupt_fd(queue))
                .collect()
        } else {
            None
        };
        let interrupts = interrupts.unwrap_or_default();
        info!(
            port = wanted.port,
            device = wanted.device,
            driver = can.driver,
            rx_slots = can.rx_slots,
            tx_slots = can.tx_slots,
            receive_interrupts = !interrupts.is_empty(),
            "DPDK device started"
        );
        let frame_bytes_max = (can.mtu_bytes + ETHERNET_HEADER_BYTES as u32)
            .min(u32::from(FRAME_BYTES_MAX) - TAGS_BYTES as u32);
        let number = device.port();
        Ok(Self {
            info: PortInfo {
                name: wanted.port.to_owned(),
                kind: "dpdk",
                interface: Some(
                    interface
                        .as_ref()
                        .map_or(name, |interface| &interface.name)
                        .to_owned(),
                ),
                mac: can.mac,
                frame_bytes_max,
                mode: PortMode {
                    xdp: "none".to_owned(),
                    zero_copy: name.contains(':'),
                    need_wakeup: false,
                    page_bytes,
                    queues: wanted.queues,
                },
            },
            device,
            receiver: Receiver::new(number, wanted.queues as u16, receive),
            sender: Sender::new(
                number,
                wanted.ring_slots,
                transmit,
                wish.tx_checksum,
                driver.keeps_sent,
            ),
            rules: Rules::new(),
            medium,
            counts_losses: !driver.counts_refused,
            frame_space_bytes: frame_bytes_max as usize + TAGS_BYTES,
            drop_bad_checksums: wish.rx_checksum,
            enabled: true,
            running: started.running,
            device_carrier: false,
            interface_carrier: interface.as_ref().is_none_or(|interface| interface.carrier),
            interface,
            gone: false,
            stuck: false,
            poll_timer: PollTimer::new(),
            retry: Retry::new(),
            nap: Nap::new().map_err(io)?,
            interrupts,
            tally: Tally::default(),
            dropped_disabled: 0,
            dropped_too_short: 0,
            dropped_too_long: 0,
            dropped_bad_checksum: 0,
            dropped_by_reconnect: 0,
        })
    }
}

fn check_wishes(wanted: &Wanted<'_>, can: &Abilities) -> Result<(), PortError> {
    if wanted.queues > can.queues_max {
        return Err(refuse(
            wanted,
            format!(
                "`queues = {}`, but it has {}",
                wanted.queues, can.queues_max
            ),
            "set `queues` to that or less, or give a virtual device more (`qpairs=`, \
             `queue_count=`)",
        ));
    }
    if wanted.queues > 1 && !can.rss {
        tracing::warn!(
            port = wanted.port,
            driver = can.driver,
            "this driver does not distribute flows itself: frames arrive on the queues that its \
             other end chooses"
        );
    }
    if wanted.rx_checksum == RxChecksum::Drop && !can.rx_checksum {
        return Err(refuse(
            wanted,
            format!(
                "`rx_checksum = \"drop\"`, but driver {} does not check checksums",
                can.driver
            ),
            "set `rx_checksum = \"ignore\"`",
        ));
    }
    if wanted.tx_checksum == TxChecksum::Fill && !can.tx_checksum {
        return Err(refuse(
            wanted,
            format!(
                "`tx_checksum = \"fill\"`, but driver {} computes no checksums",
                can.driver
            ),
            "set `tx_checksum = \"keep\"`",
        ));
    }
    Ok(())
}

/// Buffers for all that a device may hold, for frames that other ports keep, and spare ones.
fn receive_buffers(queues: u32, can: &Abilities, driver: Driver) -> u32 {
    let held = driver
        .own_rings_slots_min
        .map_or(can.rx_slots, |slots_min| 2 * can.rx_slots.max(slots_min));
    queues * held + can.tx_slots + SPARE_BUFFERS + STRAY_BUFFERS
}

impl Medium {
    fn of(device: &str, driver: Driver) -> Self {
        if !driver.stop_disconnects {
            return Self::Wire;
        }
        let answers = device
            .split(',')
            .any(|argument| matches!(argument, "role=server" | "role=master"));
        Self::Memif { calls: !answers }
    }

    const fn is_memif(self) -> bool {
        matches!(self, Self::Memif { .. })
    }
}

impl DpdkPort {
    fn gone(&mut self) -> PortError {
        self.gone = true;
        PortError::Gone {
            port: self.info.name.clone(),
            reason: format!(
                "device `{}` was removed; restart the daemon when it returns",
                self.info.interface.as_deref().unwrap_or_default()
            ),
        }
    }

    /// Processes the device's events, and queries its carrier when that is due.
    fn watch(&mut self) -> Result<(), PortError> {
        if self.device.events().take_news() {
            self.poll_timer.hurry();
        }
        if self.gone || self.device.events().is_removed() {
            return Err(self.gone());
        }
        if !self.poll_timer.is_due() {
            return Ok(());
        }
        let carrier = self.device.carrier();
        let Some(carrier) = carrier else {
            return Err(self.gone());
        };
        if carrier && !self.enabled && self.medium.is_memif() {
            // A peer called again. The driver of an answering end accepts it even while the device
            // is stopped.
            let _ = self.device.restart();
            self.device.stop();
        }
        let carrier = self.running && carrier;
        if carrier && !self.device_carrier && self.medium.is_memif() {
            // The staged frames were for a peer that is gone.
            self.dropped_by_reconnect += self.sender.discard();
        }
        self.device_carrier = carrier;
        if self.device_carrier && self.interface_carrier {
            self.retry = Retry::new();
        } else if self.retry.is_due() {
            if self.enabled && self.medium == (Medium::Memif { calls: true }) {
                self.reconnect();
            }
            // Drivers on interfaces take one that is gone for one without a carrier.
            if self.interface.as_ref().is_some_and(Interface::is_removed) {
                return Err(self.gone());
            }
        }
        Ok(())
    }

    /// Calls the peer once more.
    fn reconnect(&mut self) {
        if self.running {
            self.device.stop();
        }
        self.running = self.device.restart();
    }

    fn link_down(&self) -> PortError {
        PortError::LinkDown {
            port: self.info.name.clone(),
        }
    }
}

impl Port for DpdkPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError> {
        eal::join();
        self.watch()?;
        if !self.running {
            return Ok(0);
        }
        for frame in self.receiver.burst(max) {
            let len = frame.bytes.len();
            let drop = if !self.enabled {
                &mut self.dropped_disabled
            } else if frame.chained || len > self.frame_space_bytes {
                &mut self.dropped_too_long
            } else if len < ETHERNET_HEADER_BYTES {
                &mut self.dropped_too_short
            } else if frame.bad_checksum && self.drop_bad_checksums {
                &mut self.dropped_bad_checksum
            } else {
                self.tally.received(len);
                into.push(frame.bytes);
                continue;
            };
            *drop += 1;
        }
        let received = into.frames().len();
        if received > 0 {
            self.nap.shorten();
        }
        Ok(received)
    }

    fn release(&mut self) {
        self.receiver.release();
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        let (len, max) = (frame.len(), self.info.frame_bytes_max as usize);
        let refusal = if let Some(refusal) = TxRefusal::by_length(len, max) {
            refusal
        } else if !self.carrier() {
            TxRefusal::Down
        } else if self.sender.stage(frame) {
            self.tally.taken(len);
            return Ok(());
        } else {
            TxRefusal::Full
        };
        Err(self.tally.refused(refusal))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        if self.gone {
            return Err(self.gone());
        }
        if !self.sender.has_staged() {
            return Ok(());
        }
        if !self.carrier() {
            return Err(self.link_down());
        }
        eal::join();
        let stuck = !self.sender.flush();
        if stuck && !self.stuck {
            // Its carrier may be why.
            self.poll_timer.hurry();
        }
        self.stuck = stuck;
        self.nap.shorten();
        Ok(())
    }

    fn tx_space(&mut self) -> usize {
        if !self.carrier() {
            return 0;
        }
        self.sender.room()
    }

    fn tx_idle(&mut self) -> bool {
        self.sender.is_idle()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        let mut fds = vec![self.device.events().fd(), self.nap.fd()];
        fds.extend_from_slice(&self.interrupts);
        fds
    }

    fn prepare_sleep(&mut self) -> bool {
        if self.gone || self.device.events().has_news() {
            return false;
        }
        if !self.running {
            return true;
        }
        let mut interrupts = !self.interrupts.is_empty();
        for queue in 0..self.interrupts.len() as u32 {
            interrupts &= self.device.set_interrupt(queue, true);
        }
        // Check after enabling the interrupts: earlier frames are found here, later ones interrupt.
        if self.receiver.has_frames() {
            return false;
        }
        let unsent = self.sender.has_staged() && self.carrier();
        // No event reports that the device has free slots again, and nothing wakes a napping lane.
        (interrupts && !unsent) || self.nap.begin()
    }

    fn finish_sleep(&mut self) {
        self.poll_timer.slept();
        self.device.events().silence();
        self.nap.end();
        for queue in 0..self.interrupts.len() {
            self.device.set_interrupt(queue as u32, false);
            self.device.drain_interrupt(self.interrupts[queue]);
        }
    }

    fn counters(&self) -> PortCounters {
        let lost = self.device.losses();
        let mut counters = self.tally.with_drops(vec![
            ("rx_ring_full", lost.missed),
            ("rx_no_buffer", lost.no_buffer),
            ("rx_device_error", lost.rx_errors),
            ("rx_bad_checksum", self.dropped_bad_checksum),
            ("frame_too_short", self.dropped_too_short),
            ("frame_too_long", self.dropped_too_long),
            (
                "tx_dropped_by_device",
                self.dropped_by_reconnect
                    + if self.counts_losses {
                        lost.tx_errors
                    } else {
                        0
                    },
            ),
            ("port_disabled", self.dropped_disabled),
        ]);
        counters.device_counts = xstats::reportable(self.device.counts());
        counters.device_events = self.device.events().counts();
        counters
    }

    fn steer(&mut self, change: &SteerChange) -> Result<(), PortError> {
        self.rules.apply(change, &mut self.device);
        Ok(())
    }

    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError> {
        if self.gone {
            return Err(self.gone());
        }
        if self.enabled == enabled {
            return Ok(());
        }
        self.enabled = enabled;
        if !self.medium.is_memif() {
            self.device.set_link(enabled);
        } else if enabled {
            self.running = self.device.restart();
            self.retry = Retry::new();
            if self.running {
                self.dropped_disabled += self.receiver.discard();
            }
        } else {
            self.device.stop();
            (self.running, self.device_carrier) = (false, false);
        }
        self.poll_timer.hurry();
        Ok(())
    }

    fn set_carrier(&mut self, up: bool) {
        self.interface_carrier = up;
    }

    fn carrier(&self) -> bool {
        self.enabled && self.device_carrier && self.interface_carrier && !self.gone
    }

    fn may_close_elsewhere(&self) -> bool {
        // Buffers of the port's pool may be in the lane's cache and in frames that other ports of
        // the lane send. The pool must not be freed while the lane returns a buffer.
        false
    }
}
