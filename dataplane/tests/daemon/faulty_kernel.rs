//! `covalentd` on a kernel that fails system calls on purpose. The test names the kinds of calls.
//! Each such call, of any thread, waits until the test process decides whether the kernel executes
//! it or returns an error (seccomp user notification).

use std::{
    fs, io,
    mem::{self, offset_of, zeroed},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use libc::{c_int, c_long, c_uint};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use tempfile::TempDir;

use super::{
    client::{App, Client},
    command::{Running, file},
    node::{Node, eventually},
};

/// The child's descriptor of the notifications.
const LISTENER: c_int = 700;

/// The fraction of the golden ratio in 64 bits: the upper bit of its multiples has no period.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which calls fail.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub calls: &'static [c_long],
    /// Of those calls the ones with such arguments.
    pub picks: fn(&[u64; 6]) -> bool,
    pub which: Which,
    pub errno: Errno,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// One call, counted from 0.
    Nth(u64),
    /// Half of the calls, without a period: a loop of two calls ends.
    Half,
    All,
}

/// The fault in force, and its counts.
#[derive(Debug, Default)]
struct Plan {
    fault: Option<Fault>,
    picked: u64,
    failed: u64,
}

impl Plan {
    /// The error for this call; `None`: the kernel executes it.
    fn judge(&mut self, call: c_long, arguments: &[u64; 6]) -> Option<Errno> {
        let fault = self.fault?;
        if !fault.calls.contains(&call) || !(fault.picks)(arguments) {
            return None;
        }
        let before = self.picked;
        self.picked += 1;
        let fails = match fault.which {
            Which::Nth(nth) => before == nth,
            Which::Half => before.wrapping_mul(GOLDEN_RATIO) >> 63 == 1,
            Which::All => true,
        };
        self.failed += u64::from(fails);
        fails.then_some(fault.errno)
    }
}

/// See the module.
pub struct FaultyKernel {
    pub node: Node,
    pub daemon: Running,
    plan: Arc<Mutex<Plan>>,
    log: PathBuf,
    _dir: TempDir,
}

impl FaultyKernel {
    /// Starts a node that `make` configures in a directory; `calls` are those that may fail, from
    /// the first fault on.
    pub fn start(calls: &'static [c_long], make: impl FnOnce(&std::path::Path) -> Node) -> Self {
        let faulty = Self::start_with(calls, None, make);
        eventually("it is ready", || faulty.log().contains("ready"));
        faulty
    }

    /// As [`FaultyKernel::start`], with a fault from the start. Does not wait for its effect.
    pub fn start_with(
        calls: &'static [c_long],
        fault: Option<Fault>,
        make: impl FnOnce(&std::path::Path) -> Node,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let node = make(dir.path());
        let log = dir.path().join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_covalentd"));
        command
            .args(["--config", &file(dir.path(), &node)])
            .env_remove("NOTIFY_SOCKET")
            .env_remove("RUST_LOG")
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).expect("room on the disk"));
        let program = program(calls);
        // SAFETY: between fork and exec the closure makes system calls alone, and reads memory that
        // was there before.
        unsafe { command.pre_exec(move || install_filter(&program)) };
        let daemon = Running(command.spawn().expect("covalentd runs"));
        let listener = take_listener(daemon.0.id()).expect("the child's descriptor");
        let plan = Arc::new(Mutex::new(Plan {
            fault,
            ..Plan::default()
        }));
        let answers = plan.clone();
        thread::spawn(move || answer(&listener, &answers));
        Self {
            node,
            daemon,
            plan,
            log,
            _dir: dir,
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these calls fail.
    pub fn set(&self, fault: Fault) {
        *self.plan() = Plan {
            fault: Some(fault),
            ..Plan::default()
        };
    }

    /// From now on no call fails. Returns how many did.
    pub fn clear(&self) -> u64 {
        mem::take(&mut *self.plan()).failed
    }

    pub fn failed(&self) -> u64 {
        self.plan().failed
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("its log")
    }

    pub fn client(&self) -> Client {
        self.node.client()
    }

    pub fn app(&self) -> App {
        App::attach(&self.node.config.socket_path())
    }

    /// Fails unless the daemon runs, has not panicked and serves new clients.
    pub fn check_alive(&mut self) {
        let ended = self.daemon.0.try_wait().expect("a child");
        assert!(ended.is_none(), "{ended:?}: {}", self.log());
        assert!(!self.log().contains("panicked"), "{}", self.log());
        let (mut app, port) = (self.app(), self.node.config.port[0].name.clone());
        app.rx(None);
        app.tx(&port);
        app.register("checked", 4096);
    }
}

/// Returns a filter under which the kernel queries the supervisor about `calls` and executes all
/// others.
fn program(calls: &[c_long]) -> Vec<libc::sock_filter> {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let number = offset_of!(libc::seccomp_data, nr) as u32;
    let mut steps = vec![step(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        0,
        0,
        number,
    )];
    let mut left = calls.len() as u8;
    for &call in calls {
        // To the last step, over the comparisons that are left and the one before it.
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        steps.push(step(jump, left, 0, call as u32));
        left -= 1;
    }
    steps.push(step(
        libc::BPF_RET | libc::BPF_K,
        0,
        0,
        libc::SECCOMP_RET_ALLOW,
    ));
    let notification = libc::SECCOMP_RET_USER_NOTIF;
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, notification));
    steps
}

/// Puts this process under the filter, and leaves the descriptor of the kernel's queries at
/// [`LISTENER`]. Runs in a child before it executes its program.
fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads the filter, which outlives the call; the other arguments are
    // numbers.
    let listener = unsafe {
        Errno::result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    let listener = Errno::result(listener)? as c_int;
    // SAFETY: The call takes two numbers. The copy stays open in the program, for its parent to
    // fetch.
    Errno::result(unsafe { libc::dup2(listener, LISTENER) })?;
    Ok(())
}

fn take_listener(pid: u32) -> io::Result<OwnedFd> {
    let owned = |fd: c_long| -> io::Result<OwnedFd> {
        let fd = Errno::result(fd)? as c_int;
        // SAFETY: The kernel created the descriptor for this call, and no other code knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let none: c_uint = 0;
    // SAFETY: numbers.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, none) })?;
    // SAFETY: numbers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), LISTENER, none) })
}

/// Answers until the process has ended.
fn answer(listener: &OwnedFd, plan: &Mutex<Plan>) {
    loop {
        let mut waits = [PollFd::new(
            std::os::fd::AsFd::as_fd(listener),
            PollFlags::POLLIN,
        )];
        match poll(&mut waits, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(errno) => panic!("poll: {errno}"),
            Ok(_) => {}
        }
        let seen = waits[0].revents().unwrap_or(PollFlags::empty());
        if !seen.contains(PollFlags::POLLIN) {
            return;
        }
        // SAFETY: a structure of numbers.
        let mut notification: libc::seccomp_notif = unsafe { zeroed() };
        // SAFETY: the kernel fills the structure that it is given, which has its size.
        let received = unsafe {
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut notification,
            )
        };
        if received < 0 {
            // The calling thread was killed or interrupted.
            continue;
        }
        let call = c_long::from(notification.data.nr);
        let errno = plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .judge(call, &notification.data.args);
        let mut response = libc::seccomp_notif_resp {
            id: notification.id,
            val: 0,
            error: errno.map_or(0, |errno| -(errno as i32)),
            flags: match errno {
                Some(_) => 0,
                None => libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            },
        };
        // SAFETY: As above. The call fails if the calling thread no longer exists.
        unsafe {
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut response,
            );
        }
    }
}
