//! A network namespace that vanishes with the thread that made it.

use std::{future::Future, thread};

use futures::TryStreamExt;
use nix::{
    errno::Errno,
    sched::{CloneFlags, unshare},
};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, new_connection};

/// Runs `test` in a new network namespace whose loopback is up, on a runtime with one thread. Skips
/// it with a message if namespaces cannot be created.
pub fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce(Handle) -> F + Send + 'static) {
    let inside = move || {
        match unshare(CloneFlags::CLONE_NEWNET) {
            Err(Errno::EPERM) => return skip("making a network namespace needs root"),
            result => result.expect("a network namespace"),
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (connection, handle, _) = new_connection().expect("rtnetlink");
            tokio::spawn(connection);
            let loopback = index(&handle, "lo")
                .await
                .expect("each namespace has a loopback");
            set_up(&handle, loopback).await;
            test(handle).await;
        });
    };
    thread::spawn(inside)
        .join()
        .expect("the test in its namespace");
}

#[expect(
    clippy::print_stderr,
    reason = "the test's output must show what was not tested"
)]
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// A veth pair, both ends down.
pub async fn add_veth(handle: &Handle, one: &str, other: &str) {
    handle
        .link()
        .add(LinkVeth::new(one, other).build())
        .execute()
        .await
        .expect("a veth pair");
}

pub async fn index(handle: &Handle, name: &str) -> Option<u32> {
    let mut links = handle.link().get().match_name(name.to_owned()).execute();
    links
        .try_next()
        .await
        .ok()
        .flatten()
        .map(|link| link.header.index)
}

pub async fn set_up(handle: &Handle, index: u32) {
    handle
        .link()
        .set(LinkUnspec::new_with_index(index).up().build())
        .execute()
        .await
        .expect("up");
}

pub async fn set_down(handle: &Handle, index: u32) {
    handle
        .link()
        .set(LinkUnspec::new_with_index(index).down().build())
        .execute()
        .await
        .expect("down");
}

/// How many addresses the interface has.
pub async fn addresses(handle: &Handle, index: u32) -> usize {
    let all = handle
        .address()
        .get()
        .set_link_index_filter(index)
        .execute();
    all.try_collect::<Vec<_>>().await.expect("addresses").len()
}
