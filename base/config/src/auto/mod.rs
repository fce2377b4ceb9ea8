//! Resolves `auto` for an interface: a pure function of its driver, the running Linux version and
//! the configuration.
//!
//! The daemon applies the result, `covalent configure` prepares the machine for it, and `covalent
//! config auto` prints it with the reasons.

mod drivers;
mod kernel;

use std::fmt;

use serde::Serialize;

pub use self::{
    drivers::{DRIVERS, Driver, LINUX_KNOWN, Queues},
    kernel::Linux,
};
use crate::{CHUNK_BYTES, CHUNK_FRAME_BYTES, CopyMode, MTU_BYTES_MAX, QUEUES_MAX, XdpMode};

/// Known facts of an interface before it is modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceFacts<'a> {
    /// The Linux that runs.
    pub linux: Linux,
    /// Name of the interface's driver; empty if unknown.
    pub driver: &'a str,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// Receive queues in use.
    pub queues: u32,
    /// Maximum number of receive queues; 0 if the driver does not report it.
    pub queues_most: u32,
}

/// The configured keys of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// `xdp`.
    pub xdp: XdpMode,
    /// `copy`.
    pub copy: CopyMode,
    /// `queues`; 0 for all.
    pub queues: u32,
}

/// A value, and why it is that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// Why.
    pub why: String,
}

impl<T> Chosen<T> {
    fn new(value: T, why: impl Into<String>) -> Self {
        Self {
            value,
            why: why.into(),
        }
    }
}

/// Which XDP hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// The driver's.
    Native,
    /// The driver's if it accepts the program, otherwise the network stack's. Only known after an
    /// attempt.
    Ask,
    /// The network stack's.
    Generic,
}

/// Whether the kernel copies frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Copying {
    /// It does not.
    ZeroCopy,
    /// It does not if the driver supports zero-copy. Only known after an attempt.
    Ask,
    /// It does.
    Copy,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Ask => "native, else generic",
            Self::Generic => "generic",
        })
    }
}

impl fmt::Display for Copying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ZeroCopy => "zero-copy",
            Self::Ask => "zero-copy, else copy",
            Self::Copy => "copy",
        })
    }
}

/// The resolved settings of a port on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choices {
    /// The XDP hook.
    pub xdp: Chosen<Hook>,
    /// Whether frames are copied.
    pub copy: Chosen<Copying>,
    /// Receive queues to use.
    pub queues: Chosen<u32>,
    /// Most receive queues that may be in use on the interface while it has an XDP program.
    pub queues_most: Chosen<u32>,
    /// Largest MTU that the port works with, in bytes.
    pub mtu_bytes_max: Chosen<u32>,
    /// Size of a chunk of packet memory, in bytes.
    pub chunk_bytes: Chosen<u32>,
    /// Whether the driver is woken only when it requests it.
    pub need_wakeup: Chosen<bool>,
    /// Whether a frame may lie in several chunks.
    pub multi_buffer: Chosen<bool>,
    /// Whether the lane polls the driver in its place.
    pub busy_poll: Chosen<bool>,
}

impl Choices {
    /// Each with its name, its value in words and its reason.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String, &str)> {
        let yes = |value| if value { "yes" } else { "no" }.to_owned();
        vec![
            ("xdp", self.xdp.value.to_string(), &self.xdp.why),
            ("copy", self.copy.value.to_string(), &self.copy.why),
            ("queues", self.queues.value.to_string(), &self.queues.why),
            (
                "queues with XDP, at most",
                self.queues_most.value.to_string(),
                &self.queues_most.why,
            ),
            (
                "MTU, at most",
                self.mtu_bytes_max.value.to_string(),
                &self.mtu_bytes_max.why,
            ),
            (
                "chunk of packet memory",
                format!("{} bytes", self.chunk_bytes.value),
                &self.chunk_bytes.why,
            ),
            (
                "need_wakeup",
                yes(self.need_wakeup.value),
                &self.need_wakeup.why,
            ),
            (
                "multi-buffer",
                yes(self.multi_buffer.value),
                &self.multi_buffer.why,
            ),
            ("busy poll", yes(self.busy_poll.value), &self.busy_poll.why),
        ]
    }

    /// Why the driver would refuse the program on the interface as it is, if it would.
    #[must_use]
    pub fn obstacle(&self, facts: &InterfaceFacts<'_>) -> Option<String> {
        if facts.mtu_bytes > self.mtu_bytes_max.value {
            return Some(format!(
                "its MTU is {}, and {} bytes are the most: {}",
                facts.mtu_bytes, self.mtu_bytes_max.value, self.mtu_bytes_max.why
            ));
        }
        (facts.queues > self.queues_most.value).then(|| {
            format!(
                "{} queues are in use, and {} are the most: {}",
                facts.queues, self.queues_most.value, self.queues_most.why
            )
        })
    }
}

/// Resolves the settings of a port.
#[must_use]
pub fn choose(facts: &InterfaceFacts<'_>, wishes: Wishes) -> Choices {
    let driver = Driver::named(facts.driver);
    let xdp = hook(facts, driver, wishes);
    let copy = copying(facts, driver, wishes, xdp.value);
    let queues_most = queues_most(facts, driver, xdp.value);
    Choices {
        queues: queues(facts, wishes),
        mtu_bytes_max: mtu(driver, xdp.value),
        chunk_bytes: chunk(facts, driver, copy.value),
        need_wakeup: Chosen::new(
            true,
            "the kernel reports when it needs a wakeup, so no system call is wasted",
        ),
        multi_buffer: Chosen::new(
            false,
            "a frame lies in one chunk, where an application reads it as it is",
        ),
        busy_poll: Chosen::new(
            false,
            "the driver's own interrupts and softirqs move frames; a lane that polled in their \
             place would stand still with it",
        ),
        xdp,
        copy,
        queues_most,
    }
}

/// The driver's name in a sentence.
fn name<'a>(facts: &InterfaceFacts<'a>) -> &'a str {
    match facts.driver {
        "" => "a driver that does not report its name",
        name => name,
    }
}

fn hook(facts: &InterfaceFacts<'_>, driver: Option<&Driver>, wishes: Wishes) -> Chosen<Hook> {
    let (linux, name) = (facts.linux, name(facts));
    match wishes.xdp {
        XdpMode::Native => return Chosen::new(Hook::Native, "configured: `xdp = \"native\"`"),
        XdpMode::Generic => return Chosen::new(Hook::Generic, "configured: `xdp = \"generic\"`"),
        XdpMode::Auto => {}
    }
    if wishes.copy == CopyMode::ZeroCopy {
        return Chosen::new(
            Hook::Native,
            "`copy = \"zero_copy\"` is configured, and the generic hook always copies",
        );
    }
    match driver.map(|driver| driver.native) {
        None => Chosen::new(
            Hook::Ask,
            format!("nothing is known of {name}: native mode is tried first"),
        ),
        Some(Some(since)) if linux >= since => Chosen::new(
            Hook::Native,
            format!("{name} has a native hook since Linux {since}"),
        ),
        Some(Some(since)) => Chosen::new(
            Hook::Ask,
            format!(
                "{name} has a native hook since Linux {since}, and this is {linux}: it is tried, \
                 because distributions ship newer drivers"
            ),
        ),
        Some(None) if linux > LINUX_KNOWN => Chosen::new(
            Hook::Ask,
            format!(
                "{name} had no native hook up to Linux {LINUX_KNOWN}, and this is {linux}: it is \
                 tried"
            ),
        ),
        Some(None) => Chosen::new(
            Hook::Generic,
            format!("{name} has no native hook up to Linux {LINUX_KNOWN}"),
        ),
    }
}

fn copying(
    facts: &InterfaceFacts<'_>,
    driver: Option<&Driver>,
    wishes: Wishes,
    hook: Hook,
) -> Chosen<Copying> {
    let (linux, name) = (facts.linux, name(facts));
    match wishes.copy {
        CopyMode::ZeroCopy => {
            return Chosen::new(Copying::ZeroCopy, "configured: `copy = \"zero_copy\"`");
        }
        CopyMode::Copy => return Chosen::new(Copying::Copy, "configured: `copy = \"copy\"`"),
        CopyMode::Auto => {}
    }
    if hook == Hook::Generic {
        return Chosen::new(Copying::Copy, "the generic hook always copies");
    }
    let Some(driver) = driver else {
        return Chosen::new(
            Copying::Ask,
            format!("nothing is known of {name}: zero-copy is tried first"),
        );
    };
    match (driver.zero_copy, driver.not_before) {
        (Some(since), _) if linux >= since => Chosen::new(
            Copying::ZeroCopy,
            format!("{name} has zero-copy since Linux {since}"),
        ),
        (Some(_), Some(why)) => Chosen::new(Copying::Copy, format!("this is {linux}, and {why}")),
        (Some(since), None) => Chosen::new(
            Copying::Ask,
            format!(
                "{name} has zero-copy since Linux {since}, and this is {linux}: it is tried, \
                 because distributions ship newer drivers"
            ),
        ),
        (None, _) if linux > LINUX_KNOWN => Chosen::new(
            Copying::Ask,
            format!(
                "{name} had no zero-copy up to Linux {LINUX_KNOWN}, and this is {linux}: it is \
                 tried"
            ),
        ),
        (None, _) => Chosen::new(
            Copying::Copy,
            format!("{name} has no zero-copy up to Linux {LINUX_KNOWN}"),
        ),
    }
}

fn queues(facts: &InterfaceFacts<'_>, wishes: Wishes) -> Chosen<u32> {
    match wishes.queues {
        0 => Chosen::new(
            facts.queues,
            "`queues = 0`: all that the interface has in use, for frames arrive on all",
        ),
        queues => Chosen::new(queues, format!("configured: `queues = {queues}`")),
    }
}

fn queues_most(facts: &InterfaceFacts<'_>, driver: Option<&Driver>, hook: Hook) -> Chosen<u32> {
    let name = name(facts);
    match driver.map(|driver| driver.queues) {
        Some(Queues::Half) if hook != Hook::Generic && facts.queues_most > 1 => Chosen::new(
            (facts.queues_most / 2).min(QUEUES_MAX),
            format!(
                "{name} sends XDP frames on as many extra queues, so half of the {} that it can \
                 have may be in use",
                facts.queues_most
            ),
        ),
        _ => Chosen::new(QUEUES_MAX, "so many sockets fit the XDP program's table"),
    }
}

fn mtu(driver: Option<&Driver>, hook: Hook) -> Chosen<u32> {
    match driver.and_then(|driver| Some((driver.names.first()?, driver.mtu_bytes_max?))) {
        Some((name, most)) if hook != Hook::Generic && most < MTU_BYTES_MAX => Chosen::new(
            most,
            format!("{name} takes an XDP program with an MTU of {most} at most"),
        ),
        _ => Chosen::new(
            MTU_BYTES_MAX,
            format!(
                "a frame with its Ethernet header and two VLAN tags must fit the \
                 {CHUNK_FRAME_BYTES} bytes of a chunk"
            ),
        ),
    }
}

fn chunk(facts: &InterfaceFacts<'_>, driver: Option<&Driver>, copying: Copying) -> Chosen<u32> {
    let name = name(facts);
    if copying != Copying::Copy && driver.is_some_and(|driver| driver.whole_kib) {
        return Chosen::new(
            CHUNK_BYTES * 2,
            format!(
                "with zero-copy the device of {name} takes whole KiB of a frame into a chunk, of a \
                 smaller one only the first"
            ),
        );
    }
    Chosen::new(
        CHUNK_BYTES,
        "two to a page, the smallest that the kernel takes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTO: Wishes = Wishes {
        xdp: XdpMode::Auto,
        copy: CopyMode::Auto,
        queues: 0,
    };

    fn facts(driver: &'static str, linux: Linux) -> InterfaceFacts<'static> {
        InterfaceFacts {
            linux,
            driver,
            mtu_bytes: 1500,
            queues: 4,
            queues_most: 8,
        }
    }

    /// The Linux just before.
    fn before(linux: Linux) -> Linux {
        match linux {
            Linux(major, 0) => Linux(major.saturating_sub(1), 99),
            Linux(major, minor) => Linux(major, minor - 1),
        }
    }

    #[test]
    fn names_stand_for_one_driver_each() {
        let mut names: Vec<_> = DRIVERS.iter().flat_map(|driver| driver.names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(DRIVERS.iter().all(|driver| !driver.names.is_empty()));
    }

    #[test]
    fn every_row_holds_from_its_linux_and_is_probed_before() {
        for driver in DRIVERS {
            for &name in driver.names {
                let Some(native) = driver.native else {
                    let now = choose(&facts(name, LINUX_KNOWN), AUTO);
                    assert_eq!(now.xdp.value, Hook::Generic, "{name}: {now:?}");
                    assert_eq!(now.copy.value, Copying::Copy, "{name}: {now:?}");
                    let later = choose(&facts(name, Linux(LINUX_KNOWN.0 + 1, 0)), AUTO);
                    assert_eq!(later.xdp.value, Hook::Ask, "{name}: {later:?}");
                    continue;
                };
                assert!(native <= LINUX_KNOWN, "{name}");
                let at = choose(&facts(name, native), AUTO);
                assert_eq!(at.xdp.value, Hook::Native, "{name}");
                assert!(at.xdp.why.contains(&native.to_string()), "{name}: {at:?}");
                let older = choose(&facts(name, before(native)), AUTO);
                assert_eq!(older.xdp.value, Hook::Ask, "{name}");

                let Some(zero_copy) = driver.zero_copy else {
                    let now = choose(&facts(name, LINUX_KNOWN), AUTO);
                    assert_eq!(now.copy.value, Copying::Copy, "{name}: {now:?}");
                    let later = choose(&facts(name, Linux(LINUX_KNOWN.0 + 1, 0)), AUTO);
                    assert_eq!(later.copy.value, Copying::Ask, "{name}: {later:?}");
                    continue;
                };
                assert!(zero_copy >= native && zero_copy <= LINUX_KNOWN, "{name}");
                let at = choose(&facts(name, zero_copy), AUTO);
                assert_eq!(at.copy.value, Copying::ZeroCopy, "{name}: {at:?}");
                let older = choose(&facts(name, before(zero_copy)), AUTO);
                let expected = match driver.not_before {
                    Some(_) => Copying::Copy,
                    None => Copying::Ask,
                };
                assert_eq!(older.copy.value, expected, "{name}: {older:?}");
            }
        }
    }

    #[test]
    fn every_row_sets_chunk_size_and_mtu() {
        for driver in DRIVERS {
            let now = choose(&facts(driver.names[0], LINUX_KNOWN), AUTO);
            let name = driver.names[0];
            let most = driver.mtu_bytes_max.unwrap_or(u32::MAX).min(MTU_BYTES_MAX);
            assert_eq!(now.mtu_bytes_max.value, most, "{name}");
            let whole = driver.whole_kib && driver.zero_copy.is_some();
            let chunk = if whole { 4096 } else { 2048 };
            assert_eq!(now.chunk_bytes.value, chunk, "{name}");
            let queues = match driver.queues {
                Queues::Half => 4,
                Queues::All => QUEUES_MAX,
            };
            assert_eq!(now.queues_most.value, queues, "{name}");
            // Every frame of the usual MTU can be taken.
            assert!(now.mtu_bytes_max.value >= 1500, "{name}");
        }
    }

    #[test]
    fn devices_that_take_whole_kib_get_chunks_that_a_frame_fits() {
        let chunk = |driver, copy| {
            let wishes = Wishes { copy, ..AUTO };
            choose(&facts(driver, Linux(6, 18)), wishes)
                .chunk_bytes
                .value
        };
        for driver in ["igb", "ixgbe"] {
            assert_eq!(chunk(driver, CopyMode::ZeroCopy), 4096);
            assert_eq!(chunk(driver, CopyMode::Auto), 4096);
            assert_eq!(chunk(driver, CopyMode::Copy), 2048);
        }
        assert_eq!(chunk("virtio_net", CopyMode::ZeroCopy), 2048);
        // On a Linux older than zero-copy support, zero-copy may still work.
        let old = choose(&facts("igb", Linux(6, 1)), AUTO);
        assert_eq!(old.chunk_bytes.value, 4096);
    }

    #[test]
    fn a_driver_outside_the_table_is_probed() {
        for driver in ["", "covalent_none", "vmxnet3"] {
            let choices = choose(&facts(driver, Linux(6, 18)), AUTO);
            assert_eq!(choices.xdp.value, Hook::Ask);
            assert_eq!(choices.copy.value, Copying::Ask);
            assert_eq!(choices.mtu_bytes_max.value, MTU_BYTES_MAX);
            assert_eq!(choices.chunk_bytes.value, 2048);
            assert_eq!(choices.queues.value, 4);
        }
    }

    #[test]
    fn an_unreadable_linux_version_counts_as_old() {
        let choices = choose(&facts("ice", Linux::of_release("strange")), AUTO);
        assert_eq!(
            (choices.xdp.value, choices.copy.value),
            (Hook::Ask, Copying::Ask)
        );
        let mlx5 = choose(&facts("mlx5_core", Linux(5, 15)), AUTO);
        assert_eq!(mlx5.copy.value, Copying::Copy);
        assert!(mlx5.copy.why.contains("separate queues"), "{mlx5:?}");
    }

    #[test]
    fn configured_settings_are_not_overridden() {
        let of = |xdp, copy| {
            let wishes = Wishes {
                xdp,
                copy,
                queues: 3,
            };
            let choices = choose(&facts("veth", Linux(6, 18)), wishes);
            assert_eq!(choices.queues.value, 3);
            (choices.xdp.value, choices.copy.value)
        };
        assert_eq!(
            of(XdpMode::Native, CopyMode::ZeroCopy),
            (Hook::Native, Copying::ZeroCopy)
        );
        assert_eq!(
            of(XdpMode::Auto, CopyMode::ZeroCopy),
            (Hook::Native, Copying::ZeroCopy)
        );
        assert_eq!(
            of(XdpMode::Generic, CopyMode::Auto),
            (Hook::Generic, Copying::Copy)
        );
        assert_eq!(
            of(XdpMode::Auto, CopyMode::Copy),
            (Hook::Native, Copying::Copy)
        );
    }

    #[test]
    fn the_generic_hook_requires_nothing_of_the_driver() {
        let wishes = Wishes {
            xdp: XdpMode::Generic,
            ..AUTO
        };
        let igc = choose(&facts("igc", Linux(6, 18)), wishes);
        assert_eq!(igc.mtu_bytes_max.value, MTU_BYTES_MAX);
        let ena = choose(&facts("ena", Linux(6, 18)), wishes);
        assert_eq!(ena.queues_most.value, QUEUES_MAX);
    }

    #[test]
    fn an_obstacle_is_reported_with_the_value_that_works() {
        let ena = InterfaceFacts {
            queues: 8,
            ..facts("ena", Linux(6, 18))
        };
        let message = choose(&ena, AUTO).obstacle(&ena).expect("8 of 8 queues");
        assert!(
            message.contains("8 queues") && message.contains("4 are"),
            "{message}"
        );
        let igc = InterfaceFacts {
            mtu_bytes: 1600,
            ..facts("igc", Linux(6, 18))
        };
        let message = choose(&igc, AUTO).obstacle(&igc).expect("1600 of 1500");
        assert!(
            message.contains("1600") && message.contains("1500"),
            "{message}"
        );
        let fine = facts("ena", Linux(6, 18));
        assert_eq!(choose(&fine, AUTO).obstacle(&fine), None);
        // A driver that does not report its maximum is not halved.
        let silent = InterfaceFacts {
            queues_most: 0,
            ..fine
        };
        assert_eq!(choose(&silent, AUTO).obstacle(&silent), None);
    }

    #[test]
    fn every_choice_has_a_reason() {
        for driver in DRIVERS.iter().map(|driver| driver.names[0]).chain([""]) {
            for linux in [Linux(0, 0), Linux(5, 11), Linux(6, 18), Linux(7, 3)] {
                for (what, value, why) in choose(&facts(driver, linux), AUTO).rows() {
                    assert!(!value.is_empty() && why.len() > 8, "{driver} {what}: {why}");
                }
            }
        }
    }
}
