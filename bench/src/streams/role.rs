//! A process that a measurement starts: it prepares its part, runs it when ordered, and reports its
//! counts.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use covalent_ipc::seqpacket::Connection;

use crate::{
    cores::pin,
    streams::{
        case::Size,
        part::{MESSAGE_BYTES_MAX, Order, Part, Side, Word},
        peers,
        session::{self, SessionPart},
        source::{Mix, Source},
        tally::{Meter, Tally, Window, cpu_seconds},
    },
};

/// A part that can be played at once.
pub struct Prepared {
    /// For the far side.
    pub note: String,
    /// For the far side.
    pub fds: Vec<OwnedFd>,
    /// Runs the part until its meter ends.
    pub act: Act,
}

/// Plays a part.
pub type Act = Box<dyn FnOnce(Stage<'_>) -> Result<Tally>>;

impl Prepared {
    /// Creates a part without data for the far side.
    pub fn plain(act: impl FnOnce(Stage<'_>) -> Result<Tally> + 'static) -> Self {
        Self {
            note: String::new(),
            fds: Vec::new(),
            act: Box::new(act),
        }
    }
}

/// While a part is played.
#[derive(Debug)]
pub struct Stage<'a> {
    /// Counts, and determines when the part is over.
    pub meter: Meter<'a>,
    /// Set when the measurement requests a stop.
    pub stop: &'a AtomicBool,
}

impl Stage<'_> {
    /// Polls until `poll` returns a value. Returns `None` if a stop is requested.
    ///
    /// There is no `pause` instruction between two polls, here and in all polling sides: each side
    /// has its own core, and on some processors the instruction takes 140 cycles.
    #[inline]
    pub fn await_some<T>(&self, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = poll() {
                return Some(found);
            }
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
        }
    }
}

/// Plays the part that the measurement at `socket` gives.
pub fn play(socket: &Path) -> Result<()> {
    let connection = Connection::connect(socket)
        .with_context(|| format!("meeting the measurement at {}", socket.display()))?;
    let connection = Arc::new(connection);
    let played = play_over(&connection);
    if let Err(problem) = &played {
        // If the connection is closed, the exit status still reports the failure.
        let _ = send_word(&connection, &Word::Failed(format!("{problem:#}")), &[]);
    }
    played
}

fn play_over(connection: &Arc<Connection>) -> Result<()> {
    let (order, fds) = receive(connection)?;
    match order {
        Order::Prepare(part) => play_case(connection, &part, fds),
        Order::PrepareSession(part) => play_session(connection, *part),
        Order::Go | Order::Stop => bail!("received {order:?} before the part"),
    }
}

fn play_case(connection: &Arc<Connection>, part: &Part, fds: Vec<OwnedFd>) -> Result<()> {
    if let Some(core) = part.core {
        pin(core)?;
    }
    let prepared = peers::prepare(part, fds)?;
    let ready = Word::Ready {
        note: prepared.note,
    };
    send_word(connection, &ready, &prepared.fds)?;
    drop(prepared.fds);
    let (order, _) = receive(connection)?;
    if !matches!(order, Order::Go) {
        return Ok(());
    }
    let window = Window {
        warm_up: part.warm_up,
        slice: part.slice,
        counts: match part.side {
            Side::Near => !part.case.test.counted_far(),
            Side::Far => part.case.test.counted_far(),
            Side::Aid => false,
        },
    };
    let stop = watch_for_stop(connection);
    let tally = (prepared.act)(Stage {
        meter: Meter::start(window, &stop),
        stop: &stop,
    })?;
    send_word(connection, &Word::Done(tally), &[])
}

fn play_session(connection: &Arc<Connection>, part: SessionPart) -> Result<()> {
    if let Some(core) = part.core {
        pin(core)?;
    }
    let prepared = session::prepare(part)?;
    let ready = Word::Ready {
        note: String::new(),
    };
    send_word(connection, &ready, &[])?;
    let (order, _) = receive(connection)?;
    if !matches!(order, Order::Go) {
        return Ok(());
    }
    let (began, cpu_before) = (Instant::now(), cpu_seconds());
    let played = prepared.play(&watch_for_stop(connection))?;
    let tried = Word::Tried {
        trials: played.trials,
        packets: played.packets,
        core_share: (cpu_seconds() - cpu_before) / began.elapsed().as_secs_f64(),
    };
    send_word(connection, &tried, &[])
}

/// Returns a flag that is set when the measurement requests a stop.
fn watch_for_stop(connection: &Arc<Connection>) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let (connection, stop) = (Arc::clone(connection), Arc::clone(&stop));
        // Any further message means stop, and so does a closed connection. Read the message: if
        // unread data remains at close, the kernel discards sent data.
        move || {
            let _ = receive(&connection);
            stop.store(true, Ordering::Relaxed);
        }
    });
    stop
}

/// The packets of a part.
pub fn source(part: &Part) -> Result<Source> {
    let frames = match part.case.size {
        Size::Bytes(_) => Vec::new(),
        Size::Mix => read_frames(&part.mix)?,
    };
    Source::new(part.case.size, &frames)
}

/// Writes the frames of the mix where the processes find them.
pub fn write_frames(path: &Path, mix: &Mix) -> Result<()> {
    let bytes: Vec<u8> = mix
        .frames
        .iter()
        .flat_map(|frame| [&(frame.len() as u16).to_le_bytes()[..], frame].concat())
        .collect();
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

fn read_frames(path: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let mut rest = &bytes[..];
    let mut frames = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (frame, after) = after
            .split_at_checked(usize::from(u16::from_le_bytes(*length)))
            .with_context(|| format!("{} ends in the middle of a frame", path.display()))?;
        frames.push(frame.to_vec());
        rest = after;
    }
    Ok(frames)
}

fn receive(connection: &Connection) -> Result<(Order, Vec<OwnedFd>)> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let (length, fds) = connection
        .recv(&mut buffer)
        .context("hearing from the measurement")?;
    let order = serde_json::from_slice(&buffer[..length]).context("reading JSON")?;
    Ok((order, fds))
}

fn send_word(connection: &Connection, word: &Word, fds: &[OwnedFd]) -> Result<()> {
    let text = serde_json::to_vec(word).context("writing JSON")?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    connection
        .send(&text, &fds)
        .context("sending to the measurement")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("mix");
        let mix = Mix {
            origin: String::new(),
            frames: vec![vec![1; 9], vec![2; 1514]],
        };
        write_frames(&path, &mix).expect("written");
        assert_eq!(read_frames(&path).expect("read"), mix.frames);
        let bytes = fs::read(&path).expect("read");
        fs::write(&path, &bytes[..bytes.len() - 1]).expect("cut");
        assert!(read_frames(&path).is_err());
    }
}
