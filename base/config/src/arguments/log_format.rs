use clap::ValueEnum;

/// How a log line looks, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Journald format with fields if systemd connects standard error to the journal
    /// (JOURNAL_STREAM), otherwise human-readable text.
    Auto,
    /// For people, on standard error.
    Text,
    /// One JSON object per line, on standard error.
    Json,
    /// For journald, with fields: `journalctl COVALENT_PORT=p0`.
    Journald,
}
