//! `covalent_device`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
    rc::Rc,
    time::Duration,
};

use covalent_verbs::Device;

use crate::{
    argument::{Out, text},
    handle::{Kind, Table, this_thread},
    status::{Result, call, invalid},
    timeout::Timeout,
};

/// Room for the longest name of a node or port and its closing zero, in bytes.
pub const COVALENT_NAME_ROOM_BYTES: usize = 33;

/// An attachment to a node's daemon. It and what is opened through it are used only on the thread that attached; a program of several threads attaches in
/// each. Zero names nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_device {
    /// Opaque.
    pub handle: u64,
}

/// A node.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_node {
    /// Its identity, never 0, which is the address of its lane 0 too.
    pub guid: u64,
    /// How many lanes it has.
    pub lanes: u32,
    /// How many ports it has.
    pub ports: u32,
    /// Its name, closed by a zero.
    pub name: [c_char; COVALENT_NAME_ROOM_BYTES],
}

/// A port of a node.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_port {
    /// Longest frame that it carries, in bytes without FCS.
    pub frame_bytes_max: u32,
    /// The lane that owns it.
    pub lane: u32,
    /// Its name, closed by a zero.
    pub name: [c_char; COVALENT_NAME_ROOM_BYTES],
}

thread_local! {
    static DEVICES: RefCell<Table<Rc<Device>>> = RefCell::new(Table::new(Kind::Device, this_thread()));
}

/// The device that a handle names.
pub(crate) fn device(device: covalent_device) -> Result<Rc<Device>> {
    DEVICES.with_borrow_mut(|devices| devices.get(device.handle).cloned())
}

/// Attaches to the daemon that listens at `socket_path`, on its lane `lane` (0 is the first; pipes live on the lane that owns their port). `program` is what this
/// application calls itself, at most 64 bytes, for people. COVALENT_DEADLINE when the daemon does not answer within 10 seconds.
///
/// # Safety
/// Text ends in a zero; `device` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_attach(
    socket_path: *const c_char,
    program: *const c_char,
    lane: u32,
    device: *mut covalent_device,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (socket, program, mut device) = unsafe {
            (
                text(socket_path, "socket_path")?,
                text(program, "program")?,
                Out::new(device, "device")?,
            )
        };
        let attached = Rc::new(Device::attach_to_lane(socket, program, lane)?);
        let handle = DEVICES.with_borrow_mut(|devices| devices.insert(attached))?;
        device.set(covalent_device { handle });
        Ok(())
    })
}

/// Closes a device. The attachment ends when everything that was opened through it is closed too, or the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_close(device: covalent_device) -> c_int {
    call(|| {
        // Dropped outside of the table's borrow.
        let closed = DEVICES.with_borrow_mut(|devices| devices.remove(device.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Asks whether the daemon still lives: COVALENT_DAEMON_GONE if not. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_check_alive(device: covalent_device) -> c_int {
    call(|| Ok(self::device(device)?.check_alive()?))
}

/// Sets how long calls of this device that ask the daemon for something (those that open, close, bind, unbind and tune) wait for its answer before they end with
/// COVALENT_DEADLINE: 10 seconds unless set. `timeout_ns`: negative waits for ever, 0 is COVALENT_INVALID.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_set_request_timeout(
    device: covalent_device,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        let device = self::device(device)?;
        match u64::try_from(timeout_ns) {
            Ok(0) => Err(invalid("a request timeout of 0: nothing could be answered")),
            Ok(timeout_ns) => {
                device.set_request_timeout(Duration::from_nanos(timeout_ns));
                Ok(())
            }
            Err(_) => {
                device.set_request_timeout(Duration::MAX);
                Ok(())
            }
        }
    })
}

/// A time at which the daemon was gone and a device found it again.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_reconnection {
    /// From the moment in which the device noticed until everything was open again, in nanoseconds.
    pub gap_ns: u64,
    /// 1: the daemon said goodbye, and everything that it had taken had ended, and was told. 0: it was killed, or could not end everything.
    pub in_order: u32,
}

/// What became of what lay in pipes and queues when daemons ended, over all reconnections. Each object counts when it is used next.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_carried {
    /// Frames that the old daemon had not taken, put into the new pipe. One that was killed may have sent the first of them.
    pub frames: u64,
    /// Frames that were lost: confirmed and still held, to be sent back in place, or not received through too many restarts.
    pub frames_lost: u64,
    /// Bytes of a message without its end, those that were confirmed and still held, and those that were not received through too many restarts.
    pub bytes_lost: u64,
    /// Messages of receive queues that were not received through too many restarts.
    pub messages_lost: u64,
    /// Verbs that the old daemon had not taken, posted again.
    pub verbs: u64,
    /// Verbs that ended as COVALENT_OUTCOME_FORGOTTEN.
    pub verbs_forgotten: u64,
}

/// Has a device find its daemon again when that is gone, for so long; 0 or less, as at first, has every call end with COVALENT_DAEMON_GONE at once. Call it right after
/// attaching.
///
/// From then on a call that finds the daemon gone does not return before the daemon is back, or the time is over, whatever its own timeout. The device attaches
/// again, registers its regions under their keys with what they hold, and opens its pipes, under their numbers, with bindings and tuning; then the call goes on, and covalent_device_next_reconnection tells of
/// it. What had arrived is received first, and what was not taken goes to the new daemon; a verb of which nobody can tell how it ended is COVALENT_OUTCOME_FORGOTTEN, or
/// COVALENT_FORGOTTEN of a call that waits. A device with a group does not find its daemon again.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_set_reconnect(
    device: covalent_device,
    patience_ns: i64,
) -> c_int {
    call(|| {
        let patience = u64::try_from(patience_ns).ok().filter(|&ns| ns > 0);
        self::device(device)?.set_reconnect(patience.map(Duration::from_nanos));
        Ok(())
    })
}

/// Tells of the oldest reconnection that was not told; COVALENT_DEADLINE if there is none. Does not wait.
///
/// # Safety
/// `reconnection` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_next_reconnection(
    device: covalent_device,
    reconnection: *mut covalent_reconnection,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(reconnection, "reconnection")? };
        let told =
            self::device(device)?
                .next_reconnection()
                .ok_or(covalent_verbs::Error::Deadline {
                    what: "the daemon was found again",
                })?;
        out.set(covalent_reconnection {
            gap_ns: u64::try_from(told.gap.as_nanos()).unwrap_or(u64::MAX),
            in_order: told.in_order.into(),
        });
        Ok(())
    })
}

/// Tells what became of what lay in pipes and queues, over all reconnections.
///
/// # Safety
/// `carried` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_carried(
    device: covalent_device,
    carried: *mut covalent_carried,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(carried, "carried")? };
        let told = self::device(device)?.carried();
        out.set(covalent_carried {
            frames: told.frames,
            frames_lost: told.frames_lost,
            bytes_lost: told.bytes_lost,
            messages_lost: told.messages_lost,
            verbs: told.verbs,
            verbs_forgotten: told.verbs_forgotten,
        });
        Ok(())
    })
}

/// Tells the node that a device is attached to.
///
/// # Safety
/// `node` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_node(
    device: covalent_device,
    node: *mut covalent_node,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(node, "node")? };
        let device = self::device(device)?;
        let node = device.node();
        out.set(covalent_node {
            guid: node.guid.bits(),
            lanes: node.lanes,
            ports: node.ports.len() as u32,
            name: name_of(&node.name),
        });
        Ok(())
    })
}

/// Tells the address of the lane that a device lives on: where verbs from other nodes reach the regions that it registers. On lane 0 it is
/// `covalent_node.guid`.
///
/// # Safety
/// `address` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_address(
    device: covalent_device,
    address: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(address, "address")? };
        out.set(self::device(device)?.address().bits());
        Ok(())
    })
}

/// Tells one of the node's ports, 0 to `covalent_node.ports` - 1.
///
/// # Safety
/// `port` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_port(
    device: covalent_device,
    index: u32,
    port: *mut covalent_port,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(port, "port")? };
        let device = self::device(device)?;
        let ports = device.ports();
        let port = ports
            .get(index as usize)
            .ok_or_else(|| invalid(format!("port {index} of a node with {}", ports.len())))?;
        out.set(covalent_port {
            frame_bytes_max: port.frame_bytes_max,
            lane: port.lane,
            name: name_of(&port.name),
        });
        Ok(())
    })
}

/// Waits until packets arrive in any pipe of the device and tells that pipe's number (covalent_rx_pipe_number and its like). Receive until the pipe is empty, then call
/// again. `timeout_ns`: 0 does not wait, negative waits for ever; COVALENT_DEADLINE when there was nothing in time.
///
/// # Safety
/// `pipe_number` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_next_rx_pipe(
    device: covalent_device,
    timeout_ns: i64,
    pipe_number: *mut u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(pipe_number, "pipe_number")? };
        let device = self::device(device)?;
        let ready = match Timeout::new(timeout_ns) {
            Timeout::None => device
                .poll_rx_pipe()?
                .ok_or(covalent_verbs::Error::Deadline {
                    what: "a packet arrived",
                })?,
            Timeout::Until(deadline) => device.next_rx_pipe_deadline(deadline)?,
            Timeout::Forever => device.next_rx_pipe()?,
        };
        out.set(ready.number());
        Ok(())
    })
}

/// A name as C has it, cut at the longest that there is.
fn name_of(name: &str) -> [c_char; COVALENT_NAME_ROOM_BYTES] {
    let mut bytes = [0; COVALENT_NAME_ROOM_BYTES];
    for (place, byte) in bytes
        .iter_mut()
        .zip(name.bytes().take(COVALENT_NAME_ROOM_BYTES - 1))
    {
        *place = byte as c_char;
    }
    bytes
}
