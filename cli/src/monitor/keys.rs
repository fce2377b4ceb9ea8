//! What is shown, and what keys do to it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

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
    /// What did not go through.
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

/// What is shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// One part alone.
    pub alone: Option<Part>,
    /// Its first row that is shown.
    pub first_row: usize,
    /// The picture stays as it is.
    pub held: bool,
}

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// On with it.
    Stay,
    /// The command ends.
    Leave,
    /// It ends as if by SIGINT.
    Interrupted,
}

impl Shown {
    /// Does what `key` is for.
    pub fn on(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Stay;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Next::Interrupted,
            KeyCode::Char('q') => return Next::Leave,
            KeyCode::Char(' ') => self.held = !self.held,
            KeyCode::Char('0') | KeyCode::Esc => self.show(None),
            KeyCode::Char(digit @ '1'..='5') => {
                let place = digit as usize - '1' as usize;
                self.show(Part::ALL.get(place).copied());
            }
            KeyCode::Down | KeyCode::Char('j') => self.first_row += 1,
            KeyCode::Up | KeyCode::Char('k') => self.first_row = self.first_row.saturating_sub(1),
            _ => {}
        }
        Next::Stay
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
    fn keys_do_what_the_footer_says() {
        let mut shown = Shown::default();
        let mut press = |code| {
            let next = shown.on(KeyEvent::new(code, KeyModifiers::NONE));
            (next, shown.alone, shown.first_row, shown.held)
        };
        assert_eq!(
            press(KeyCode::Char('3')),
            (Next::Stay, Some(Part::Links), 0, false)
        );
        assert_eq!(press(KeyCode::Down).2, 1);
        assert_eq!(press(KeyCode::Char('j')).2, 2);
        assert_eq!(press(KeyCode::Char('k')).2, 1);
        assert_eq!(
            press(KeyCode::Char(' ')),
            (Next::Stay, Some(Part::Links), 1, true)
        );
        assert_eq!(press(KeyCode::Char('0')), (Next::Stay, None, 0, true));
        assert_eq!(press(KeyCode::Up).2, 0);
        assert_eq!(press(KeyCode::Char('q')).0, Next::Leave);
        let interrupted = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(shown.on(interrupted), Next::Interrupted);
        shown.first_row = 9;
        shown.keep_within(4);
        assert_eq!(shown.first_row, 4);
    }
}
