//! A thread of another process that is stopped while the process runs, as by a debugger or by a
//! hypervisor that takes a core away.

use std::{fs, io};

/// The thread of process `pid` that has this name.
pub fn thread_of(pid: u32, name: &str) -> libc::pid_t {
    fs::read_dir(format!("/proc/{pid}/task"))
        .expect("it runs")
        .flatten()
        .find(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        })
        .and_then(|task| task.file_name().to_str()?.parse().ok())
        .expect("a thread of that name")
}

/// A thread that does not run until this is dropped. Only the thread that created it may use it,
/// because the kernel ties tracing to that thread.
pub struct Held(libc::pid_t);

impl Held {
    pub fn hold(thread: libc::pid_t) -> Self {
        trace(libc::PTRACE_SEIZE, thread).expect("it can be traced");
        let held = Self(thread);
        trace(libc::PTRACE_INTERRUPT, thread).expect("it is traced");
        let mut status = 0;
        // SAFETY: `status` is there to be written through the call.
        let waited = unsafe { libc::waitpid(thread, &mut status, libc::__WALL) };
        assert_eq!(waited, thread, "{}", io::Error::last_os_error());
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = trace(libc::PTRACE_DETACH, self.0);
    }
}

fn trace(request: libc::c_uint, thread: libc::pid_t) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests take no memory of this process.
    let answer = unsafe { libc::ptrace(request, thread, none, none) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
