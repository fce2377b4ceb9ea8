//! Threads of a measurement: a responder that runs beside the requester, and their results.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use anyhow::{Result, bail};

/// Does `work` while another thread, once it has opened its end, goes round and round with it.
///
/// # Errors
/// Of the other thread, if it failed, else of `work`.
pub fn beside<End, T>(
    open: impl FnOnce() -> Result<End> + Send,
    mut round: impl FnMut(&mut End) -> Result<()> + Send,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let over = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let over = &over;
        let answering = scope.spawn(move || {
            let ready = ready;
            let mut end = open()?;
            drop(ready);
            while !over.load(Ordering::Relaxed) {
                round(&mut end)?;
            }
            Ok(())
        });
        // A failed thread also drops its sender. Its error is returned when it is joined.
        let _ = is_ready.recv();
        let done = work();
        over.store(true, Ordering::Relaxed);
        join(answering)?;
        done
    })
}

/// Joins a thread of the measurement and returns its result.
pub fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread
        .join()
        .unwrap_or_else(|_| bail!("a thread of the measurement failed"))
}
