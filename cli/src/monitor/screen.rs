//! The terminal while it is ours.

use std::{io, thread};

use ratatui::{DefaultTerminal, Frame};

/// A terminal that was taken over, and is given back when this is dropped, or when anything panics.
pub struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal of standard output over.
    ///
    /// # Errors
    /// What the system says.
    pub fn take() -> io::Result<Self> {
        // Its hook gives the terminal back before a panic is told.
        Ok(Self {
            terminal: ratatui::try_init()?,
        })
    }

    /// Draws a picture.
    ///
    /// # Errors
    /// What the system says.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A panic's hook has done it; a second time would put the cursor back to above what the panic said.
        if !thread::panicking() {
            ratatui::restore();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run on a terminal by the test of the whole command, which sees what is left of it.
    #[test]
    #[ignore = "it panics on purpose, on a terminal of its own"]
    fn panics_on_a_terminal() {
        let _screen = Screen::take().expect("a terminal");
        panic!("on purpose");
    }
}
