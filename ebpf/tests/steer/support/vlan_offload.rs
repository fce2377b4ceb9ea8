//! VLAN tags outside the frame's bytes: a sender that leaves tags to its "hardware", and the switch
//! of that hardware.

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_FUNC_SKB_VLAN_PUSH: u64 = 18;

const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETH_FLAG_TXVLAN: u32 = 1 << 7;

/// The part of `union bpf_attr` for `BPF_PROG_LOAD` (include/uapi/linux/bpf.h).
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The part of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkCreate {
    program: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
    /// Relative file and expected revision: none.
    tcx: [u64; 2],
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// One instruction: operation, registers (source above destination), immediate.
const fn instruction(operation: u8, destination: u8, source: u8, immediate: u32) -> u64 {
    let registers = (source << 4 | destination) as u64;
    operation as u64 | registers << 8 | (immediate as u64) << 32
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    let bytes = size_of::<T>();
    // SAFETY: the kernel reads `bytes` bytes of `attributes`. The pointers in it refer to data that
    // outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, bytes) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Makes the interface send everything in this VLAN, as a VLAN device does. The kernel keeps the
/// tag outside the frame, and the interface has to insert it. The effect lasts as long as the
/// descriptor. Needs Linux 6.6.
pub fn push_vlan(ifindex: u32, vlan: u16) -> io::Result<OwnedFd> {
    let program = [
        // bpf_skb_vlan_push(r1 = the frame, r2 = 0x8100 in network byte order, r3 = vlan); return 0
        instruction(0xb7, 2, 0, u32::from(0x8100_u16.to_be())),
        instruction(0xb7, 3, 0, vlan.into()),
        instruction(0x85, 0, 0, BPF_FUNC_SKB_VLAN_PUSH as u32),
        instruction(0xb7, 0, 0, 0),
        instruction(0x95, 0, 0, 0),
    ];
    let program = bpf(
        BPF_PROG_LOAD,
        &ProgLoad {
            prog_type: BPF_PROG_TYPE_SCHED_CLS,
            instructions_count: program.len() as u32,
            instructions: program.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log_level: 0,
            log_bytes: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
        },
    )?;
    bpf(
        BPF_LINK_CREATE,
        &LinkCreate {
            program: program.as_raw_fd() as u32,
            ifindex,
            attach_type: BPF_TCX_EGRESS,
            flags: 0,
            tcx: [0; 2],
        },
    )
}

/// Disables the interface's acceptance of tags outside the frame (`ethtool -K … txvlan off`). The
/// kernel then inserts them.
pub fn txvlan_off(interface: &str) {
    let control = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::empty(),
        None,
    )
    .unwrap();
    let mut value = EthtoolValue {
        command: ETHTOOL_GFLAGS,
        data: 0,
    };
    // SAFETY: any bytes are an `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    for command in [ETHTOOL_GFLAGS, ETHTOOL_SFLAGS] {
        value.command = command;
        value.data &= !ETH_FLAG_TXVLAN;
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL reads and writes the `ifreq` and the value that it points to. Both
        // exist throughout the call.
        let result =
            unsafe { libc::ioctl(control.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}
