//! A chat room in which all members read the same lines in the same order, including earlier lines.
//! `verbs/c/examples/chat.c` is the same program in C, and both may be in one room.
//!
//! ```text
//! chat SOCKET FOUNDERS   joins the group `c-chat`, or founds it with FOUNDERS members
//!                        (0: only joins); multicasts each line of its standard input,
//!                        prints all lines, and leaves at the end of the input
//! ```
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{
    env,
    error::Error,
    io::{self, Write},
    sync::mpsc::{Receiver, TryRecvError, channel},
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Device, Error as Failure, Group, GroupEvent, GroupOptions, Incarnation, STATE_BYTES_MAX, Stop,
};

/// The next step after an event.
enum Then {
    GoOn,
    Rejoin,
    End,
}

/// The application's state, and the part of it that is being given to another member.
#[derive(Default)]
struct Room {
    lines: Vec<u8>,
    is_in: bool,
    giving: Option<(Incarnation, Vec<u8>)>,
}

impl Room {
    fn print(&mut self, text: &[u8]) -> io::Result<()> {
        self.lines.extend_from_slice(text);
        io::stdout().write_all(text)?;
        io::stdout().flush()
    }

    // ANCHOR: events
    fn on_event(&mut self, event: &GroupEvent<'_>) -> Result<Then, Box<dyn Error>> {
        match event {
            GroupEvent::View(view) => {
                println!("# view {}: {} members", view.number, view.members.len());
                self.is_in = true;
            }
            // In the same order at all members.
            GroupEvent::Delivered { data, .. } | GroupEvent::State { data, .. } => {
                self.print(data)?
            }
            // A member joined: it receives the current room.
            GroupEvent::StateWanted { to } => {
                self.giving = Some((to.incarnation, self.lines.clone()))
            }
            GroupEvent::StateVoid => self.lines.clear(),
            GroupEvent::Stopped { why, .. } if !matches!(why, Stop::Minority { .. }) => {
                // The other members continued without this one: their state counts.
                self.lines.clear();
                self.is_in = false;
                return Ok(Then::Rejoin);
            }
            GroupEvent::Left => return Ok(Then::End),
            _ => {}
        }
        Ok(Then::GoOn)
    }
    // ANCHOR_END: events

    // ANCHOR: give
    /// Gives as many pieces as fit now.
    fn go_on_giving(&mut self, group: &mut Group<'_>) -> Result<(), Failure> {
        while let Some((to, mut left)) = self.giving.take() {
            let rest = left.split_off(left.len().min(STATE_BYTES_MAX));
            match group.send_snapshot(to, &left, rest.is_empty()) {
                Err(Failure::GroupFull { .. }) => {
                    left.extend_from_slice(&rest);
                    self.giving = Some((to, left));
                    break;
                }
                Ok(()) if !rest.is_empty() => self.giving = Some((to, rest)),
                Ok(()) | Err(Failure::StateUnwanted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    // ANCHOR_END: give
}

/// The lines of the standard input, as they come.
fn input() -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.send(line + "\n").is_err() {
                break;
            }
        }
    });
    lines
}

// ANCHOR: chat
fn chat(device: &Device, founders: u8) -> Result<(), Box<dyn Error>> {
    let mut group = device.group("c-chat", GroupOptions::new().founders(founders))?;
    let (lines, mut room) = (input(), Room::default());
    let (mut unsaid, mut leaves) = (None, false);
    loop {
        while room.is_in && !leaves {
            match unsaid.take().map_or_else(|| lines.try_recv(), Ok) {
                Ok(line) => match group.multicast(line.as_bytes()) {
                    Ok(_) => {}
                    Err(Failure::GroupFull { .. }) => {
                        unsaid = Some(line); // events make room
                        break;
                    }
                    Err(error) => return Err(error.into()),
                },
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    group.leave();
                    leaves = true;
                }
            }
        }
        room.go_on_giving(&mut group)?;
        let soon = Instant::now() + Duration::from_millis(5);
        let then = match group.next(soon) {
            Ok(event) => room.on_event(&event)?,
            Err(Failure::Deadline { .. }) => Then::GoOn, // the standard input may have more
            Err(error) => return Err(error.into()),
        };
        match then {
            Then::GoOn => {}
            Then::Rejoin => group = group.rejoin()?,
            Then::End => return Ok(()),
        }
    }
}
// ANCHOR_END: chat

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [socket, founders] = arguments.as_slice() else {
        return Err("usage: chat SOCKET FOUNDERS".into());
    };
    let device = Device::attach(socket, "chat")?;
    chat(&device, founders.parse()?)
}
