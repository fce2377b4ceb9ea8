//! As `events`, with Tokio: one task takes messages, another one adds at each tick of a timer.
//!
//! ```text
//! tasks SOCKET NODE REGION N     receives N messages in the queue "c-messages". Meanwhile it adds
//!                                1 to the first word of a region of NODE every 10 ms.
//! ```
#![allow(clippy::print_stdout)]

use std::{env, error::Error, time::Duration};

use covalent::{Target, tokio::AsyncDevice};
use tokio::{select, time::interval};

const QUEUE_BYTES: u64 = 1 << 16;

// ANCHOR: serve
async fn serve(socket: &str, node: &str, region: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let device = AsyncDevice::attach(socket, "tasks")?;
    let mut queue = device.receive_queue("c-messages", QUEUE_BYTES)?;
    let verbs = device.share(device.verbs()?)?;
    let words = verbs.open_region(Target::Name(node), region).await?;
    println!("ready");
    let receive = async {
        let mut messages = 0;
        while messages < count {
            let message = device.recv(&mut queue).await?;
            messages += u64::from(!message.data.is_empty());
        }
        Ok::<_, covalent::Error>(messages)
    };
    let mut additions = 0;
    let add = async {
        let mut ticks = interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
            verbs.fetch_add(&words, 0, 1).await?;
            additions += 1;
        }
    };
    // Both wait on the one descriptor of the device.
    let messages = select! {
        messages = receive => messages?,
        stopped = add => return stopped,
    };
    println!("{messages} messages, {additions} additions");
    Ok(())
}
// ANCHOR_END: serve

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments[..] {
        [socket, node, region, count] => serve(socket, node, region, count.parse()?).await,
        _ => Err("usage: tasks SOCKET NODE REGION N".into()),
    }
}
