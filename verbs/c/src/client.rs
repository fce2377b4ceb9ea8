//! `covalent_client`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent::{Client, FaultRates};

use crate::{
    argument::{Out, flag, text},
    device::covalent_node,
    growing::{GrowingOut, growing, growing_value},
    handle::{Kind, Table, this_thread},
    json::return_json,
    status::{Result, call},
    timeout::{request_timeout, waiting},
};

/// A connection to a node's daemon, for programs that watch or control the node. It opens no pipes
/// and no regions. Use it only on the thread that connected. A zero handle is invalid.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_client {
    /// Opaque.
    pub handle: u64,
}

/// Faults that a port injects into its frames, each as a number of 100,000 frames. Zeros are
/// no fault.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_fault_rates {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// Frames that are lost.
    pub drop_per_100k: u32,
    /// Frames, of those that are not lost, with one inverted bit.
    pub corrupt_per_100k: u32,
    /// Frames, of those that are not lost, that arrive twice.
    pub duplicate_per_100k: u32,
    /// 1: every frame is lost although the carrier stays up.
    pub blackhole: u32,
}

growing!(covalent_fault_rates, 20);

thread_local! {
    static CLIENTS: RefCell<Table<Client>> = RefCell::new(Table::new(Kind::Client, this_thread()));
}

fn with<T>(client: covalent_client, body: impl FnOnce(&mut Client) -> Result<T>) -> Result<T> {
    CLIENTS.with_borrow_mut(|clients| body(clients.get(client.handle)?))
}

/// Connects to the daemon that listens at `socket_path`. `program` is a name of this program for
/// operators, at most 64 bytes. A negative `timeout_ns` waits forever. Returns COVALENT_DEADLINE if
/// the daemon does not reply in time.
///
/// # Safety
/// `socket_path` and `program` are NUL-terminated strings. `client` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_client_connect(
    socket_path: *const c_char,
    program: *const c_char,
    timeout_ns: i64,
    client: *mut covalent_client,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (socket, program, mut out) = unsafe {
            (
                text(socket_path, "socket_path")?,
                text(program, "program")?,
                Out::new(client, "client")?,
            )
        };
        let connected = Client::connect_timeout(socket, program, waiting(timeout_ns))?;
        let handle = CLIENTS.with_borrow_mut(|clients| clients.insert(connected))?;
        out.set(covalent_client { handle });
        Ok(())
    })
}

/// Closes a connection.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_client_close(client: covalent_client) -> c_int {
    call(|| {
        let closed = CLIENTS.with_borrow_mut(|clients| clients.remove(client.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Returns the node that the daemon runs.
///
/// # Safety
/// `node` points to a covalent_node whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_client_node(
    client: covalent_client,
    node: *mut covalent_node,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(node, "node")? };
        out.set(with(client, |client| Ok(client.node().into()))?);
        Ok(())
    })
}

/// As covalent_device_set_request_timeout, for the calls below.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_client_set_request_timeout(
    client: covalent_client,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        let timeout = request_timeout(timeout_ns)?;
        with(client, |client| {
            client.set_request_timeout(timeout);
            Ok(())
        })
    })
}

/// As covalent_device_status_json.
///
/// # Safety
/// `json` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_client_status_json(
    client: covalent_client,
    json: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(json, "json")? };
        let status = with(client, |client| Ok(client.status()?))?;
        return_json(&status, &mut out)
    })
}

/// Enables (`enabled` 1) or disables (0) a port, as if its cable were plugged or pulled. Returns
/// COVALENT_REFUSED unless this process runs as root or as the daemon's user.
///
/// # Safety
/// `port` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_client_set_port(
    client: covalent_client,
    port: *const c_char,
    enabled: c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let port = unsafe { text(port, "port")? };
        let enabled = flag(enabled, "enabled")?;
        with(client, |client| Ok(client.set_port(port, enabled)?))
    })
}

/// Changes the faults that a port with `[port.faults]` injects into its own frames: `rx` for
/// arriving frames, `tx` for sent frames. For tests of a faulty wire. Returns COVALENT_REFUSED for
/// a port without such a section, for a rate above 100,000, and unless this process runs as root or
/// as the daemon's user.
///
/// # Safety
/// `port` is a NUL-terminated string. `rx` and `tx` point to covalent_fault_rates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_client_set_faults(
    client: covalent_client,
    port: *const c_char,
    rx: *const covalent_fault_rates,
    tx: *const covalent_fault_rates,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (port, rx, tx) = unsafe {
            (
                text(port, "port")?,
                growing_value(rx, "rx")?,
                growing_value(tx, "tx")?,
            )
        };
        let (rx, tx) = (rates(rx), rates(tx));
        with(client, |client| Ok(client.set_faults(port, rx, tx)?))
    })
}

const fn rates(given: covalent_fault_rates) -> FaultRates {
    FaultRates {
        drop_per_100k: given.drop_per_100k,
        corrupt_per_100k: given.corrupt_per_100k,
        duplicate_per_100k: given.duplicate_per_100k,
        blackhole: given.blackhole != 0,
    }
}

/// As covalent_region_delete. Root and the daemon's user may delete any user's region.
///
/// # Safety
/// `name` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_client_delete_region(
    client: covalent_client,
    name: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let name = unsafe { text(name, "name")? };
        with(client, |client| Ok(client.delete_region(name)?))
    })
}

/// Subscribes to every later event of the node. covalent_client_next_event_json returns them.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_client_subscribe(client: covalent_client) -> c_int {
    call(|| with(client, |client| Ok(client.subscribe()?)))
}

/// Waits for the next event and returns it as a JSON object, as `covalent events --format json`
/// prints it. Gaps in its `sequence` show missed events. It is valid until this thread's next call
/// that returns JSON. `timeout_ns`: 0 does not wait, a negative value waits forever. Returns
/// COVALENT_DEADLINE if no event arrives in time.
///
/// # Safety
/// `json` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_client_next_event_json(
    client: covalent_client,
    timeout_ns: i64,
    json: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(json, "json")? };
        let event = with(client, |client| Ok(client.next_event(waiting(timeout_ns))?))?;
        return_json(&event, &mut out)
    })
}
