//! The terminal while it is ours.

use std::{io, thread};

use ratatui::{DefaultTerminal, Frame};

/// A terminal that was taken over, and is given back when this is dropped, or when anything panics.
pub struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes over the terminal of standard output.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn take() -> io::Result<Self> {
        // Its panic hook restores the terminal before a panic is reported.
        Ok(Self {
            terminal: ratatui::try_init()?,
        })
    }

    /// Draws a picture.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // After a panic, the hook has done this. A second restore would move the cursor above the
        // panic message.
        if !thread::panicking() {
            ratatui::restore();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test of the whole command runs this on a terminal and checks the state of the terminal
    /// afterwards.
    #[test]
    #[ignore = "it panics on purpose, on its own terminal"]
    fn panics_on_a_terminal() {
        let _screen = Screen::take().expect("a terminal");
        panic!("on purpose");
    }
}
