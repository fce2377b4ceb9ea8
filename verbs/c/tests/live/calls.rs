//! Helpers of the tests that call the library as C programs do.

use std::{
    ffi::{CStr, CString, c_int},
    mem::MaybeUninit,
    ptr,
};

use covalent_c::*;
use etherparse::PacketBuilder;

use crate::nodes::Nodes;

pub const OK: c_int = covalent_status::COVALENT_OK as c_int;
pub const SOON_NS: i64 = 20_000_000_000;
pub const PIPE_BYTES: u64 = 1 << 16;
pub const PORT: u16 = 514;

pub fn last_error() -> String {
    // SAFETY: never null, ends in a zero, and no call fails in between.
    unsafe { CStr::from_ptr(covalent_last_error()) }
        .to_str()
        .unwrap()
        .to_owned()
}

/// Checks that a call succeeded.
#[track_caller]
pub fn ok(status: c_int) {
    assert_eq!(status, OK, "{}", last_error());
}

/// Checks how a call failed, with a text that contains `text`.
#[track_caller]
pub fn fails(status: c_int, expected: covalent_status, text: &str) {
    assert_eq!(status, expected as c_int, "{}", last_error());
    assert!(last_error().contains(text), "{text} in {}", last_error());
}

pub fn attach(nodes: &Nodes, name: &str) -> covalent_device {
    let socket = CString::new(nodes.socket(name).to_str().unwrap()).unwrap();
    let mut device = covalent_device { handle: 0 };
    // SAFETY: texts end in a zero, `device` may be written.
    ok(unsafe { covalent_device_attach(socket.as_ptr(), c"test".as_ptr(), 0, &raw mut device) });
    device
}

pub fn tx_pipe(device: covalent_device) -> covalent_pipe {
    let mut pipe = covalent_pipe { handle: 0 };
    // SAFETY: the text ends in a zero, `pipe` may be written.
    ok(unsafe {
        covalent_pipe_open(
            device,
            COVALENT_PIPE_TX,
            PIPE_BYTES,
            c"p0".as_ptr(),
            &raw mut pipe,
        )
    });
    pipe
}

pub fn send(pipe: covalent_pipe, frame: &[u8]) {
    // SAFETY: pointer and length belong to a slice.
    ok(unsafe { covalent_pipe_send(pipe, frame.as_ptr(), frame.len(), SOON_NS) });
}

/// A match of everything.
pub const ANY: covalent_match = covalent_match {
    struct_bytes: size_of::<covalent_match>() as u32,
    kind: COVALENT_MATCH_ANY,
    transport: 0,
    src: ptr::null(),
    dst: ptr::null(),
    src_port: 0,
    dst_port: 0,
    ethertype: 0,
    vlan: 0,
};

/// A match of the datagrams to [`PORT`].
pub const TO_PORT: covalent_match = covalent_match {
    kind: COVALENT_MATCH_PORT,
    transport: COVALENT_UDP,
    dst_port: PORT,
    ..ANY
};

/// No tuning.
pub const NO_TUNING: covalent_pipe_tuning = covalent_pipe_tuning {
    struct_bytes: size_of::<covalent_pipe_tuning>() as u32,
    rate_per_second: 0,
    rate_unit: COVALENT_RATE_NONE,
    burst_us: 0,
    stamp: 0,
    stamp_at_bytes: 0,
};

pub fn no_counters() -> covalent_pipe_counters {
    covalent_pipe_counters {
        struct_bytes: size_of::<covalent_pipe_counters>() as u32,
        ..covalent::PipeCounters::default().into()
    }
}

/// Zeros with the size in the first field, as C programs write it.
///
/// # Safety
/// Zeros are a `T`.
pub unsafe fn sized<T>() -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: a `T` is at least four bytes long, and they may hold every number: the caller's word.
    unsafe {
        value
            .as_mut_ptr()
            .cast::<u32>()
            .write(size_of::<T>() as u32);
        value.assume_init()
    }
}

/// A frame that carries a datagram to [`PORT`].
pub fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(4000, PORT)
        .write(&mut frame, payload)
        .unwrap();
    frame.resize(frame.len().max(60), 0xaa);
    frame
}
