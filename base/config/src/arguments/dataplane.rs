use std::path::PathBuf;

use clap::{Parser, builder::BoolishValueParser};

use super::LogFormat;

/// Moves packets between ports and the pipes of applications, and executes verbs on their regions.
///
/// One daemon is one node. It reads one TOML file (`covalent config print-default` prints it with
/// every key explained). It opens the ports, and serves applications on `covalentd.sock` in the
/// node's runtime directory. It runs in the foreground and shuts down gracefully on SIGTERM or
/// SIGINT. It then leaves no socket, program or memory behind.
///
/// AF_XDP ports need CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK. Cable and
/// pcap ports need no capability.
#[derive(Debug, Parser)]
#[command(
    name = "covalentd",
    version,
    after_help = "Examples:\n  \
    covalentd --config /etc/covalent/covalent.toml --check   report what would prevent a start, \
    change nothing\n  \
    covalentd --config node.toml                             run\n  \
    RUST_LOG=debug covalentd --config node.toml              run, and log more"
)]
pub struct DataplaneArguments {
    /// The node's configuration.
    #[arg(
        long,
        value_name = "FILE",
        env = "COVALENT_CONFIG",
        default_value = "/etc/covalent/covalent.toml"
    )]
    pub config: PathBuf,
    /// Only check the configuration, and exit. Reports whether it is usable on this host, and
    /// whether a start would accept the node's journals. Needs no capability and changes nothing.
    /// Root and the daemon's user can read journals. Journals of a running daemon are skipped.
    #[arg(long)]
    pub check: bool,
    /// Accept a configuration whose ports damage their own frames (`[port.faults]`). For tests:
    /// without this option such a file is refused.
    #[arg(long, env = "COVALENT_ALLOW_FAULTS", value_parser = BoolishValueParser::new())]
    pub allow_faults: bool,
    /// Start although a journal has lost acknowledged data. Its files are renamed to
    /// `journal.N.lost-G`, and durable regions start with the intact data. Applies to one start:
    /// without this option such a journal is refused.
    #[arg(long, env = "COVALENT_ACCEPT_JOURNAL_LOSS", value_parser = BoolishValueParser::new())]
    pub accept_journal_loss: bool,
    /// How log lines look, and where they go. RUST_LOG chooses which (default: info).
    #[arg(long, value_enum, default_value = "auto", env = "COVALENT_LOG_FORMAT")]
    pub log_format: LogFormat,
}
