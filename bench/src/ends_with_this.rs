//! Processes that must not outlive this one, however it ends.

use std::{os::unix::process::CommandExt, process::Command};

use nix::{
    sys::{prctl, signal::Signal},
    unistd::{Pid, getppid},
};

/// Makes the kernel kill the process of `command` when the thread that starts it exits, and thus
/// when this process exits.
pub fn ends_with_this(command: &mut Command) {
    let parent = Pid::this();
    // SAFETY: only async-signal-safe calls are allowed between fork and exec. The closure makes two
    // system calls, prctl and getppid, which neither allocate nor lock. It builds errors from plain
    // numbers.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the line above took hold.
            if getppid() == parent {
                Ok(())
            } else {
                Err(nix::Error::ESRCH.into())
            }
        });
    }
}
