//! The command line of `rx`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::Wire;

/// Receiving from a virtual cable.
#[derive(Debug, Args)]
pub struct Rx {
    /// How it is measured.
    #[command(flatten)]
    pub wire: Wire,
    /// Measures at 64 bytes and on a mix, against a bare AF_XDP receiver, DPDK's net_af_xdp and net_af_packet and a kernel AF_PACKET ring:
    /// at least 0.97 of the bare one, and never below DPDK's.
    #[arg(long)]
    pub peers: bool,
    /// Only contestants whose name has one of these in it.
    #[arg(long, value_delimiter = ',', value_name = "NAME", requires = "peers")]
    pub only: Vec<String>,
    /// Only these frame sizes: `64` or `mix`.
    #[arg(long, value_delimiter = ',', value_name = "SIZE", requires = "peers")]
    pub sizes: Vec<String>,
    /// Folder with captures for the mix; `../shared/data` if it is there, else a built-in sample.
    #[arg(
        long,
        value_name = "DIR",
        env = "COVALENT_BENCH_CAPTURES",
        requires = "peers"
    )]
    pub captures: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::arguments::Arguments;

    #[test]
    fn what_is_only_for_peers_asks_for_them() {
        let parse = |options: &[&str]| {
            let line = ["covalent-bench", "rx"].iter().chain(options);
            Arguments::try_parse_from(line)
        };
        assert!(parse(&["--peers", "--only", "dpdk", "--seconds", "2"]).is_ok());
        assert!(parse(&[]).is_ok());
        let problem = parse(&["--only", "dpdk"])
            .expect_err("no peers")
            .to_string();
        assert!(problem.contains("--peers"), "{problem}");
    }
}
