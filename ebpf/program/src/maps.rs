//! The maps: sockets, settings, counters and one table for each kind of rule.

use aya_ebpf::{
    btf_maps::{Array, HashMap, LpmTrie, PerCpuArray, XskMap},
    macros::btf_map,
};

use crate::layout::{
    CounterBlock, DESTINATIONS_MAX, DestinationKey, ETHERTYPES_MAX, FIVE_TUPLES_MAX, FiveTupleKey,
    Network16, PORTS_MAX, PREFIXES_MAX, PortKey, SETTING_SLOTS, SETTING_TABLES,
    SOCKETS_MAX, VLANS_MAX,
};

/// The dataplane's sockets, by [`crate::layout::socket_place`].
#[btf_map]
pub static XSKS: XskMap<{ SOCKETS_MAX as usize }> = XskMap::new();

/// Link EtherType, default action, tables in use. Each is one word, so that a change is one store.
#[btf_map]
pub static SETTINGS: Array<u32, { SETTING_SLOTS as usize }> = Array::new();

/// Every counter, one block for each CPU: a CPU adds to its own without locking.
#[btf_map]
pub static COUNTERS: PerCpuArray<CounterBlock, 1> = PerCpuArray::new();

/// Actions of five-tuple rules.
#[btf_map]
pub static FIVE_TUPLES: HashMap<FiveTupleKey, u32, { FIVE_TUPLES_MAX as usize }> = HashMap::new();

/// Actions of destination rules.
#[btf_map]
pub static DESTINATIONS: HashMap<DestinationKey, u32, { DESTINATIONS_MAX as usize }> =
    HashMap::new();

/// Actions of port rules.
#[btf_map]
pub static PORTS: HashMap<PortKey, u32, { PORTS_MAX as usize }> = HashMap::new();

/// Actions of IPv4 prefix rules.
#[btf_map]
pub static PREFIXES_V4: LpmTrie<[u8; 4], u32, { PREFIXES_MAX as usize }> = LpmTrie::new();

/// Actions of IPv6 prefix rules.
#[btf_map]
pub static PREFIXES_V6: LpmTrie<[u8; 16], u32, { PREFIXES_MAX as usize }> = LpmTrie::new();

/// Actions of VLAN rules, by VLAN id.
#[btf_map]
pub static VLANS: HashMap<Network16, u32, { VLANS_MAX as usize }> = HashMap::new();

/// Actions of EtherType rules.
#[btf_map]
pub static ETHERTYPES: HashMap<Network16, u32, { ETHERTYPES_MAX as usize }> = HashMap::new();

/// The setting in this slot.
#[inline(always)]
pub fn setting(slot: u32) -> u32 {
    let Some(value) = SETTINGS.get_ptr(slot) else {
        return 0;
    };
    // SAFETY: the element is an aligned word that exists as long as the program. The loader may
    // change it at any time.
    unsafe { value.read_volatile() }
}

/// Returns whether the table with this bit has rules.
///
/// Reads the word again on each call, because the verifier follows each outcome of a test on a
/// reused value. Tests of one value for seven bits would be 128 paths.
#[inline(always)]
pub fn has_rules(table: u32) -> bool {
    setting(SETTING_TABLES) & table != 0
}
