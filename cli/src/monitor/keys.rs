//! The displayed parts, and the keys that control them.

/// A key with a meaning here, as a terminal in raw mode sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A letter, a digit, a space.
    Char(char),
    /// The arrow.
    Up,
    /// The arrow.
    Down,
    /// By itself.
    Escape,
    /// Ctrl-C.
    Interrupt,
}

/// Escape, the first byte of the sequences of other keys.
const ESCAPE: u8 = 0x1b;

/// Longest sequence that a key sends. More is not waited for.
const SEQUENCE_BYTES_MAX: usize = 32;

/// Decodes bytes into keys. crossterm is not used for reading, because it never returns from a
/// terminal that was closed.
#[derive(Debug, Default)]
pub struct Keyboard {
    /// The beginning of a sequence.
    begun: Vec<u8>,
}

impl Keyboard {
    /// Returns the keys in `read`. An empty `read` ends a started sequence, which is then discarded
    /// unless it is Escape alone.
    pub fn keys(&mut self, read: &[u8]) -> Vec<Key> {
        if read.is_empty() {
            let is_alone = self.begun == [ESCAPE];
            self.begun.clear();
            return is_alone.then_some(Key::Escape).into_iter().collect();
        }
        read.iter().filter_map(|&byte| self.key(byte)).collect()
    }

    fn key(&mut self, byte: u8) -> Option<Key> {
        if self.begun.is_empty() {
            return match byte {
                ESCAPE => {
                    self.begun.push(byte);
                    None
                }
                0x03 => Some(Key::Interrupt),
                b' '..=b'~' => Some(Key::Char(byte.into())),
                _ => None,
            };
        }
        // ESC [ parameters final, and ESC O final: arrows in both modes of a terminal.
        let is_first = self.begun.len() == 1;
        self.begun.push(byte);
        if is_first && matches!(byte, b'[' | b'O') {
            return None;
        }
        let is_over =
            is_first || matches!(byte, 0x40..=0x7e) || self.begun.len() == SEQUENCE_BYTES_MAX;
        if !is_over {
            return None;
        }
        let sequence = std::mem::take(&mut self.begun);
        match sequence[..] {
            [ESCAPE, b'[' | b'O', b'A'] => Some(Key::Up),
            [ESCAPE, b'[' | b'O', b'B'] => Some(Key::Down),
            _ => None,
        }
    }
}

/// A part of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Threads.
    Lanes,
    /// Where frames come and go.
    Ports,
    /// Cables that both ends hold.
    Links,
    /// Rings of applications.
    Pipes,
    /// Drops, refusals and failures.
    Drops,
}

impl Part {
    /// All, from top to bottom.
    pub const ALL: [Self; 5] = [
        Self::Lanes,
        Self::Ports,
        Self::Links,
        Self::Pipes,
        Self::Drops,
    ];
}

/// The current selection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// One part alone.
    pub alone: Option<Part>,
    /// Its first row that is shown.
    pub first_row: usize,
    /// Whether the picture is frozen.
    pub held: bool,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// On with it.
    Continue,
    /// The command ends.
    Leave,
    /// It ends as if by SIGINT.
    Interrupted,
}

impl Shown {
    /// Applies `key`.
    pub fn on(&mut self, key: Key) -> Next {
        match key {
            Key::Interrupt => return Next::Interrupted,
            Key::Char('q') => return Next::Leave,
            Key::Char(' ') => self.held = !self.held,
            Key::Char('0') | Key::Escape => self.show(None),
            Key::Char(digit @ '1'..='5') => {
                let place = digit as usize - '1' as usize;
                self.show(Part::ALL.get(place).copied());
            }
            Key::Down | Key::Char('j') => self.first_row += 1,
            Key::Up | Key::Char('k') => self.first_row = self.first_row.saturating_sub(1),
            Key::Char(_) => {}
        }
        Next::Continue
    }

    fn show(&mut self, part: Option<Part>) {
        self.alone = part;
        self.first_row = 0;
    }

    /// So many rows can be scrolled past.
    pub fn keep_within(&mut self, rows: usize) {
        self.first_row = self.first_row.min(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded_from_the_bytes_of_a_terminal() {
        let mut keyboard = Keyboard::default();
        let mut keys = |bytes: &[u8]| keyboard.keys(bytes);
        assert_eq!(keys(b"q 3"), ['q', ' ', '3'].map(Key::Char));
        assert_eq!(keys(b"\x1b[A\x1bOB"), [Key::Up, Key::Down]);
        assert_eq!(keys(b"\x1b"), []);
        assert_eq!(keys(b""), [Key::Escape], "nothing followed it");
        assert_eq!(keys(b"\x1b"), []);
        assert_eq!(keys(b"[1;5"), []);
        assert_eq!(keys(b"A\x03"), [Key::Interrupt], "Ctrl-Up means nothing");
        assert_eq!(keys("\u{e4}\r\x1bx".as_bytes()), []);
        assert_eq!(keys(&[ESCAPE, b'[']), []);
        assert_eq!(
            keys(&[b'0'; 2 * SEQUENCE_BYTES_MAX]).len(),
            SEQUENCE_BYTES_MAX + 2
        );
    }

    #[test]
    fn keys_do_what_the_footer_lists() {
        let mut shown = Shown::default();
        let mut press = |code| {
            let next = shown.on(code);
            (next, shown.alone, shown.first_row, shown.held)
        };
        assert_eq!(
            press(Key::Char('3')),
            (Next::Continue, Some(Part::Links), 0, false)
        );
        assert_eq!(press(Key::Down).2, 1);
        assert_eq!(press(Key::Char('j')).2, 2);
        assert_eq!(press(Key::Char('k')).2, 1);
        assert_eq!(
            press(Key::Char(' ')),
            (Next::Continue, Some(Part::Links), 1, true)
        );
        assert_eq!(press(Key::Char('0')), (Next::Continue, None, 0, true));
        assert_eq!(press(Key::Up).2, 0);
        assert_eq!(press(Key::Char('q')).0, Next::Leave);
        assert_eq!(shown.on(Key::Interrupt), Next::Interrupted);
        shown.first_row = 9;
        shown.keep_within(4);
        assert_eq!(shown.first_row, 4);
    }
}
