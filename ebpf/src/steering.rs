//! One loaded program, on one interface.

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd},
};

use aya::{
    Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{Array, Map, MapData, MapError, PerCpuArray, XskMap},
    programs::{ProgramFd, Xdp},
};

use crate::{
    Action, AttachMode, AttachPoint, AttachedProgram, Counters, EbpfError, EffectiveMode, Key,
    error::os_error,
    heap,
    interface::{self, Interface},
    key::TableKey,
    layout::{
        CounterBlock, ETHERTYPE_MIN, QUEUES_MAX, SETTING_DEFAULT_ACTION, SETTING_LINK_ETHERTYPE,
        SETTING_TABLES, socket_place,
    },
    link::{self, Link},
    owner,
    tables::{Tables, map_error},
};

/// The program as it was compiled.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/object/steer.bpf.o"));
const PROGRAM: &str = "steer";

const LOADING: &str = "loading the XDP program";
const ATTACHING: &str = "attaching the XDP program";
const QUERYING_PROGRAMS: &str = "querying rtnetlink for the interface's XDP programs";

/// The XDP program with its maps, for one interface.
///
/// Initially it passes every frame to the kernel. Dropping it detaches the program. The exit of the
/// process also detaches it in every case: nothing is pinned. It can be sent to another thread.
/// Changes take effect on the next frame and never stop the traffic.
pub struct Steering {
    program: ProgramFd,
    program_id: u32,
    attached: Option<Attached>,
    native_refusal: Option<EbpfError>,
    sockets: XskMap<MapData>,
    settings: Array<MapData, u32>,
    counters: PerCpuArray<MapData, CounterBlock>,
    tables: Tables,
    /// Current value of the setting that lists the tables with rules for the program.
    tables_in_use: u32,
}

struct Attached {
    /// Detaches the program when it is dropped.
    _link: Link,
    interface: String,
    ifindex: u32,
}

impl Steering {
    /// Loads the program and makes its maps; attaches nothing.
    ///
    /// # Errors
    /// [`EbpfError::NotPermitted`], [`EbpfError::NoMemory`] or [`EbpfError::Rejected`].
    pub fn load() -> Result<Self, EbpfError> {
        let loaded = Self::load_object();
        heap::give_back();
        loaded
    }

    fn load_object() -> Result<Self, EbpfError> {
        let mut object = EbpfLoader::new()
            // The program accesses no kernel structure, so it needs no kernel type information.
            .btf(None)
            .verifier_log_level(VerifierLogLevel::STATS)
            .load(OBJECT)
            .map_err(|error| EbpfError::from_load(LOADING, error))?;
        let program: &mut Xdp = object
            .program_mut(PROGRAM)
            .and_then(|program| program.try_into().ok())
            .ok_or_else(|| EbpfError::Object(format!("it has no XDP program `{PROGRAM}`")))?;
        program
            .load()
            .map_err(|error| EbpfError::from_load(LOADING, error))?;
        let program_id = program
            .info()
            .map_err(|error| EbpfError::from_load(LOADING, error))?
            .id();
        let program = program
            .fd()
            .map_err(|error| EbpfError::Object(error.to_string()))?
            .try_clone()
            .map_err(|source| EbpfError::from_io(LOADING, source))?;
        Ok(Self {
            program,
            program_id,
            attached: None,
            native_refusal: None,
            sockets: take_map(&mut object, "XSKS")?,
            settings: take_map(&mut object, "SETTINGS")?,
            counters: take_map(&mut object, "COUNTERS")?,
            tables: Tables::take(&mut object)?,
            tables_in_use: 0,
        })
    }

    /// Attaches the program to the interface with this index, which must have this name, in the
    /// caller's network namespace. Returns the mode that the kernel then reports.
    ///
    /// # Errors
    /// [`EbpfError::Busy`] if another program is attached (in either mode),
    /// [`EbpfError::NativeRefused`] if `Native` was requested and the driver does not support it,
    /// [`EbpfError::NoSuchInterface`], [`EbpfError::OtherInterface`], [`EbpfError::NotPermitted`],
    /// [`EbpfError::AlreadyAttached`].
    pub fn attach(
        &mut self,
        ifindex: u32,
        interface: &str,
        mode: AttachMode,
    ) -> Result<EffectiveMode, EbpfError> {
        if let Some(attached) = &self.attached {
            return Err(EbpfError::AlreadyAttached {
                interface: attached.interface.clone(),
            });
        }
        let state = query(ifindex, interface)?;
        if state.name != interface {
            return Err(EbpfError::OtherInterface {
                interface: interface.to_owned(),
                ifindex,
                found: state.name,
            });
        }
        self.native_refusal = None;
        let link = match mode {
            AttachMode::Native => self.create_link(ifindex, &state, EffectiveMode::Native)?,
            AttachMode::Generic => self.create_link(ifindex, &state, EffectiveMode::Generic)?,
            AttachMode::Auto => match self.create_link(ifindex, &state, EffectiveMode::Native) {
                Err(refusal @ EbpfError::NativeRefused { .. }) => {
                    let link = self.create_link(ifindex, &state, EffectiveMode::Generic)?;
                    self.native_refusal = Some(refusal);
                    link
                }
                result => result?,
            },
        };
        self.attached = Some(Attached {
            _link: link,
            interface: interface.to_owned(),
            ifindex,
        });
        match self.effective_mode() {
            Ok(Some(mode)) => Ok(mode),
            Ok(None) => {
                self.detach();
                Err(EbpfError::Vanished {
                    interface: interface.to_owned(),
                })
            }
            Err(error) => {
                self.detach();
                Err(error)
            }
        }
    }

    fn create_link(
        &self,
        ifindex: u32,
        state: &Interface,
        mode: EffectiveMode,
    ) -> Result<Link, EbpfError> {
        link::create(self.program.as_fd(), ifindex, mode).map_err(|source| {
            let interface = state.name.clone();
            match source.raw_os_error() {
                // EEXIST: a program of the other mode is there.
                Some(libc::EBUSY | libc::EEXIST) => match others(ifindex, self.program_id) {
                    Ok(owners) if owners.is_empty() && mode == EffectiveMode::Native => {
                        EbpfError::NativeRefused {
                            interface,
                            mtu_bytes: state.mtu_bytes,
                            source,
                        }
                    }
                    Ok(owners) => EbpfError::Busy {
                        interface,
                        owner: owners.into_iter().next(),
                    },
                    Err(error) => error,
                },
                Some(libc::EPERM | libc::EACCES) => EbpfError::from_io(ATTACHING, source),
                // The interface went between the question and the call.
                Some(libc::EINVAL | libc::ENODEV)
                    if matches!(interface::query(ifindex), Ok(None)) =>
                {
                    EbpfError::NoSuchInterface { interface, ifindex }
                }
                _ if mode == EffectiveMode::Native => EbpfError::NativeRefused {
                    interface,
                    mtu_bytes: state.mtu_bytes,
                    source,
                },
                _ => EbpfError::from_io(ATTACHING, source),
            }
        })
    }

    /// Takes the program off its interface; nothing happens if it is on none.
    pub fn detach(&mut self) {
        self.attached = None;
    }

    /// Returns how the kernel runs the program now. Returns `None` if it is not attached, because
    /// it never was, the interface was removed, or another process detached it.
    ///
    /// # Errors
    /// [`EbpfError::Kernel`] if rtnetlink fails.
    pub fn effective_mode(&self) -> Result<Option<EffectiveMode>, EbpfError> {
        let Some(attached) = &self.attached else {
            return Ok(None);
        };
        let state = interface::query(attached.ifindex)
            .map_err(|source| EbpfError::from_io(QUERYING_PROGRAMS, source))?;
        let here = state
            .into_iter()
            .flat_map(|state| state.programs)
            .find(|&(_, id)| id == self.program_id);
        Ok(here.and_then(|(at, _)| match at {
            AttachPoint::Native => Some(EffectiveMode::Native),
            AttachPoint::Generic => Some(EffectiveMode::Generic),
            AttachPoint::Hardware => None,
        }))
    }

    /// Why [`AttachMode::Auto`] ended in generic mode; `None` if it did not.
    #[must_use]
    pub fn native_refusal(&self) -> Option<&EbpfError> {
        self.native_refusal.as_ref()
    }

    /// The kernel's id of the program, as `bpftool prog show id` takes it.
    #[must_use]
    pub const fn program_id(&self) -> u32 {
        self.program_id
    }

    /// Gives the queue's frames to this `AF_XDP` socket and replaces the queue's previous socket.
    ///
    /// The socket must be bound to this interface and queue: the kernel drops frames redirected to
    /// any other socket. The map holds the socket itself, so the descriptor may be closed. A closed
    /// socket leaves the map by itself.
    ///
    /// # Errors
    /// [`EbpfError::NoSuchQueue`] from [`QUEUES_MAX`] on, [`EbpfError::NotASocket`].
    pub fn set_socket(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), EbpfError> {
        self.put_socket(queue, false, socket)
    }

    /// As [`Steering::set_socket`] for the queue's link frames. They go to this socket, and all
    /// others to that of [`Steering::set_socket`].
    ///
    /// # Errors
    /// As [`Steering::set_socket`].
    pub fn set_link_socket(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), EbpfError> {
        self.put_socket(queue, true, socket)
    }

    fn put_socket(
        &mut self,
        queue: u32,
        link: bool,
        socket: BorrowedFd<'_>,
    ) -> Result<(), EbpfError> {
        check_queue(queue)?;
        self.sockets
            .set(socket_place(queue, link), socket, 0)
            .map_err(|error| match os_error(&error) {
                Some(errno @ (libc::EOPNOTSUPP | libc::EBADF | libc::EINVAL | libc::ENOTSOCK)) => {
                    EbpfError::NotASocket {
                        queue,
                        source: io::Error::from_raw_os_error(errno),
                    }
                }
                _ => map_error("giving a socket to the XDP program", error),
            })
    }

    /// Passes the queue's frames to the kernel again, including link frames. Does nothing if the
    /// queue has no socket.
    ///
    /// # Errors
    /// [`EbpfError::NoSuchQueue`] from [`QUEUES_MAX`] on.
    pub fn clear_socket(&mut self, queue: u32) -> Result<(), EbpfError> {
        check_queue(queue)?;
        for link in [true, false] {
            match self.sockets.unset(socket_place(queue, link)) {
                Err(error) if os_error(&error) != Some(libc::ENOENT) => {
                    return Err(map_error("taking a socket from the XDP program", error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends untagged frames of this EtherType to the dataplane before any rule is evaluated. 0
    /// disables this.
    ///
    /// # Errors
    /// [`EbpfError::LinkEtherType`] from 1 to 0x05ff.
    pub fn set_link_ethertype(&mut self, ethertype: u16) -> Result<(), EbpfError> {
        if (1..ETHERTYPE_MIN).contains(&ethertype) {
            return Err(EbpfError::LinkEtherType(ethertype));
        }
        self.set(SETTING_LINK_ETHERTYPE, u32::from(ethertype))
    }

    /// Sets the action for frames that no rule matches. Initially they go to the kernel.
    ///
    /// # Errors
    /// [`EbpfError::NotPermitted`] before Linux 5.19 if the process dropped its capabilities.
    pub fn set_default(&mut self, action: Action) -> Result<(), EbpfError> {
        self.set(SETTING_DEFAULT_ACTION, action.value())
    }

    fn set(&mut self, slot: u32, value: u32) -> Result<(), EbpfError> {
        self.settings
            .set(slot, value, 0)
            .map_err(|error| map_error("changing a setting of the XDP program", error))
    }

    /// Adds a rule, or changes the action of the rule with this key.
    ///
    /// # Errors
    /// [`EbpfError::Key`] if no frame can have such a key, [`EbpfError::TableFull`].
    pub fn insert(&mut self, key: &Key, action: Action) -> Result<(), EbpfError> {
        let key = TableKey::try_from(key)?;
        // Set the bit before adding the rule: the program briefly searches an empty table, but
        // misses no rule.
        self.use_tables(self.tables.in_use() | key.table())?;
        self.tables.insert(&key, action)
    }

    /// Removes the rule with this key. Returns whether there was one.
    ///
    /// # Errors
    /// [`EbpfError::Key`] if no frame can have such a key.
    pub fn remove(&mut self, key: &Key) -> Result<bool, EbpfError> {
        let removed = self.tables.remove(&TableKey::try_from(key)?)?;
        self.use_tables(self.tables.in_use())?;
        Ok(removed)
    }

    fn use_tables(&mut self, tables: u32) -> Result<(), EbpfError> {
        if tables != self.tables_in_use {
            self.set(SETTING_TABLES, tables)?;
            self.tables_in_use = tables;
        }
        Ok(())
    }

    /// Frames by cause since the program was loaded. One system call.
    ///
    /// # Errors
    /// [`EbpfError::NotPermitted`] before Linux 5.19 if the process gave its capabilities away.
    pub fn counters(&self) -> Result<Counters, EbpfError> {
        let blocks = self
            .counters
            .get(&0, 0)
            .map_err(|error| map_error("reading the XDP program's counters", error))?;
        Ok(Counters::sum(&blocks))
    }

    /// Returns the XDP programs of other owners on the interface with this index.
    ///
    /// # Errors
    /// Those of [`attached_programs`](crate::attached_programs).
    pub fn attached_programs(&self, ifindex: u32) -> Result<Vec<AttachedProgram>, EbpfError> {
        others(ifindex, self.program_id)
    }
}

impl AsFd for Steering {
    /// The program, for `BPF_PROG_TEST_RUN` and the like.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steering")
            .field("program_id", &self.program_id)
            .field(
                "interface",
                &self.attached.as_ref().map(|attached| &attached.interface),
            )
            .finish_non_exhaustive()
    }
}

/// Takes the named map out of the object, as the type that this loader expects.
pub(crate) fn take_map<M>(object: &mut Ebpf, name: &str) -> Result<M, EbpfError>
where
    M: TryFrom<Map, Error = MapError>,
{
    let map = object
        .take_map(name)
        .ok_or_else(|| EbpfError::Object(format!("it has no map `{name}`")))?;
    map.try_into()
        .map_err(|error| EbpfError::Object(format!("map `{name}`: {error}")))
}

const fn check_queue(queue: u32) -> Result<(), EbpfError> {
    if queue < QUEUES_MAX {
        Ok(())
    } else {
        Err(EbpfError::NoSuchQueue { queue })
    }
}

fn query(ifindex: u32, interface: &str) -> Result<Interface, EbpfError> {
    interface::query(ifindex)
        .map_err(|source| EbpfError::from_io(QUERYING_PROGRAMS, source))?
        .ok_or_else(|| EbpfError::NoSuchInterface {
            interface: interface.to_owned(),
            ifindex,
        })
}

fn others(ifindex: u32, own: u32) -> Result<Vec<AttachedProgram>, EbpfError> {
    let programs = query(ifindex, "")?.programs;
    Ok(programs
        .into_iter()
        .filter(|&(_, id)| id != own)
        .map(|(at, id)| owner::describe(at, id))
        .collect())
}
