use clap::ValueEnum;

/// How a log line looks, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For journald with fields where systemd says that standard error leads there (JOURNAL_STREAM), else for people.
    Auto,
    /// For people, on standard error.
    Text,
    /// One JSON object per line, on standard error.
    Json,
    /// For journald, with fields: `journalctl COVALENT_PORT=p0`.
    Journald,
}
