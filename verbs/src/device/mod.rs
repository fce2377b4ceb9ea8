//! The device: one application thread's attachment to a node's daemon.

mod generations;
mod holdings;
mod opened;
mod reconnect;
mod session;

use std::{
    cell::{Cell, RefCell},
    hint, io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    guid::Guid,
    hex64::Hex64,
    name,
    request::{PipeKind, PortBrief, Reply, Request, Rights},
    rule::{Match, Spread},
    status::NodeStatus,
    tap::TapFrames,
    tuning::PipeTuning,
};
use covalent_ipc::owner_process::OwnerProcess;
use covalent_pipe::{
    region::RegionMemory,
    session::{NOTICE_WORDS, NOTICES},
};
use nix::poll::PollFlags;

use crate::{
    client::{Client, NodeInfo, REQUEST_TIMEOUT, take_fds, unexpected},
    error::{Error, Result, foreign},
    pipe_id::PipeId,
    readiness::Readiness,
    region::{Region, RegionOptions},
    timeout::{Timeout, deadline, moment},
    wait::{self, HANG_UP},
};

use holdings::Holdings;
use opened::opened_pipe;
use reconnect::Outage;
use session::Session;

pub use holdings::{Carried, Reconnection};
pub(crate) use opened::Opened;
#[cfg(feature = "tokio")]
pub(crate) use reconnect::PAUSE;

/// Default time that a blocking call polls before it sleeps. Longer than a round trip through an
/// awake lane, and short enough not to matter on a machine with few cores.
pub const SPIN: Duration = Duration::from_micros(10);

/// Looks between two looks at the clock while spinning.
const POLLS: u32 = 16;

/// What [`Error::LinkEtherType`] reports of a binding.
const NOT_BOUND: &str = "not bound";

/// How often [`Device::arm`] announces a sleep before it gives up for that turn. Each announcement
/// takes the news that made the one before fail.
const ANNOUNCEMENTS_MAX: u32 = 16;

/// How often calls that find nothing check with the kernel whether the daemon is running.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// An attachment to the daemon, with everything opened through it.
///
/// It is `Send` but not `Sync`: one per thread. A program with several threads attaches once in
/// each. Objects opened through a device borrow it and stay on the device's thread. A [`Region`]
/// does not, and may be shared between threads.
///
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: &T) {}
/// # fn main() -> Result<(), covalent::Error> {
/// let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// share(&device); // does not compile
/// # Ok(())
/// # }
/// ```
///
/// When the device is dropped, or its process terminates in any way, the daemon reclaims all of it.
///
/// # Forking
/// A device and everything opened through it belong to the process that attached. In a process
/// forked from it, every call returns [`Error::Forked`] and dropping does nothing. The parent's
/// pipes and regions therefore stay as they are. The child may attach on its own. A program that
/// becomes a daemon by forking must attach afterwards: when the process that attached exits, the
/// daemon reclaims everything, even if other processes still run.
///
/// # Blocking
/// Every blocking call polls for [`SPIN`], then sleeps until the daemon wakes it. A daemon that
/// stops wakes it too: the call returns [`Error::DaemonGone`]. Calls that do not block detect that
/// within a millisecond.
#[derive(Debug)]
pub struct Device {
    client: RefCell<Client>,
    session: RefCell<Session>,
    readiness: Readiness,
    /// Which caller needs a wake-up from calls that find nothing.
    armed: Cell<Armed>,
    /// Whether tasks wait on the descriptor, each of which must look after every [`Device::arm`].
    has_tasks: Cell<bool>,
    owner: OwnerProcess,
    /// Everything that is open, for a daemon that comes back.
    holdings: RefCell<Holdings>,
    patience: Cell<Option<Duration>>,
    generation: Cell<u32>,
    /// The search for a daemon that is gone, between two attempts.
    outage: Cell<Option<Outage>>,
    socket: PathBuf,
    program: String,
    node: NodeInfo,
    number: Cell<u64>,
    lane: u32,
    spin: Cell<Duration>,
    next_connection_check: Cell<Instant>,
    doorbells: Cell<u64>,
    /// Which places for notices are taken.
    notices: RefCell<[bool; NOTICES]>,
}

impl Device {
    /// Attaches to the daemon that listens at `socket`, on its lane 0. `program` is a name of this
    /// application, at most 64 bytes.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Version`], [`Error::Refused`], [`Error::System`].
    /// [`Error::Deadline`] if the daemon does not reply.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::Device;
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// println!("attached to {} ({})", device.node().name, device.node().guid);
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn attach(socket: impl AsRef<Path>, program: &str) -> Result<Self> {
        Self::attach_to_lane(socket, program, 0, REQUEST_TIMEOUT)
    }

    /// As [`Device::attach`], on a lane from 0 on, within `timeout`. Pipes are on their device's
    /// lane, which must own their ports: [`Device::attach_for_port`] finds that lane.
    ///
    /// # Errors
    /// As [`Device::attach`]. [`Error::Refused`] if there is no such lane.
    pub fn attach_to_lane(
        socket: impl AsRef<Path>,
        program: &str,
        lane: u32,
        timeout: impl Into<Timeout>,
    ) -> Result<Self> {
        let deadline = moment(timeout);
        let client = Client::connect_timeout(socket, program, deadline)?;
        Self::over(client, program, lane, deadline)
    }

    /// As [`Device::attach_to_lane`], on the lane that owns the port named `port`
    /// ([`PortBrief::name`]). Pipes of that port need a device on this lane. The lane stays the
    /// same when the device [reconnects](Device::set_reconnect).
    ///
    /// # Errors
    /// As [`Device::attach`]. [`Error::UnknownPort`] if the node has no such port.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::{Device, REQUEST_TIMEOUT};
    ///
    /// let socket = "/run/covalent/covalentd.sock";
    /// let device = Device::attach_for_port(socket, "example", "p0", REQUEST_TIMEOUT)?;
    /// let pipe = device.tx_pipe(1 << 20, "p0")?;
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn attach_for_port(
        socket: impl AsRef<Path>,
        program: &str,
        port: &str,
        timeout: impl Into<Timeout>,
    ) -> Result<Self> {
        let deadline = moment(timeout);
        let client = Client::connect_timeout(socket, program, deadline)?;
        let lane = client.lane_of_port(port)?;
        Self::over(client, program, lane, deadline)
    }

    /// A device on `lane` of the daemon that `client` is connected to.
    fn over(mut client: Client, program: &str, lane: u32, deadline: Instant) -> Result<Self> {
        let (number, session) = Session::open(&mut client, lane, deadline)?;
        let readiness = Readiness::new(session.woken(), client.fd())?;
        Ok(Self {
            readiness,
            armed: Cell::new(Armed::No),
            has_tasks: Cell::new(false),
            node: client.node().clone(),
            owner: client.owner(),
            socket: client.socket().to_owned(),
            client: RefCell::new(client),
            session: RefCell::new(session),
            holdings: RefCell::default(),
            patience: Cell::new(None),
            generation: Cell::new(0),
            outage: Cell::new(None),
            program: program.to_owned(),
            number: Cell::new(number),
            lane,
            spin: Cell::new(SPIN),
            next_connection_check: Cell::new(Instant::now()),
            doorbells: Cell::new(0),
            notices: RefCell::default(),
        })
    }

    /// The node that this device is attached to.
    #[must_use]
    pub const fn node(&self) -> &NodeInfo {
        &self.node
    }

    /// Returns the address of this device's lane. Verbs from other nodes use it to reach the
    /// regions that are registered here. On lane 0 it is the node's GUID.
    #[must_use]
    pub const fn address(&self) -> Guid {
        self.node.guid.lane(self.lane)
    }

    /// Returns the name that neighbors use for this device's lane: the node's name. On a lane other
    /// than 0, the lane's number follows it (`NAME.1`).
    #[must_use]
    pub fn lane_name(&self) -> String {
        name::of_lane(&self.node.name, self.lane)
    }

    /// The node's ports.
    #[must_use]
    pub fn ports(&self) -> &[PortBrief] {
        &self.node.ports
    }

    /// The daemon's number for this device's session, as its status and events show it.
    #[must_use]
    pub const fn session(&self) -> u64 {
        self.number.get()
    }

    /// Returns the device's lane.
    #[must_use]
    pub const fn lane(&self) -> u32 {
        self.lane
    }

    /// Returns the daemon's status. Blocks for the reply, at most for the time of
    /// [`Device::set_request_timeout`]. So do all calls that open, bind or tune, and dropping an
    /// opened object.
    ///
    /// # Errors
    /// [`Error::DaemonGone`], [`Error::Refused`], [`Error::Deadline`].
    pub fn status(&self) -> Result<NodeStatus> {
        self.retried(Client::status)
    }

    /// As [`Device::status`], within `timeout`. The time limit of requests holds too, if it is
    /// earlier.
    ///
    /// # Errors
    /// As [`Device::status`].
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use covalent::{Device, Error};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// match device.status_timeout(Duration::from_millis(100)) {
    ///     Ok(status) => println!("{} links", status.links.len()),
    ///     Err(Error::Deadline { .. }) => println!("the daemon is busy: ask later"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn status_timeout(&self, timeout: impl Into<Timeout>) -> Result<NodeStatus> {
        let deadline = deadline(timeout);
        self.retried(|client| {
            let limit = client.request_deadline();
            client.status_until(deadline.map_or(limit, |deadline| deadline.min(limit)))
        })
    }

    /// Sets how long requests to the daemon wait for the reply. This is the deadline of every such
    /// call. The default is [`REQUEST_TIMEOUT`].
    ///
    /// The daemon may still carry out a request that ended with [`Error::Deadline`]. An object that
    /// it opened stays open, unreachable, until the device is dropped.
    pub fn set_request_timeout(&self, timeout: Duration) {
        self.client.borrow_mut().set_request_timeout(timeout);
    }

    /// Sets how long blocking calls poll before they sleep. The default is [`SPIN`]. Zero sleeps at
    /// once.
    pub fn set_spin(&self, spin: Duration) {
        self.spin.set(spin.min(wait::LONGEST));
    }

    /// Checks with the kernel whether the daemon is running. Does not block, unless the daemon is
    /// gone and the device [reconnects](Device::set_reconnect). A thread that only hosts regions
    /// calls this periodically.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] if the daemon is not running.
    pub fn check_connection(&self) -> Result<()> {
        self.check_daemon().or_else(|error| self.survive(error))
    }

    /// Whether this is the process that attached.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.owner.is_here()
    }

    /// Checks that this is the process that attached. Makes no system call. For programs that keep
    /// state of their own beside a device, and must not change it in a forked process.
    ///
    /// # Errors
    /// [`Error::Forked`] in a process that was forked from the one that attached.
    ///
    /// # Examples
    /// ```no_run
    /// let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// device.check_process()?;
    /// # Ok::<(), covalent::Error>(())
    /// ```
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.is_own() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    fn check_daemon(&self) -> Result<()> {
        self.next_connection_check
            .set(Instant::now() + CONNECTION_CHECK_INTERVAL);
        self.client.borrow_mut().check_connection()
    }

    /// Prepares a sleep in an event loop of the application. After this call, take everything that
    /// there is with calls that do not wait, until each finds nothing. Then sleep until the
    /// device's descriptor ([`AsFd`]) is readable, and start again with this call:
    ///
    /// ```no_run
    /// use std::os::fd::AsFd;
    ///
    /// use covalent::{Device, Match, Timeout};
    /// use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut pipe = device.rx_pipe(1 << 20)?;
    /// pipe.bind(&Match::Any)?;
    /// loop {
    ///     device.arm()?;
    ///     while let Some(batch) = pipe.try_recv()? {
    ///         println!("{} packets", batch.iter().count());
    ///     }
    ///     // Beside descriptors of the application's own, with epoll or with poll.
    ///     let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    ///     poll(&mut fds, PollTimeout::NONE)?;
    /// }
    /// # #[allow(unreachable_code)]
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// From this call on, a call that finds nothing, and a send that a full pipe refuses, also
    /// request the wake-up. So nothing that arrives after that look is missed. Objects at which the
    /// loop does not look cause no wake-up. The descriptor may be readable without any news. A call
    /// that waits ends this state; the descriptor is readable then.
    ///
    /// A [`Group`](crate::Group) also needs a call of
    /// [`Group::try_next`](crate::Group::try_next) at [`Group::poll_at`](crate::Group::poll_at).
    ///
    /// Does not block, unless the daemon is gone and the device
    /// [reconnects](Device::set_reconnect).
    ///
    /// # Errors
    /// [`Error::DaemonGone`], [`Error::Unintelligible`], [`Error::System`].
    pub fn arm(&self) -> Result<()> {
        self.arm_again()?;
        if self.has_tasks() {
            // This took the wake-up that the tasks wait for.
            self.call()?;
        }
        Ok(())
    }

    pub(crate) fn arm_again(&self) -> Result<()> {
        self.check_process()?;
        self.try_arm().or_else(|error| {
            self.survive(error)?;
            self.try_arm()
        })
    }

    pub(crate) const fn has_tasks(&self) -> bool {
        self.has_tasks.get()
    }

    /// Tasks wait on the descriptor from now on.
    #[cfg(feature = "tokio")]
    pub(crate) fn serve_tasks(&self) {
        self.has_tasks.set(true);
    }

    fn try_arm(&self) -> Result<()> {
        // If this fails, no call may rely on a wake-up.
        self.armed.set(Armed::No);
        // Take the last wake-up first: from here on, each new one stays until the next call.
        let drained = self.session.borrow().drain();
        drained.map_err(|error| self.wake_failed("take a wake-up", error))?;
        self.readiness.rest(self.client.borrow().fd())?;
        self.pay_doorbells()?;
        self.armed.set(Armed::Loop);
        for _ in 0..ANNOUNCEMENTS_MAX {
            if self.session.borrow_mut().prepare_sleep()? {
                return Ok(());
            }
        }
        // News keeps coming: no sleep is due.
        self.call()
    }

    /// Whether a call that finds nothing must request its wake-up.
    #[inline]
    pub(crate) const fn is_armed(&self) -> bool {
        !matches!(self.armed.get(), Armed::No)
    }

    /// There is news that no wake-up announces. Makes the descriptor readable until the next
    /// [`Device::arm`], or has a call that waits look again.
    pub(crate) fn call(&self) -> Result<()> {
        match self.armed.get() {
            Armed::Wait | Armed::WaitAgain => {
                self.armed.set(Armed::WaitAgain);
                Ok(())
            }
            Armed::No | Armed::Loop => self.readiness.call(self.client.borrow().fd()),
        }
    }

    /// Waits until `look` finds something, and returns that. `look` is called at once, and again
    /// whenever something arrived for the device. It calls what does not wait (`try_x`), and must
    /// ask each object until it has nothing more. Before the thread sleeps, the call announces the
    /// sleep and looks once more, and calls that find nothing then request their wake-up. So
    /// nothing that arrives is missed. Use it to wait for one of several objects, or for a
    /// condition that depends on what arrives.
    ///
    /// An event loop with descriptors of its own uses [`Device::arm`] instead. With a
    /// [`Group`](crate::Group), `timeout` is at the latest
    /// [`Group::poll_at`](crate::Group::poll_at).
    ///
    /// # Errors
    /// [`Error::Deadline`] after `timeout`, and the errors of `look`. After [`Error::DaemonGone`]
    /// it looks again if the device [reconnected](Device::set_reconnect).
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use covalent::{Completion, Device};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut orders = device.receive_queue("orders", 1 << 20)?;
    /// let mut verbs = device.verbs()?;
    /// let mut completions = [Completion::default(); 16];
    /// // An order or a completion, whichever comes first.
    /// let (order, taken) = device.until(Duration::from_secs(1), || {
    ///     let order = orders.try_recv()?.map(|order| order.data.to_vec());
    ///     let taken = verbs.try_poll(&mut completions)?;
    ///     Ok((order.is_some() || taken > 0).then_some((order, taken)))
    /// })?;
    /// # let _ = (order, taken);
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn until<T>(
        &self,
        timeout: impl Into<Timeout>,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let what = "what the program waits for arrived";
        let deadline = deadline(timeout);
        let mut found = None;
        while let Err(error) = self.wait(what, deadline, || {
            if self.is_armed() {
                self.pay_doorbells()?;
            }
            found = look()?;
            Ok(found.is_some())
        }) {
            self.survive(error)?;
        }
        found.ok_or_else(|| Error::Deadline { what: what.into() })
    }

    /// Returns the next pipe of this device in which packets have arrived, in the order of
    /// notification. `None` if there is none. Does not block.
    ///
    /// Its packets may have been received already, by a call that checked the pipe without waiting
    /// for a notification.
    ///
    /// # Errors
    /// [`Error::DaemonGone`], [`Error::Unintelligible`].
    pub fn try_next_rx_pipe(&self) -> Result<Option<PipeId>> {
        let ready = self.take_ready()?;
        if ready.is_none() {
            let looked = self
                .pay_doorbells()
                .and_then(|()| self.check_connection_if_due());
            if let Err(error) = looked {
                self.survive(error)?;
                return self.take_ready();
            }
        }
        Ok(ready)
    }

    /// Waits until packets arrive in any pipe: see [`Device::try_next_rx_pipe`]. Receive until the
    /// pipe is empty, then call again.
    ///
    /// # Errors
    /// As [`Device::try_next_rx_pipe`], and [`Error::Deadline`] after `timeout`.
    pub fn next_rx_pipe(&self, timeout: impl Into<Timeout>) -> Result<PipeId> {
        self.next_rx_pipe_until(deadline(timeout))
    }

    fn next_rx_pipe_until(&self, deadline: Option<Instant>) -> Result<PipeId> {
        let mut ready = None;
        while let Err(error) = self.wait("a packet arrived", deadline, || {
            ready = self.take_ready()?;
            if ready.is_none() {
                self.pay_doorbells()?;
            }
            Ok(ready.is_some())
        }) {
            self.survive(error)?;
        }
        ready.ok_or_else(|| Error::Deadline {
            what: "a packet arrived".into(),
        })
    }

    /// Registers zeroed memory that verbs of this and other nodes can access, under a name that is
    /// unique on the node (1 to 32 bytes). It stays registered until the device is dropped.
    /// `size_bytes` is a multiple of 8, at most 1 GiB. A session has at most 64 regions.
    ///
    /// # Errors
    /// [`Error::Refused`] (for example if the name is taken), [`Error::DaemonGone`],
    /// [`Error::Deadline`], [`Error::System`].
    pub fn register_region(&self, name: &str, size_bytes: u64, rights: Rights) -> Result<Region> {
        self.register_region_with(name, size_bytes, RegionOptions::new(rights))
    }

    /// As [`Device::register_region`], with options. If the same user registered a durable region
    /// of this name and size before, it holds its previous contents.
    ///
    /// # Errors
    /// As [`Device::register_region`]. [`Error::Refused`] for a durable region if the daemon has no
    /// journal.
    pub fn register_region_with(
        &self,
        name: &str,
        size_bytes: u64,
        options: RegionOptions,
    ) -> Result<Region> {
        let (rkey, seal, memory) = self.register(name, size_bytes, options)?;
        let memory = Arc::new(memory);
        self.holdings.borrow_mut().registered(
            name,
            (rkey, seal),
            size_bytes,
            options,
            Some(memory.clone()),
        );
        Ok(Region::new(name, rkey, memory, self.owner))
    }

    /// Registers the memory of a receive queue. Returns its key and its memory.
    pub(crate) fn register_queue(
        &self,
        name: &str,
        size_bytes: u64,
    ) -> Result<(u32, RegionMemory)> {
        let options = RegionOptions::new(Rights::SEND);
        let (rkey, seal, memory) = self.register(name, size_bytes, options)?;
        let mut holdings = self.holdings.borrow_mut();
        holdings.registered(name, (rkey, seal), size_bytes, options, None);
        Ok((rkey, memory))
    }

    /// Requests a new region from the daemon. Returns its key, the key's token and its memory.
    fn register(
        &self,
        name: &str,
        size_bytes: u64,
        options: RegionOptions,
    ) -> Result<(u32, Hex64, RegionMemory)> {
        let request = Request::RegisterRegion {
            name: name.to_owned(),
            size_bytes,
            rights: options.rights,
            durable: options.durable,
        };
        let what = format!("register region `{name}`");
        self.retried(|client| {
            let (reply, fds) = client.request(&request, &what)?;
            let Reply::Region {
                rkey,
                size_bytes,
                seal,
            } = reply
            else {
                return Err(unexpected("RegisterRegion", &reply));
            };
            let [memory] = take_fds(fds)?;
            let memory = RegionMemory::open(memory, size_bytes).map_err(foreign)?;
            client.done(&Request::Mapped, &what)?;
            Ok((rkey, seal, memory))
        })
    }

    /// Withdraws a region: verbs on it are refused from now on, and its name is free.
    pub(crate) fn withdraw(&self, rkey: u32) -> Result<()> {
        self.check_process()?;
        self.holdings.borrow_mut().withdrawn(rkey);
        let mut client = self.client.borrow_mut();
        if client.is_gone() {
            // It went with the daemon.
            return Ok(());
        }
        client.done(&Request::WithdrawRegion { rkey }, "withdraw a region")
    }

    /// Deletes a durable region of this user with its contents, and frees its name and its space in
    /// the journal. Returns after the deletion is on disk. If the region is registered through this
    /// device, it is an ordinary region from then on.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such region, it belongs to another user, or another
    /// application has it registered. [`Error::DaemonGone`], [`Error::Deadline`].
    pub fn delete_region(&self, name: &str) -> Result<()> {
        self.retried(|client| client.delete_region(name))?;
        self.holdings.borrow_mut().deleted(name);
        Ok(())
    }

    /// Takes a place for a notice; `None` if all are taken.
    pub(crate) fn take_notice(&self) -> Option<usize> {
        let mut notices = self.notices.borrow_mut();
        let place = notices.iter().position(|is_taken| !is_taken)?;
        notices[place] = true;
        Some(place)
    }

    pub(crate) fn free_notice(&self, place: usize) {
        self.notices.borrow_mut()[place] = false;
    }

    fn has_notices(&self) -> bool {
        self.notices.borrow().contains(&true)
    }

    /// Replaces a notice, which the daemon reads when it looks. No system call.
    pub(crate) fn set_notice(&self, place: usize, words: &[u64; NOTICE_WORDS]) -> Result<()> {
        self.check_process()?;
        self.session.borrow_mut().set_notice(place, words);
        Ok(())
    }

    // Requests that pipes and queues are made of.

    pub(crate) fn open_pipe(
        &self,
        kind: PipeKind,
        capacity_bytes: u64,
        port: Option<&str>,
    ) -> Result<Opened> {
        self.open(kind, capacity_bytes, port, None)
    }

    /// Opens a pipe for verbs whose completions go to the pipe `completions`.
    pub(crate) fn open_submit_pipe(&self, capacity_bytes: u64, completions: u32) -> Result<Opened> {
        self.open(
            PipeKind::VerbSubmit,
            capacity_bytes,
            None,
            Some(completions),
        )
    }

    fn open(
        &self,
        kind: PipeKind,
        capacity_bytes: u64,
        port: Option<&str>,
        completions: Option<u32>,
    ) -> Result<Opened> {
        let request = Request::OpenPipe {
            kind,
            capacity_bytes,
            port: port.map(str::to_owned),
            completions,
        };
        let what = match port {
            Some(port) => format!("open a pipe ({kind}) on port {port}"),
            None => format!("open a pipe ({kind})"),
        };
        let opened = self.retried(|client| {
            let (reply, fds) = match (client.request(&request, &what), port) {
                (Err(refused @ Error::Refused { .. }), Some(port)) => {
                    return Err(client.lane_of_port(port).err().unwrap_or(refused));
                }
                (answered, _) => answered?,
            };
            let opened = opened_pipe(&reply, fds, kind, capacity_bytes)?;
            client.done(&Request::Mapped, &what)?;
            Ok(opened)
        })?;
        let receives = matches!(kind, PipeKind::Rx | PipeKind::RxTx | PipeKind::RxBytes);
        self.session.borrow_mut().opened(opened.id, receives)?;
        self.holdings
            .borrow_mut()
            .opened(&opened, kind, capacity_bytes, port, completions);
        Ok(opened)
    }

    /// Gives a pipe back. Called when its object is dropped, so errors cannot be reported.
    pub(crate) fn close_pipe(&self, pipe: u32) {
        if !self.is_own() {
            return;
        }
        self.session.borrow_mut().closed(pipe);
        self.holdings.borrow_mut().closed(pipe);
        let mut client = self.client.borrow_mut();
        if !client.is_gone() {
            let _ = client.done(&Request::ClosePipe { pipe }, "close a pipe");
        }
    }

    pub(crate) fn bind(&self, pipe: u32, matches: &Match, spread: Option<Spread>) -> Result<()> {
        let what = match spread {
            None => format!("bind pipe {pipe} to {matches}"),
            Some(spread) => format!("bind pipe {pipe} to {matches}, shared by {spread}"),
        };
        let request = Request::Bind {
            pipe,
            matches: matches.clone(),
            spread,
        };
        let bound = self.retried(|client| client.done(&request, &what));
        let mut holdings = self.holdings.borrow_mut();
        match (bound, matches) {
            (Ok(()), _) => {
                holdings.bound(pipe, matches, spread);
                Ok(())
            }
            // The daemon decides, and may be another one than the one that opened the pipe.
            (Err(Error::Refused { .. }), &Match::EtherType { ethertype })
                if holdings.link_ethertype(pipe) == Some(ethertype) =>
            {
                Err(Error::LinkEtherType {
                    what: NOT_BOUND,
                    pipe: PipeId(pipe),
                    ethertype,
                })
            }
            (Err(error), _) => Err(error),
        }
    }

    pub(crate) fn unbind(&self, pipe: u32, matches: &Match) -> Result<()> {
        let what = format!("unbind pipe {pipe} from {matches}");
        let request = Request::Unbind {
            pipe,
            matches: matches.clone(),
        };
        self.retried(|client| client.done(&request, &what))?;
        self.holdings.borrow_mut().unbound(pipe, matches);
        Ok(())
    }

    pub(crate) fn tune(&self, pipe: u32, tuning: PipeTuning) -> Result<()> {
        let what = format!("tune pipe {pipe}");
        let request = Request::TunePipe { pipe, tuning };
        self.retried(|client| client.done(&request, &what))?;
        self.holdings.borrow_mut().tuned(pipe, tuning);
        Ok(())
    }

    pub(crate) fn tap(&self, pipe: u32, frames: TapFrames, snap_bytes: u32) -> Result<()> {
        let what = format!("capture into pipe {pipe}");
        let request = Request::Tap {
            pipe,
            frames,
            snap_bytes,
        };
        self.retried(|client| client.done(&request, &what))?;
        self.holdings.borrow_mut().tapped(pipe, frames, snap_bytes);
        Ok(())
    }

    /// The daemon is back: all later requests go to it.
    fn changed(&self, client: Client, session: Session, number: u64) -> Result<()> {
        {
            let (client_before, session_before) = (self.client.borrow(), self.session.borrow());
            self.readiness.follow(
                [session_before.woken(), client_before.fd()],
                [session.woken(), client.fd()],
            )?;
        }
        let timeout = self.client.borrow().request_timeout();
        *self.client.borrow_mut() = client;
        self.client.borrow_mut().set_request_timeout(timeout);
        *self.session.borrow_mut() = session;
        self.number.set(number);
        if self.armed.get() == Armed::Wait {
            // Its sleep was announced to the daemon before.
            self.armed.set(Armed::WaitAgain);
        }
        Ok(())
    }

    /// Has [`Device::next_rx_pipe`] name a pipe as if it had news.
    fn name_as_ready(&self, pipe: u32) {
        self.session.borrow_mut().make_ready(pipe);
    }

    /// Returns the number of doorbells that this device has rung. Posting in
    /// [batches](crate::Batch) rings fewer.
    #[must_use]
    pub const fn doorbells(&self) -> u64 {
        self.doorbells.get()
    }

    /// Rings a pipe's doorbell, so that the lane looks at the pipe.
    pub(crate) fn ring(&self, pipe: u32) -> Result<()> {
        self.check_process()?;
        self.doorbells.set(self.doorbells.get() + 1);
        let sleeps = self.session.borrow_mut().ring(pipe)?;
        self.wake_lane(sleeps)
    }

    fn wake_lane(&self, sleeps: bool) -> Result<()> {
        if sleeps {
            let woken = self.session.borrow().wake_lane();
            woken.map_err(|error| self.wake_failed("wake the lane", error))?;
        }
        Ok(())
    }

    /// Records that the lane was not notified of freed memory. This matters only before a sleep.
    pub(crate) fn owe_doorbell(&self, pipe: u32) {
        self.session.borrow_mut().owe_doorbell(pipe);
    }

    /// The wake-up's other end goes with the daemon, be it a moment before the socket does.
    fn wake_failed(&self, what: &'static str, error: io::Error) -> Error {
        let mut client = self.client.borrow_mut();
        if wait::is_hang_up(&error) {
            return client.hung_up();
        }
        let alive = client.check_connection();
        alive.err().unwrap_or(Error::System { what, cause: error })
    }

    fn pay_doorbells(&self) -> Result<()> {
        loop {
            let paid = self.session.borrow_mut().pay_doorbell()?;
            let Some(sleeps) = paid else {
                return Ok(());
            };
            self.wake_lane(sleeps)?;
        }
    }

    fn take_ready(&self) -> Result<Option<PipeId>> {
        self.check_process()?;
        self.session.borrow_mut().next_ready()
    }

    /// As [`Device::check_connection_if_due`], and finds a daemon that was gone again.
    pub(crate) fn check_or_reconnect(&self) -> Result<()> {
        self.check_connection_if_due()
            .or_else(|error| self.survive(error))
    }

    /// For calls that find nothing and return at once: detects soon that the daemon is gone,
    /// without a system call each time.
    pub(crate) fn check_connection_if_due(&self) -> Result<()> {
        let now = Instant::now();
        let is_known_gone = self.is_away() || self.client.borrow().is_gone();
        if now >= self.next_connection_check.get() || is_known_gone {
            self.check_daemon()
        } else {
            Ok(())
        }
    }

    /// Waits until `attempt` returns `true`: spins, then sleeps between attempts until a
    /// notification from the daemon. An attempt before a sleep finds the device
    /// [armed](Device::is_armed) and must request its wake-up. `what` completes "the deadline
    /// passed before …".
    pub(crate) fn wait(
        &self,
        what: &'static str,
        deadline: Option<Instant>,
        mut attempt: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        self.check_process()?;
        let before = self.armed.replace(Armed::No);
        let spun = self.spin_until(deadline, &mut attempt);
        if !matches!(spun, Ok(false)) {
            self.armed.set(before);
            return spun.map(drop);
        }
        let slept = self.sleep_until(what, deadline, &mut attempt);
        // This took the wake-ups of the loop, or of the wait in whose look it is.
        match before {
            Armed::No => {}
            Armed::Loop => self.call()?,
            Armed::Wait | Armed::WaitAgain => self.armed.set(Armed::WaitAgain),
        }
        slept
    }

    fn sleep_until(
        &self,
        what: &'static str,
        deadline: Option<Instant>,
        attempt: &mut impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        loop {
            // Order: raise the flag, look once more, sleep. The daemon sees the flag if it notifies
            // after that look.
            let announced = self.session.borrow_mut().prepare_sleep()?;
            self.armed.set(Armed::Wait);
            let attempted = attempt();
            let may_sleep = self.armed.replace(Armed::No) == Armed::Wait && announced;
            let ended = match attempted {
                Ok(false) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    Some(Err(Error::Deadline { what: what.into() }))
                }
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            };
            let slept = match ended {
                None if may_sleep => self.sleep(deadline),
                _ => Ok(()),
            };
            self.session.borrow_mut().cancel_sleep();
            match ended {
                Some(ended) => return ended,
                None => slept?,
            }
        }
    }

    fn spin_until(
        &self,
        deadline: Option<Instant>,
        attempt: &mut impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let until = Instant::now() + self.spin.get();
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        loop {
            for _ in 0..POLLS {
                if attempt()? {
                    return Ok(true);
                }
                hint::spin_loop();
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            // The lane may share this core: yielding to it makes the awaited event arrive sooner.
            thread::yield_now();
        }
    }

    fn sleep(&self, deadline: Option<Instant>) -> Result<()> {
        let [woken, daemon] = {
            let (client, session) = (self.client.borrow(), self.session.borrow());
            wait::poll(
                &mut [(session.woken(), PollFlags::POLLIN), (client.fd(), HANG_UP)],
                deadline,
            )?
        };
        if daemon.intersects(HANG_UP) {
            self.check_daemon()?;
        }
        if !woken.is_empty() {
            let drained = self.session.borrow().drain();
            drained.map_err(|error| self.wake_failed("take a wake-up", error))?;
        }
        Ok(())
    }
}

/// The descriptor to wait on in an event loop, after [`Device::arm`]. Readable when there is news
/// or the daemon is gone. Only wait on it: with `poll`, `epoll` or the like, for readability.
impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }
}

/// Which caller needs a wake-up from calls that find nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// No caller.
    No,
    /// A loop of the application: see [`Device::arm`].
    Loop,
    /// A call that waits. It sleeps if its attempt finds nothing.
    Wait,
    /// As `Wait`, but it must look again before it sleeps.
    WaitAgain,
}

/// A device may be moved to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Device>();
};
