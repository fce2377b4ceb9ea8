//! Outcome of system calls of a process in a sandbox.

use std::{io, ptr, thread};

use covalent_sandbox::{Calls, install};
use nix::{
    sys::{
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork},
};

/// A minimal set in addition to the calls of every program.
const CALLS: Calls = Calls {
    calls: &[libc::SYS_memfd_create],
    sockets: &[libc::AF_UNIX],
};

/// Exit code of a child in which the sandbox could not be installed.
const OPEN: i32 = 111;

/// Returns how a child ends that runs `does` and exits with its result.
fn outcome(does: impl FnOnce() -> i32) -> WaitStatus {
    // SAFETY: the child takes no lock but the allocator's, which the C library keeps consistent
    // across a fork.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Parent { child } => waitpid(child, None).expect("it ends"),
        ForkResult::Child => {
            let code = does();
            // SAFETY: ends the child at once, with nothing of the test's run.
            unsafe { libc::_exit(code) }
        }
    }
}

/// The same, in the sandbox.
fn outcome_in_sandbox(does: impl FnOnce() -> i32) -> WaitStatus {
    outcome(|| install(&CALLS).map_or(OPEN, |()| does()))
}

/// Returns the error of a call, or 0. Without a sandbox each call below fails too, or changes
/// nothing, because its arguments refer to nothing.
fn call(number: libc::c_long, arguments: [libc::c_long; 3]) -> i32 {
    let [a, b, c] = arguments;
    // SAFETY: no argument is the address of memory of this program.
    if unsafe { libc::syscall(number, a, b, c, 0, 0, 0) } < 0 {
        return io::Error::last_os_error().raw_os_error().unwrap_or(OPEN);
    }
    0
}

fn assert_killed(status: WaitStatus, what: &str) {
    assert!(
        matches!(status, WaitStatus::Signaled(_, Signal::SIGSYS, _)),
        "{what}: {status:?}"
    );
}

fn assert_exits(status: WaitStatus, code: i32, what: &str) {
    assert!(
        matches!(status, WaitStatus::Exited(_, it) if it == code),
        "{what}: {status:?}"
    );
}

#[test]
fn a_call_of_an_intruder_ends_the_process() {
    for (what, number) in [
        ("execve", libc::SYS_execve),
        ("execveat", libc::SYS_execveat),
        ("ptrace", libc::SYS_ptrace),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("kexec_load", libc::SYS_kexec_load),
        ("init_module", libc::SYS_init_module),
        ("finit_module", libc::SYS_finit_module),
        ("mount", libc::SYS_mount),
        ("pivot_root", libc::SYS_pivot_root),
        ("chroot", libc::SYS_chroot),
        ("setns", libc::SYS_setns),
        ("unshare", libc::SYS_unshare),
        ("setuid", libc::SYS_setuid),
    ] {
        assert_killed(outcome_in_sandbox(|| call(number, [0; 3])), what);
    }
    let typing = [-1, libc::TIOCSTI.cast_signed(), 0];
    assert_killed(
        outcome_in_sandbox(|| call(libc::SYS_ioctl, typing)),
        "TIOCSTI",
    );
}

#[test]
fn calls_not_on_the_list_are_refused() {
    let writable_code = libc::PROT_WRITE | libc::PROT_EXEC;
    for (what, number, arguments) in [
        ("sync", libc::SYS_sync, [0; 3]),
        ("bpf", libc::SYS_bpf, [0; 3]),
        ("a socket", libc::SYS_socket, [libc::AF_PACKET.into(), 3, 0]),
        ("a filter", libc::SYS_seccomp, [0; 3]),
        ("a process", libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0]),
        ("the end of another", libc::SYS_tgkill, [1, 1, 0]),
        (
            "writable code",
            libc::SYS_mmap,
            [0, 4096, writable_code.into()],
        ),
        (
            "code made of data",
            libc::SYS_mprotect,
            [0, 4096, libc::PROT_EXEC.into()],
        ),
        ("limits", libc::SYS_prlimit64, [0, 0, 1]),
    ] {
        assert_exits(
            outcome_in_sandbox(|| call(number, arguments)),
            libc::EPERM,
            what,
        );
    }
}

#[test]
fn calls_with_unfilterable_arguments_fail_as_unknown() {
    for (what, number) in [("clone3", libc::SYS_clone3), ("openat2", libc::SYS_openat2)] {
        assert_exits(
            outcome_in_sandbox(|| call(number, [0; 3])),
            libc::ENOSYS,
            what,
        );
    }
}

#[test]
fn usual_calls_of_every_program_still_work() {
    let status = outcome_in_sandbox(|| {
        let thread = thread::Builder::new().spawn(|| vec![0_u8; 1 << 20].len());
        let Ok(Ok(1_048_576)) = thread.map(thread::JoinHandle::join) else {
            return 1;
        };
        if std::fs::read_to_string("/proc/self/status").is_err() {
            return 2;
        }
        if std::os::unix::net::UnixDatagram::pair().is_err() {
            return 3;
        }
        let readable = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: this requests memory at an unused address. Nothing uses it.
        let code = unsafe { libc::mmap(ptr::null_mut(), 4096, readable, flags, -1, 0) };
        if code == libc::MAP_FAILED {
            return 4;
        }
        0
    });
    assert_exits(status, 0, "a program");
    let status = outcome_in_sandbox(|| std::process::abort());
    assert!(
        matches!(status, WaitStatus::Signaled(_, Signal::SIGABRT, _)),
        "{status:?}"
    );
}

#[test]
fn running_threads_are_in_the_sandbox_too() {
    let status = outcome(|| {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let before = thread::spawn(move || {
            let _ = wait.recv();
            call(libc::SYS_sync, [0; 3])
        });
        if install(&CALLS).is_err() {
            return OPEN;
        }
        let _ = go.send(());
        before.join().unwrap_or(OPEN)
    });
    assert_exits(status, libc::EPERM, "the thread");
}
