//! Passes thousands of rings from daemon to application as in production: a few descriptors at a
//! time, mapped and closed before the next ones.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use covalent_ipc::seqpacket::Connection;

/// One end of the socket that they pass.
#[derive(Debug)]
pub struct Handing {
    connection: Connection,
}

impl Handing {
    /// Over a connection of the two sides.
    pub const fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Sends descriptors and waits until the other side has received them: descriptors in flight
    /// count against this process's limit.
    pub fn give(&self, fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.connection
            .send(&[0], fds)
            .context("handing rings over")?;
        let mut answer = [0];
        self.connection
            .recv(&mut answer)
            .context("handing rings over")?;
        Ok(())
    }

    /// Receives `count` descriptors and passes them to `open` before it accepts more.
    pub fn take<T>(&self, count: usize, open: impl FnOnce(Vec<OwnedFd>) -> Result<T>) -> Result<T> {
        let mut word = [0];
        let (_, fds) = self
            .connection
            .recv(&mut word)
            .context("taking rings over")?;
        ensure!(
            fds.len() == count,
            "received {} descriptors, expected {count}",
            fds.len()
        );
        let opened = open(fds)?;
        self.connection
            .send(&[0], &[])
            .context("taking rings over")?;
        Ok(opened)
    }
}

/// Borrows descriptors.
pub fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn descriptors_are_taken_in_the_order_given() {
        let (near, far) = Connection::pair().expect("a pair");
        let (near, far) = (Handing::new(near), Handing::new(far));
        let taker = std::thread::spawn(move || {
            let first = far.take(2, |fds| Ok(fds.len()));
            let second = far.take(1, |fds| Ok(fds.len()));
            let third = far
                .take(3, |fds| Ok(fds.len()))
                .map_err(|problem| problem.to_string());
            (first.expect("two"), second.expect("one"), third)
        });
        let file = OwnedFd::from(File::open("/dev/null").expect("it is always there"));
        near.give(&[file.as_fd(), file.as_fd()]).expect("taken");
        near.give(&borrowed(&[file])).expect("taken");
        near.give(&[]).expect_err("the other side left");
        let (first, second, third) = taker.join().expect("it ended");
        assert_eq!((first, second), (2, 1));
        assert_eq!(third, Err("received 0 descriptors, expected 3".to_owned()));
    }
}
