//! `BPF_PROG_TEST_RUN`: the kernel runs the loaded program on a given frame and returns its
//! verdict.
//!
//! It refuses frames under 14 bytes.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

const BPF_PROG_TEST_RUN: libc::c_long = 10;
/// The program's verdict "drop".
pub const XDP_DROP: u32 = 1;
/// The program's verdict "to the kernel's network stack".
pub const XDP_PASS: u32 = 2;
/// The program's verdict "to the socket".
pub const XDP_REDIRECT: u32 = 4;

/// The longest frame that fits one buffer: a page without the headroom and tailroom that the kernel
/// reserves.
pub const FRAME_BYTES_MAX: usize = 3_400;

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN` (include/uapi/linux/bpf.h).
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program_fd: u32,
    verdict: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// `struct xdp_md`: where the frame lies in the data, and where it arrived.
#[repr(C)]
#[derive(Default)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

/// How to run the program.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// Interface and queue on which the frame appears to arrive. The namespace's loopback, queue 0,
    /// if `None`.
    pub arrival: Option<(u32, u32)>,
    /// How often; 0 is once.
    pub repeat: u32,
}

/// The verdict, and the mean duration of a run in nanoseconds.
pub fn test_run(program: BorrowedFd<'_>, frame: &[u8], how: How) -> io::Result<(u32, u32)> {
    let (ingress_ifindex, rx_queue_index) = how.arrival.unwrap_or_default();
    let context = Context {
        data_end: frame.len() as u32,
        ingress_ifindex,
        rx_queue_index,
        ..Context::default()
    };
    let mut request = TestRun {
        program_fd: program.as_raw_fd().cast_unsigned(),
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: how.repeat,
        ..TestRun::default()
    };
    if how.arrival.is_some() {
        request.context_in = &raw const context as u64;
        request.context_size_in = size_of::<Context>() as u32;
    }
    // SAFETY: `request` describes `frame` and `context` with their true sizes, and both outlive the
    // call. The kernel writes only `request`, whose size is an argument.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            &raw mut request,
            size_of::<TestRun>(),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok((request.verdict, request.duration_ns))
    }
}
