//! Known properties of drivers: AF_XDP modes by Linux version, and limits on the interface.
//!
//! Sources. *Native* and *zero-copy*: the commit next to each figure added it to Linux. Unless
//! noted, commits and versions are from the table "Driver support" of docs.ebpf.io
//! (`BPF_PROG_TYPE_XDP`). *MTU*: the table "Max MTU" there, for x86 with 4 KiB pages, computed from
//! the drivers' own formulas. *Queues*: the driver's source, named next to the row.
//! `check/guest/results` holds the results from kernels on which this project ran, and a test
//! checks the table against them.
//!
//! A driver that is not listed is probed: native first, zero-copy first. vmxnet3 is not listed
//! either, because it accepts native XDP on some devices and refuses it on others (both are in
//! `check/guest/results`).

use super::Linux;

/// The last Linux version whose drivers were checked. The missing features of later versions are
/// unknown.
pub const LINUX_KNOWN: Linux = Linux(6, 18);

/// A driver and its known properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Names of the driver. The name that ethtool reports comes first.
    pub names: &'static [&'static str],
    /// The first Linux version in which it has a native XDP hook. `None` if it has none up to
    /// [`LINUX_KNOWN`].
    pub native: Option<Linux>,
    /// The first Linux in which AF_XDP sockets have zero-copy on it; `None` as above.
    pub zero_copy: Option<Linux>,
    /// Reason not to try zero-copy before that version. `None`: older versions may be probed,
    /// because distributions backport drivers.
    pub not_before: Option<&'static str>,
    /// Largest MTU, in bytes, with which it accepts an XDP program for single-buffer frames. `None`
    /// if the driver has no such limit.
    pub mtu_bytes_max: Option<u32>,
    /// How many of its queues may be in use while it has an XDP program.
    pub queues: Queues,
    /// Whether the device, in zero-copy mode, rounds the frame space of a chunk behind the headroom
    /// down to whole KiB.
    pub whole_kib: bool,
}

/// How many of the queues that an interface can have may be in use with an XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// All.
    All,
    /// Half of the most that it can have, because it sends XDP frames on as many queues of its own.
    Half,
}

/// A driver with a native hook and no further limits.
const fn native(
    names: &'static [&'static str],
    since: Linux,
    mtu_bytes_max: Option<u32>,
) -> Driver {
    Driver {
        names,
        native: Some(since),
        zero_copy: None,
        not_before: None,
        mtu_bytes_max,
        queues: Queues::All,
        whole_kib: false,
    }
}

impl Driver {
    const fn zero_copy(self, since: Linux) -> Self {
        Self {
            zero_copy: Some(since),
            ..self
        }
    }

    const fn not_before(self, why: &'static str) -> Self {
        Self {
            not_before: Some(why),
            ..self
        }
    }

    const fn half_of_the_queues(self) -> Self {
        Self {
            queues: Queues::Half,
            ..self
        }
    }

    const fn whole_kib(self) -> Self {
        Self {
            whole_kib: true,
            ..self
        }
    }

    /// The one of that name, if something is known of it.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        DRIVERS.iter().find(|driver| driver.names.contains(&name))
    }
}

/// Every driver of which something is known.
pub const DRIVERS: &[Driver] = &[
    // Seen in guests: no native hook on 6.1 and 7.3.
    Driver {
        native: None,
        ..native(&["e1000e"], Linux(0, 0), None)
    },
    // Native 47a38e155037.
    native(&["mlx4_en", "mlx4_core"], Linux(4, 8), Some(3498)),
    // Native 86994156c736. Zero-copy: 5.3 (db05815b36cb), behind the ordinary queues. Since
    // 3db4c85cde7a ("Use queue indices starting from 0 for XSK queues", 6.1), on the receive
    // queues.
    native(&["mlx5_core"], Linux(4, 9), Some(3498))
        .zero_copy(Linux(6, 1))
        .not_before(
            "before 6.1 zero-copy sockets of mlx5 use separate queues, on which no frames \
                     arrive by default",
        ),
    // Native 496e051709588.
    native(&["qede"], Linux(4, 10), None),
    // Native ecd63a0217d5, zero-copy 6402528b7a0b.
    native(&["nfp"], Linux(4, 10), Some(4096)).zero_copy(Linux(5, 18)),
    // Native f600b6905015. Zero-copy receives since 6.11 (d944c27a9d58) and sends since 6.13. It is
    // used where both exist: in guests, 6.12 copies and 7.3 does not.
    native(&["virtio_net"], Linux(4, 10), Some(3506)).zero_copy(Linux(6, 13)),
    // Native c6d30e8391b8.
    native(&["bnxt_en"], Linux(4, 11), Some(3502)),
    // Native 924708081629, zero-copy d0bcacd0a130. Chunks: `ixgbe_configure_srrctl` in
    // `ixgbe_main.c` (82599EB).
    native(&["ixgbe"], Linux(4, 12), Some(3050))
        .zero_copy(Linux(4, 20))
        .whole_kib(),
    // Native 05c773f52b96.
    native(&["nicvf"], Linux(4, 12), Some(1508)),
    // Native 0c8493d90b6b, zero-copy 0a714186d3c0.
    native(&["i40e"], Linux(4, 13), Some(3046)).zero_copy(Linux(4, 20)),
    // Native 761876c857cb.
    native(&["tun"], Linux(4, 14), Some(1500)),
    // Native c7aec59657b6.
    native(&["ixgbevf"], Linux(4, 17), Some(3050)),
    // Native 948d4f214fde. Seen on 6.1 to 7.3: native copy.
    native(&["veth"], Linux(4, 19), Some(3520)),
    // Native 7e273a8ebdd3, zero-copy 48276c08cf5d.
    native(&["fsl_dpaa2_eth"], Linux(5, 0), None).zero_copy(Linux(6, 2)),
    // Native ba2b232108d3.
    native(&["netsec"], Linux(5, 3), Some(1500)),
    // Native 9ed4050c0d75.
    native(&["cpsw"], Linux(5, 3), None),
    // Native e45a4fed9d00.
    native(&["sfc"], Linux(5, 5), Some(3508)),
    // Native efc2214b6047, zero-copy 2d4238f55697.
    native(&["ice"], Linux(5, 5), Some(3046)).zero_copy(Linux(5, 5)),
    // Native 0db51da7a8e9.
    native(&["mvneta"], Linux(5, 5), Some(3520)),
    // Native 838c93dc5449. Queues: `ena_xdp_legal_queue_count` in `ena_xdp.h` ("2 * queues <=
    // adapter->max_num_io_queues").
    native(&["ena"], Linux(5, 6), Some(3498)).half_of_the_queues(),
    // Native 351e1581395f.
    native(&["hv_netvsc", "netvsc"], Linux(5, 6), Some(3506)),
    // Native 07dd0a7aae7f.
    native(&["mvpp2"], Linux(5, 9), Some(3552)),
    // Native 9cbc948b5a20, zero-copy 2c6196013f84 (receive) and f8e284a02afc (send). Chunks:
    // `SRRCTL.BSIZEPKT` in `igb_main.c`. In guests, 6.1 copies and 7.3 does not.
    native(&["igb"], Linux(5, 10), Some(3046))
        .zero_copy(Linux(6, 14))
        .whole_kib(),
    // Native 86c0c196cbe4.
    native(&["fsl_dpa", "fsl_dpaa_mac"], Linux(5, 11), Some(3706)),
    // Native 26575105d6ed, zero-copy fc9df2a0b520.
    native(&["igc"], Linux(5, 13), Some(1500)).zero_copy(Linux(5, 14)),
    // Native 5fabb01207a2, zero-copy bba2556efad6.
    native(&["st_gmac", "stmmac"], Linux(5, 13), Some(1500)).zero_copy(Linux(5, 13)),
    // Native d1b15102dd16.
    native(&["fsl_enetc"], Linux(5, 13), None),
    // Native 9e2ee5c7e7c3. Its limits are those of the underlying interfaces.
    native(&["bonding", "bond"], Linux(5, 15), None),
    // Native 06059a1a9a4a.
    native(&["rvu-nicpf", "rvu_nicpf"], Linux(5, 16), Some(1508)),
    // Native ed5356b53f07.
    native(&["mana"], Linux(5, 17), Some(3506)),
    // Native ee6373ddf3a9.
    native(&["funeth"], Linux(5, 18), Some(3566)),
    // Native 0d14657f4083.
    native(&["atlantic"], Linux(5, 19), Some(2048)),
    // Native 7c26c20da5d4.
    native(&["mtk_soc_eth"], Linux(6, 0), Some(3520)),
    // Native 6d6b39f180b8.
    native(&["fec"], Linux(6, 2), None),
    // Native 6a2159be7604.
    native(&["lan966x-switch", "lan966x"], Linux(6, 2), None),
    // Native f0f6460f9130, zero-copy 3fc2333933fd.
    native(&["tsnep"], Linux(6, 3), None).zero_copy(Linux(6, 4)),
    // Native 75eaae158b1b, zero-copy fd8e40321a12. Queues: `verify_xdp_configuration` in
    // `gve_main.c`, "less than or equal to half the maximum number of RX/TX queues", as many of
    // each.
    native(&["gve"], Linux(6, 4), Some(2032))
        .zero_copy(Linux(6, 4))
        .half_of_the_queues(),
    // Native 180e35cdf035.
    native(&["ionic"], Linux(6, 9), Some(3502)),
];
