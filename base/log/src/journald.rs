//! journald's native protocol (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL>): a datagram with
//! fields for each line.

use std::{
    env,
    fmt::{self, Write},
    io,
    os::unix::net::UnixDatagram,
    path::Path,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

/// Where journald listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// Prefix of our field names, so that none is one of journald's.
const PREFIX: &str = "COVALENT_";

/// Longest value, in bytes. A line with all its fields, twice, fits in a datagram of the size that
/// the kernel allows (`net.core.wmem_default`).
const VALUE_BYTES_MAX: usize = 4 << 10;

/// Most fields of a line besides journald's own.
const FIELDS_MAX: usize = 16;

/// Whether standard error is connected to journald, as systemd reports it.
pub fn has_standard_error() -> bool {
    let Some(encoded) = env::var_os("JOURNAL_STREAM") else {
        return false;
    };
    let Ok(found) = rustix::fs::fstat(rustix::stdio::stderr()) else {
        return false;
    };
    // A process in between may have redirected standard error: only a stream that is the same file
    // counts.
    encoded.to_str() == Some(&format!("{}:{}", found.st_dev, found.st_ino))
}

/// Sends each line to journald: its text, its fields by name, its priority, and its position in the
/// code.
#[derive(Debug)]
pub struct Journald {
    socket: UnixDatagram,
    /// Identifier of these lines in the journal.
    program: String,
}

impl Journald {
    /// Connects to the journald that listens at `path`.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        let own = env::current_exe().ok();
        let name = own.as_deref().and_then(Path::file_name);
        Ok(Self {
            socket,
            program: name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        })
    }
}

impl<S: Subscriber> Layer<S> for Journald {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut encoded = Vec::with_capacity(512);
        put(&mut encoded, "MESSAGE", &fields.line());
        put(&mut encoded, "PRIORITY", priority(*metadata.level()));
        put(&mut encoded, "SYSLOG_IDENTIFIER", &self.program);
        put(&mut encoded, "TARGET", metadata.target());
        if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
            put(&mut encoded, "CODE_FILE", file);
            put(&mut encoded, "CODE_LINE", &line.to_string());
        }
        for (name, value) in &fields.others {
            put(&mut encoded, &journal_field_name(name), value);
        }
        if self.socket.send(&encoded).is_err() {
            // journald begins anew, perhaps: systemd keeps its stream of standard error meanwhile.
            eprintln!("{}", fields.line());
        }
    }
}

/// The fields of a line.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    /// Human-readable line: the text, followed by the fields.
    fn line(&self) -> String {
        let mut line = self.message.clone();
        for (name, value) in &self.others {
            // Writing to a string cannot fail.
            let _ = write!(line, " {name}={value}");
        }
        line
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let value = &value[..value.floor_char_boundary(VALUE_BYTES_MAX)];
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name if self.others.len() < FIELDS_MAX => self.others.push((name, value.to_owned())),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// How journald counts: the less, the worse (syslog(3)).
const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

/// The name of our field in the journal, which has only some characters, and not too many.
fn journal_field_name(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
        _ => '_',
    });
    PREFIX.chars().chain(letters).take(64).collect()
}

fn put(encoded: &mut Vec<u8>, name: &str, value: &str) {
    encoded.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        // Only so may a value have lines.
        encoded.push(b'\n');
        encoded.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        encoded.push(b'=');
    }
    encoded.extend_from_slice(value.as_bytes());
    encoded.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;

    /// The fields of the next datagram, as journald reads it.
    fn read(journald: &UnixDatagram) -> Vec<(String, String)> {
        let mut buffer = vec![0; 1 << 20];
        let length = journald.recv(&mut buffer).expect("a line");
        let mut rest = &buffer[..length];
        let mut fields = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = (&rest[..end], &rest[end + 1..]);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
            if let Some(equals) = head.iter().position(|byte| *byte == b'=') {
                fields.push((text(&head[..equals]), text(&head[equals + 1..])));
                rest = tail;
            } else {
                let (length, tail) = tail.split_at(8);
                let length = u64::from_le_bytes(length.try_into().expect("eight"));
                let (value, tail) = tail.split_at(usize::try_from(length).expect("short"));
                fields.push((text(head), text(value)));
                rest = tail.strip_prefix(b"\n").expect("an end");
            }
        }
        assert!(rest.is_empty());
        fields
    }

    fn value<'f>(fields: &'f [(String, String)], wanted: &str) -> &'f str {
        let mut found = fields.iter().filter(|(name, _)| name == wanted);
        let (_, value) = found
            .next()
            .unwrap_or_else(|| panic!("{wanted}: {fields:?}"));
        assert_eq!(found.next(), None, "{wanted} twice");
        value
    }

    #[test]
    fn each_line_is_a_datagram_with_its_fields() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let journald = UnixDatagram::bind(&path).expect("a socket");
        let patience = Some(Duration::from_secs(10));
        journald.set_read_timeout(patience).expect("a socket");
        let layer = Journald::connect(&path).expect("it listens");
        let lines = Registry::default().with(layer);
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(port = "p0", open = 3, "peer-id" = %"x", "link down");
            tracing::info!(text = "two\nlines", "several\nlines");
            tracing::error!(long = "ü".repeat(VALUE_BYTES_MAX), "too long");
        });
        let down = read(&journald);
        assert_eq!(
            value(&down, "MESSAGE"),
            "link down port=p0 open=3 peer-id=x"
        );
        assert_eq!(value(&down, "PRIORITY"), "4");
        assert_eq!(value(&down, "COVALENT_PORT"), "p0");
        assert_eq!(value(&down, "COVALENT_OPEN"), "3");
        assert_eq!(value(&down, "COVALENT_PEER_ID"), "x");
        assert!(value(&down, "CODE_FILE").ends_with("journald.rs"));
        assert!(value(&down, "SYSLOG_IDENTIFIER").starts_with("covalent_log"));
        let lines = read(&journald);
        assert_eq!(value(&lines, "MESSAGE"), "several\nlines text=two\nlines");
        assert_eq!(value(&lines, "COVALENT_TEXT"), "two\nlines");
        assert_eq!(value(&lines, "PRIORITY"), "6");
        let long = read(&journald);
        assert_eq!(value(&long, "COVALENT_LONG").len(), VALUE_BYTES_MAX);
        assert_eq!(value(&long, "PRIORITY"), "3");
    }
}
