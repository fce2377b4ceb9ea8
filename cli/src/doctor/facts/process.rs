//! Other processes.

use std::fmt;

use procfs::process::Process;

/// The state of a process, as the kernel shows it to all users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs, or waits for something.
    Alive,
    /// It was stopped, by SIGSTOP or a debugger, and does nothing until it is continued.
    Stopped,
    /// It is gone, or cannot be seen from here.
    Gone,
}

impl fmt::Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Alive => "runs",
            Self::Stopped => "is stopped",
            Self::Gone => "cannot be seen from here",
        })
    }
}

/// Returns the state of the process with this number.
pub fn state(pid: i32) -> ProcessState {
    match Process::new(pid).and_then(|process| process.stat()) {
        Ok(stat) if matches!(stat.state, 'T' | 't') => ProcessState::Stopped,
        Ok(stat) if matches!(stat.state, 'Z' | 'X') => ProcessState::Gone,
        Ok(_) => ProcessState::Alive,
        Err(_) => ProcessState::Gone,
    }
}

/// Returns whether `pid` runs the program `name` in another network namespace than this process.
/// False if this user cannot read that.
pub fn is_in_another_network(pid: i32, name: &str) -> bool {
    // A number from another PID namespace may denote another program here.
    let is_it = Process::new(pid)
        .and_then(|process| process.stat())
        .is_ok_and(|stat| stat.comm == name);
    let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let differ = || Some(network(&pid.to_string())? != network("self")?);
    is_it && differ() == Some(true)
}

/// The process that runs the program `name`, if there is exactly one.
pub fn only_one_called(name: &str) -> Option<i32> {
    let mut called = procfs::process::all_processes()
        .ok()?
        .filter_map(|process| process.ok()?.stat().ok())
        .filter(|stat| stat.comm == name && stat.state != 'Z')
        .map(|stat| stat.pid);
    let first = called.next();
    first.filter(|_| called.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_unused_number_is_not() {
        let own = i32::try_from(std::process::id()).expect("small");
        assert_eq!(state(own), ProcessState::Alive);
        assert_eq!(state(-1), ProcessState::Gone);
        assert_eq!(only_one_called("no such program"), None);
    }
}
