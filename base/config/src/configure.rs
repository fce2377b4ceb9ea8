//! `[configure]`: the settings that `covalent configure` applies to the machine.

use serde::{Serialize, Serializer, ser::SerializeSeq};

use super::{
    packet_memory::QUEUES_MAX,
    table::{Choice, Table},
};

/// Upper limit of 2 MiB huge pages that may be requested: 2 TiB.
const HUGE_PAGES_MAX: u32 = 1 << 20;

/// Upper limit of descriptors that may be requested for a NIC ring.
const NIC_RING_SLOTS_MAX: u32 = 1 << 20;

/// Range of MTUs that may be requested: the IPv4 minimum, and the Ethernet maximum.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 68..=65_535;

/// Most offloads that may be named.
const OFFLOADS_MAX: usize = 64;

/// Longest name of an offload, in bytes: the kernel's `ETH_GSTRING_LEN` less one.
const OFFLOAD_BYTES_MAX: usize = 31;

/// The settings that `covalent configure` applies to the machine. No process of the node reads
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigureConfig {
    /// Huge pages of 2 MiB that the machine reserves, 0 to 1,048,576. Default [`Amount::Auto`].
    pub huge_pages: Amount,
    /// Queues (channels) of each interface, 1 to [`QUEUES_MAX`]. Default [`Amount::Auto`].
    pub channels: Amount,
    /// Descriptors in each ring of each NIC, 1 to 1,048,576. Default [`Amount::Auto`].
    pub ring_slots: Amount,
    /// Which offloads are switched off. Default [`Offloads::Auto`].
    pub offloads: Offloads,
    /// Whether the interrupts of queues are moved to the cores that suit their lanes. Default
    /// [`Care::Auto`].
    pub irq_affinity: Care,
    /// Whether the daemon is given the memory that it locks. Default [`Care::Auto`].
    pub memlock: Care,
    /// MTU of each interface in bytes, 68 to 65,535. Default [`Amount::Keep`].
    pub mtu: Amount,
}

/// How many of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// As many as the node needs.
    Auto,
    /// As many as there are.
    Keep,
    /// So many.
    #[serde(untagged)]
    Exactly(u32),
}

/// Whether something is seen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Care {
    /// As the node needs it.
    Auto,
    /// It is left unchanged.
    Keep,
}

/// Which offloads are switched off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offloads {
    /// Offloads that hide the frames' on-wire form from the dataplane.
    Auto,
    /// None.
    Keep,
    /// The offloads with these names.
    Off(Vec<String>),
}

impl Serialize for Offloads {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Keep => serializer.serialize_str("keep"),
            Self::Off(names) => {
                let mut list = serializer.serialize_seq(Some(names.len()))?;
                for name in names {
                    list.serialize_element(name)?;
                }
                list.end()
            }
        }
    }
}

impl ConfigureConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        let amount = |table: &mut Table<'_, '_>, key, range, unit: &str, default| {
            table
                .choice_or_integer::<Words, u32>(key, range, unit)
                .map_or(default, |read| match read {
                    Ok(Words(Care::Auto)) => Amount::Auto,
                    Ok(Words(Care::Keep)) => Amount::Keep,
                    Err(number) => Amount::Exactly(number),
                })
        };
        Self {
            huge_pages: amount(
                table,
                "huge_pages",
                0..=HUGE_PAGES_MAX,
                " (pages of 2 MiB)",
                default.huge_pages,
            ),
            channels: amount(table, "channels", 1..=QUEUES_MAX, "", default.channels),
            ring_slots: amount(
                table,
                "ring_slots",
                1..=NIC_RING_SLOTS_MAX,
                "",
                default.ring_slots,
            ),
            offloads: read_offloads(table).unwrap_or(default.offloads),
            irq_affinity: table
                .choice("irq_affinity")
                .map_or(default.irq_affinity, |Words(care)| care),
            memlock: table
                .choice("memlock")
                .map_or(default.memlock, |Words(care)| care),
            mtu: amount(table, "mtu", MTU_BYTES, " (bytes)", default.mtu),
        }
    }
}

impl Default for ConfigureConfig {
    fn default() -> Self {
        Self {
            huge_pages: Amount::Auto,
            channels: Amount::Auto,
            ring_slots: Amount::Auto,
            offloads: Offloads::Auto,
            irq_affinity: Care::Auto,
            memlock: Care::Auto,
            mtu: Amount::Keep,
        }
    }
}

/// The words that stand for no figure.
#[derive(Clone, Copy)]
struct Words(Care);

impl Choice for Words {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self(Care::Auto)), ("keep", Self(Care::Keep))];
}

fn read_offloads(table: &mut Table<'_, '_>) -> Option<Offloads> {
    const KEY: &str = "offloads";
    if !table.is_list(KEY) {
        return table.choice(KEY).map(|Words(care)| match care {
            Care::Auto => Offloads::Auto,
            Care::Keep => Offloads::Keep,
        });
    }
    let names = table.texts(KEY, "the name of an offload, as `ethtool -k` shows it")?;
    let is_name = |name: &String| {
        (1..=OFFLOAD_BYTES_MAX).contains(&name.len())
            && !name.starts_with('-')
            && name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
            })
    };
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        table.refuse(
            KEY,
            format!(
                "{name:?} cannot be an offload; expected names as `ethtool -k` shows them, for \
                example \"rx-gro-hw\""
            ),
        );
    }
    if names.len() > OFFLOADS_MAX {
        table.refuse(KEY, format!("more than {OFFLOADS_MAX} names"));
    }
    Some(Offloads::Off(names))
}
