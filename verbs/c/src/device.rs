//! `covalent_device`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
    os::fd::{AsFd, AsRawFd},
    rc::Rc,
    time::Duration,
};

use covalent::{Device, NodeInfo, REQUEST_TIMEOUT};

use crate::{
    argument::{Out, text},
    growing::{GrowingOut, growing},
    handle::{Kind, Table, this_thread},
    json::return_json,
    name::{COVALENT_NAME_ROOM_BYTES, covalent_name},
    status::{Result, call, invalid},
    timeout::{request_timeout, timeout},
};

/// An attachment to a node's daemon. Use it, and everything opened through it, only on the thread
/// that attached. A program with several threads attaches in each. A zero handle is invalid.
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
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// How many lanes it has.
    pub lanes: u32,
    /// How many ports it has.
    pub ports: u32,
    /// Its name, closed by a zero.
    pub name: [c_char; COVALENT_NAME_ROOM_BYTES],
    /// Its identity, never 0, which is the address of its lane 0 too.
    pub guid: u64,
}

growing!(covalent_node, 56);

impl From<&NodeInfo> for covalent_node {
    fn from(node: &NodeInfo) -> Self {
        Self {
            struct_bytes: 0,
            lanes: node.lanes,
            ports: node.ports.len() as u32,
            name: covalent_name::new(&node.name).text,
            guid: node.guid.bits(),
        }
    }
}

/// A port of a node.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_port {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// Longest frame that it carries, in bytes without FCS.
    pub frame_bytes_max: u32,
    /// The lane that owns it.
    pub lane: u32,
    /// Its name, closed by a zero.
    pub name: [c_char; COVALENT_NAME_ROOM_BYTES],
}

growing!(covalent_port, 48);

thread_local! {
    static DEVICES: RefCell<Table<Rc<Device>>> = RefCell::new(
        Table::new(Kind::Device, this_thread()),
    );
}

/// The device that a handle names.
pub(crate) fn device(device: covalent_device) -> Result<Rc<Device>> {
    DEVICES.with_borrow_mut(|devices| devices.get(device.handle).cloned())
}

/// Attaches to the daemon that listens at `socket_path`, on its lane `lane` (0 is the first). A
/// pipe needs a device on the lane that owns its port: covalent_device_attach_for_port. `program`
/// is a name of this application for operators, at most 64 bytes. Returns COVALENT_DEADLINE if the
/// daemon does not reply within 10 seconds.
///
/// # Safety
/// `socket_path` and `program` are NUL-terminated strings. `device` is valid for writes.
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
        let attached = Device::attach_to_lane(socket, program, lane, REQUEST_TIMEOUT)?;
        device.set(opened(attached)?);
        Ok(())
    })
}

/// As covalent_device_attach, on the lane that owns the port named `port`. Pipes of that port need
/// a device on this lane. Returns COVALENT_NO_SUCH_PORT if the node has no such port. The lane
/// stays the same when the device reconnects (covalent_device_set_reconnect).
///
/// # Safety
/// `socket_path`, `program` and `port` are NUL-terminated strings. `device` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_attach_for_port(
    socket_path: *const c_char,
    program: *const c_char,
    port: *const c_char,
    device: *mut covalent_device,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all four.
        let (socket, program, port, mut device) = unsafe {
            (
                text(socket_path, "socket_path")?,
                text(program, "program")?,
                text(port, "port")?,
                Out::new(device, "device")?,
            )
        };
        let attached = Device::attach_for_port(socket, program, port, REQUEST_TIMEOUT)?;
        device.set(opened(attached)?);
        Ok(())
    })
}

/// The handle of a new device.
fn opened(attached: Device) -> Result<covalent_device> {
    let handle = DEVICES.with_borrow_mut(|devices| devices.insert(Rc::new(attached)))?;
    Ok(covalent_device { handle })
}

/// Closes a device. The attachment ends once everything opened through it is closed too, or when
/// the thread exits.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_close(device: covalent_device) -> c_int {
    call(|| {
        // Dropped outside of the table's borrow.
        let closed = DEVICES.with_borrow_mut(|devices| devices.remove(device.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Returns COVALENT_FORKED in a process that was forked from the one that attached. Makes no system
/// call. For programs that keep state of their own beside a device.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_check_process(device: covalent_device) -> c_int {
    call(|| Ok(self::device(device)?.check_process()?))
}

/// Checks whether the daemon is running. Returns COVALENT_DAEMON_GONE if not. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_check_connection(device: covalent_device) -> c_int {
    call(|| Ok(self::device(device)?.check_connection()?))
}

/// Stores in `fd` the descriptor to wait on in an event loop, after covalent_device_arm. It is
/// readable when there is news or the daemon is gone. It belongs to the device: only wait on it
/// (poll, epoll), for readability, and do not close it.
///
/// # Safety
/// `fd` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_fd(device: covalent_device, fd: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(fd, "fd")? };
        out.set(self::device(device)?.as_fd().as_raw_fd());
        Ok(())
    })
}

/// Prepares a sleep in an event loop. After this call, take everything that there is with calls
/// whose `timeout_ns` is 0, until each finds nothing. Then sleep until the descriptor of
/// covalent_device_fd is readable, and start again with this call.
///
/// From this call on, a call that finds nothing, a send that a full pipe refuses, and a flush that
/// is not over also request the wake-up. Objects at which the loop does not look cause none. The
/// descriptor may be readable without any news. A call that waits ends this state; the descriptor
/// is readable then. For a group see covalent_group_poll_within too.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_arm(device: covalent_device) -> c_int {
    call(|| Ok(self::device(device)?.arm()?))
}

/// Sets how long this device's requests to the daemon wait for the reply: calls that open, close,
/// bind, unbind and tune. They return COVALENT_DEADLINE after that time. The default is 10 seconds.
/// A negative `timeout_ns` waits forever. 0 is COVALENT_INVALID.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_set_request_timeout(
    device: covalent_device,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        let device = self::device(device)?;
        device.set_request_timeout(request_timeout(timeout_ns)?);
        Ok(())
    })
}

/// A time at which the daemon was gone and a device found it again.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_reconnection {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// 1: the daemon shut down gracefully. Everything that it had accepted was completed and
    /// reported. 0: it was killed, or could not complete everything.
    pub in_order: u32,
    /// From the moment in which the device noticed until everything was open again, in nanoseconds.
    pub gap_ns: u64,
}

growing!(covalent_reconnection, 16);

/// Frames, bytes, messages and verbs that were carried over or lost when daemons stopped, over all
/// reconnections. Each object adds its numbers when it is used next.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_carried {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// Frames that the old daemon had not taken, put into the new pipe. A killed daemon may have
    /// sent the first of them.
    pub frames: u64,
    /// Frames that were lost: confirmed and still held, waiting to be sent back in place, or not
    /// received through too many restarts.
    pub frames_lost: u64,
    /// Bytes that were lost: of a message without its end, confirmed and still held, or not
    /// received through too many restarts.
    pub bytes_lost: u64,
    /// Messages of receive queues that were not received through too many restarts.
    pub messages_lost: u64,
    /// Verbs that the old daemon had not taken and that were posted again.
    pub verbs: u64,
    /// Verbs that ended as COVALENT_OUTCOME_FORGOTTEN.
    pub verbs_forgotten: u64,
}

growing!(covalent_carried, 56);

/// Makes a device reconnect to its daemon and wait up to `patience_ns` for it. 0 or less disables
/// this, which is the default: every call then returns COVALENT_DAEMON_GONE at once. Call it right
/// after attaching.
///
/// With reconnection, a call that finds the daemon gone returns only after the daemon is back or
/// the time is over, whatever its own timeout. The device attaches again and registers its regions
/// under their keys, with their contents. It opens its pipes under their numbers, with bindings and
/// tuning. Then the call continues, and covalent_device_next_reconnection reports the reconnection.
///
/// Data that had arrived is received first. Data that the old daemon had not taken goes to the new
/// daemon. A verb with an unknown outcome completes as COVALENT_OUTCOME_FORGOTTEN, and a call that
/// waits for it returns COVALENT_FORGOTTEN. A device with a group does not reconnect.
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

/// Returns the oldest reconnection that was not reported yet, or COVALENT_DEADLINE if there is
/// none. Does not wait.
///
/// # Safety
/// `reconnection` points to a covalent_reconnection whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_next_reconnection(
    device: covalent_device,
    reconnection: *mut covalent_reconnection,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(reconnection, "reconnection")? };
        let found =
            self::device(device)?
                .next_reconnection()
                .ok_or_else(|| covalent::Error::Deadline {
                    what: "the daemon was found again".into(),
                })?;
        out.set(covalent_reconnection {
            struct_bytes: 0,
            in_order: found.in_order.into(),
            gap_ns: u64::try_from(found.gap.as_nanos()).unwrap_or(u64::MAX),
        });
        Ok(())
    })
}

/// Returns the totals of data and verbs that were carried over or lost, over all reconnections.
///
/// # Safety
/// `carried` points to a covalent_carried whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_carried(
    device: covalent_device,
    carried: *mut covalent_carried,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(carried, "carried")? };
        let found = self::device(device)?.carried();
        out.set(covalent_carried {
            struct_bytes: 0,
            frames: found.frames,
            frames_lost: found.frames_lost,
            bytes_lost: found.bytes_lost,
            messages_lost: found.messages_lost,
            verbs: found.verbs,
            verbs_forgotten: found.verbs_forgotten,
        });
        Ok(())
    })
}

/// Returns the node that a device is attached to.
///
/// # Safety
/// `node` points to a covalent_node whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_node(
    device: covalent_device,
    node: *mut covalent_node,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(node, "node")? };
        out.set(self::device(device)?.node().into());
        Ok(())
    })
}

/// Returns the address of a device's lane. Verbs from other nodes use it to reach the regions that
/// the device registers. On lane 0 it is `covalent_node.guid`.
///
/// # Safety
/// `address` is valid for writes.
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

/// Returns the number of the lane that the device is attached to, from 0.
///
/// # Safety
/// `lane` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_lane(device: covalent_device, lane: *mut u32) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(lane, "lane")? };
        out.set(self::device(device)?.lane());
        Ok(())
    })
}

/// Returns the name that neighbors use for the device's lane: the node's name, on a lane other than
/// 0 with the lane's number (`NAME.1`).
///
/// # Safety
/// `name` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_lane_name(
    device: covalent_device,
    name: *mut covalent_name,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(name, "name")? };
        out.set(covalent_name::new(&self::device(device)?.lane_name()));
        Ok(())
    })
}

/// Returns the address of the lane of a node by its name: this one, a neighbor, or a node reached
/// over others. Asks only the local daemon, for at most the time of
/// covalent_device_set_request_timeout. Returns COVALENT_NO_SUCH_NODE if no such node is known yet:
/// a later call may find it. See covalent_verb_queue_post_lookup.
///
/// # Safety
/// `name` is a NUL-terminated string. `node_guid` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_find_node(
    device: covalent_device,
    name: *const c_char,
    node_guid: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (name, mut out) = unsafe { (text(name, "name")?, Out::new(node_guid, "node_guid")?) };
        out.set(self::device(device)?.find_node(name)?.bits());
        Ok(())
    })
}

/// Returns the number of the device's session with the daemon, as in the daemon's status and on
/// /metrics. It changes with a reconnection.
///
/// # Safety
/// `session` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_session(
    device: covalent_device,
    session: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(session, "session")? };
        out.set(self::device(device)?.session());
        Ok(())
    })
}

/// Returns how many doorbells the device has rung: system calls that woke a sleeping lane.
///
/// # Safety
/// `doorbells` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_doorbells(
    device: covalent_device,
    doorbells: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(doorbells, "doorbells")? };
        out.set(self::device(device)?.doorbells());
        Ok(())
    })
}

/// Sets how long calls that wait poll before they sleep. The default is 10 µs. 0 sleeps at once. A
/// negative `spin_ns` is COVALENT_INVALID.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_device_set_spin(device: covalent_device, spin_ns: i64) -> c_int {
    call(|| {
        let spin_ns = u64::try_from(spin_ns)
            .map_err(|_| invalid(format!("spin_ns {spin_ns}: expected 0 or more")))?;
        self::device(device)?.set_spin(Duration::from_nanos(spin_ns));
        Ok(())
    })
}

/// Returns all that the daemon knows of itself: a JSON object with the fields that `covalent status
/// --format json` prints. It is valid until this thread's next call that returns JSON. Blocks for
/// the daemon's reply.
///
/// # Safety
/// `json` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_status_json(
    device: covalent_device,
    json: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(json, "json")? };
        return_json(&self::device(device)?.status()?, &mut out)
    })
}

/// Returns one of the node's ports, 0 to `covalent_node.ports` - 1.
///
/// # Safety
/// `port` points to a covalent_port whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_device_port(
    device: covalent_device,
    index: u32,
    port: *mut covalent_port,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(port, "port")? };
        let device = self::device(device)?;
        let ports = device.ports();
        let port = ports
            .get(index as usize)
            .ok_or_else(|| invalid(format!("port {index} of a node with {}", ports.len())))?;
        out.set(covalent_port {
            struct_bytes: 0,
            frame_bytes_max: port.frame_bytes_max,
            lane: port.lane,
            name: covalent_name::new(&port.name).text,
        });
        Ok(())
    })
}

/// Waits until packets arrive in any pipe of the device and returns that pipe's number
/// (covalent_pipe_number). Receive until the pipe is empty, then call again.
/// `timeout_ns`: 0 does not wait, a negative value waits forever. Returns COVALENT_DEADLINE if
/// nothing arrives in time.
///
/// # Safety
/// `pipe_number` is valid for writes.
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
        let ready = match timeout(timeout_ns) {
            None => device
                .try_next_rx_pipe()?
                .ok_or_else(|| covalent::Error::Deadline {
                    what: "a packet arrived".into(),
                })?,
            Some(timeout) => device.next_rx_pipe(timeout)?,
        };
        out.set(ready.number());
        Ok(())
    })
}
