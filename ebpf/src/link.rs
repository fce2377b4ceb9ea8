//! Attaching by `bpf_link`.
//!
//! The attachment is a file descriptor. However the process exits, the kernel closes it and
//! detaches the program. aya also attaches so. If the kernel refuses with `EINVAL`, however, aya
//! falls back to an attachment that outlives the process. The two system calls are therefore made
//! here.

use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use crate::mode::EffectiveMode;

// include/uapi/linux/bpf.h and if_link.h.
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_DETACH: libc::c_long = 34;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The first four words of `union bpf_attr` for `BPF_LINK_CREATE`. The kernel treats the missing
/// rest as zeros.
#[repr(C)]
struct LinkCreate {
    program_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// The first word of `union bpf_attr` for `BPF_LINK_DETACH`.
#[repr(C)]
struct LinkDetach {
    link_fd: u32,
}

/// An attachment; it ends with this value or with the process.
pub(crate) struct Link(OwnedFd);

impl Drop for Link {
    /// Detaches at once. Closing the descriptor alone would leave the program attached while a
    /// child between `fork` and `exec` holds a copy.
    fn drop(&mut self) {
        let request = LinkDetach {
            link_fd: self.0.as_raw_fd().cast_unsigned(),
        };
        // Ignore a refusal: the interface is gone, or closing the descriptor detaches too.
        //
        // SAFETY: the kernel reads `size_of::<LinkDetach>()` bytes of `request`, which outlives the
        // call, and writes nothing. The descriptor is open until this function returns.
        unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_LINK_DETACH,
                &raw const request,
                mem::size_of::<LinkDetach>(),
            )
        };
    }
}

/// Attaches `program` to the interface.
pub(crate) fn create(
    program: BorrowedFd<'_>,
    ifindex: u32,
    mode: EffectiveMode,
) -> io::Result<Link> {
    let request = LinkCreate {
        program_fd: program.as_raw_fd().cast_unsigned(),
        target_ifindex: ifindex,
        attach_type: BPF_XDP,
        flags: match mode {
            EffectiveMode::Native => XDP_FLAGS_DRV_MODE,
            EffectiveMode::Generic => XDP_FLAGS_SKB_MODE,
        },
    };
    // SAFETY: the kernel reads `size_of::<LinkCreate>()` bytes of `request`, which outlives the
    // call, and writes nothing.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_LINK_CREATE,
            &raw const request,
            mem::size_of::<LinkCreate>(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(|_| io::Error::other("bpf(2) returned no descriptor"))?;
    // SAFETY: BPF_LINK_CREATE returned a new descriptor (close-on-exec) that has no other owner.
    Ok(Link(unsafe { OwnedFd::from_raw_fd(fd) }))
}
