//! A terminal that tmux plays.

use std::process::{Command, Stdio};

use super::{node::PATIENCE, wait_until};

/// A terminal of its own server, which ends with it.
pub struct Terminal {
    server: String,
    _place: tempfile::TempDir,
}

impl Terminal {
    /// A shell on it; `None` where there is no tmux.
    pub fn open() -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: there is no tmux");
            return None;
        }
        let place = tempfile::tempdir().expect("tmux");
        let server = place.path().join("tmux").display().to_string();
        let terminal = Self {
            server,
            _place: place,
        };
        let output = terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "170",
            "-y",
            "50",
            "env PS1='ready> ' sh",
        ]);
        assert!(output.is_some());
        terminal.wait_for("ready>");
        Some(terminal)
    }

    /// Returns tmux's output for a command, or `None` if it fails.
    ///
    /// # Panics
    /// If tmux is not installed.
    pub fn tmux(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("tmux")
            .args(["-S", &self.server])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env_remove("TMUX")
            .stdin(Stdio::null())
            .output()
            .expect("tmux");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(printed)
    }

    /// Returns its contents.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).expect("tmux")
    }

    /// With its colors.
    pub fn colors(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"]).expect("tmux")
    }

    /// Presses keys.
    pub fn send(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).expect("tmux");
    }

    /// Types a line.
    pub fn run(&self, line: &str) {
        self.send(&["-l", line]);
        self.send(&["Enter"]);
    }

    /// Waits until this is on it.
    pub fn wait_for(&self, wanted: &str) {
        let mut screen = String::new();
        wait_until(wanted, PATIENCE, || {
            screen = self.screen();
            screen.contains(wanted)
        });
    }

    /// Waits until the terminal is restored and the shell is back: lines are echoed, the cursor is
    /// visible, and the alternate screen is gone. Type only then: the exiting program consumes
    /// earlier input.
    pub fn wait_until_restored(&self, mark: &str) {
        self.run(&format!("stty -a; echo {mark}-$((6 * 7))"));
        self.wait_for(&format!("{mark}-42"));
        let screen = self.screen();
        assert!(
            screen.contains(" icanon") && screen.contains(" echo "),
            "{screen}"
        );
        let flags = self
            .tmux(&["display-message", "-p", "#{cursor_flag} #{alternate_on}"])
            .expect("tmux");
        assert_eq!(flags.trim(), "1 0", "{screen}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
