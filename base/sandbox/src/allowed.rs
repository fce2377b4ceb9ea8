//! The calls that are made.

use std::collections::BTreeMap;

use seccompiler::{BackendError, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

use crate::condition::{all, has, is, lacks};

/// Calls that one daemon makes in addition to those of every program.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    /// Calls with any arguments.
    pub calls: &'static [libc::c_long],
    /// Families of addresses of which it makes sockets.
    pub sockets: &'static [libc::c_int],
}

/// Calls that the standard library, the allocator and the logs make, and calls that move bytes
/// between open descriptors.
const COMMON: &[libc::c_long] = &[
    // Descriptors.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    // Files.
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_flock,
    libc::SYS_umask,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Sockets that there are.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // Ends waits for others while a connection is closed; the timer is made at the start.
    libc::SYS_timer_settime,
    libc::SYS_signalfd4,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_restart_syscall,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // Identity and state of this process and this host.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // Refused as unknown by the other filter, and not as forbidden.
    libc::SYS_clone3,
    libc::SYS_openat2,
];

/// The same under names that newer architectures never had.
#[cfg(target_arch = "x86_64")]
const OLD: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[libc::c_long] = &[];

/// Attributes that a thread may set for itself: its name, and that it gains no more privileges.
const PRCTL: [libc::c_int; 4] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_CAP_AMBIENT,
];

pub(crate) fn filter(
    calls: &Calls,
    architecture: TargetArch,
) -> Result<SeccompFilter, BackendError> {
    let writable = libc::PROT_WRITE.cast_unsigned();
    let executable = libc::PROT_EXEC.cast_unsigned();
    let this_process = std::process::id();
    let one_of = |values: &[libc::c_int]| -> Result<Vec<SeccompRule>, BackendError> {
        let rules = values.iter();
        rules
            .map(|value| all(vec![is(0, value.cast_unsigned())?]))
            .collect()
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = [COMMON, OLD, calls.calls]
        .into_iter()
        .flatten()
        .map(|&call| (call, Vec::new()))
        .collect();
    rules.extend([
        (libc::SYS_socket, one_of(calls.sockets)?),
        (libc::SYS_socketpair, one_of(&[libc::AF_UNIX])?),
        (libc::SYS_prctl, one_of(&PRCTL)?),
        // Threads, and no processes.
        (
            libc::SYS_clone,
            vec![all(vec![has(0, libc::CLONE_THREAD.cast_unsigned())?])?],
        ),
        // No memory is both writable and executable, and none becomes executable later. Libraries
        // are mapped executable from their files.
        (
            libc::SYS_mmap,
            vec![
                all(vec![lacks(2, writable)?])?,
                all(vec![lacks(2, executable)?])?,
            ],
        ),
        (libc::SYS_mprotect, vec![all(vec![lacks(2, executable)?])?]),
        // Killing this process, as a panic does, but no other.
        (libc::SYS_tgkill, vec![all(vec![is(0, this_process)?])?]),
        // Limits may be read. New limits are a pointer, which must be zero in both halves.
        (libc::SYS_prlimit64, vec![no_new_limits()?]),
    ]);
    SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        SeccompAction::Allow,
        architecture,
    )
}

fn no_new_limits() -> Result<SeccompRule, BackendError> {
    use seccompiler::{SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, SeccompCondition};
    all(vec![SeccompCondition::new(2, Qword, Eq, 0)?])
}
