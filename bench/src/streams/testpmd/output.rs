//! Parsers for testpmd's output.

/// Returns the packets per second from a line of `show port stats`, since the previous such
/// command.
pub fn packets_per_second(line: &str) -> Option<f64> {
    let rest = line.trim().strip_prefix("Rx-pps:")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// All packets received so far, from a line of `show port stats`.
pub fn packets_received(line: &str) -> Option<u64> {
    let rest = line.trim().strip_prefix("RX-packets:")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns whether a line of `show port info` reports the link as up or down.
pub fn link_is_up(line: &str) -> Option<bool> {
    match line.trim().strip_prefix("Link status:")?.trim() {
        "up" => Some(true),
        "down" => Some(false),
        _ => None,
    }
}

/// `Some` of the last line of `stop`.
pub fn is_done(line: &str) -> Option<()> {
    (line.trim() == "Done.").then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of testpmd 22.11 for `show port stats 0`.
    const STATS: &str = "
  ######################## NIC statistics for port 0  ########################
  RX-packets: 3213824    RX-missed: 0          RX-bytes:  205684736
  RX-errors: 0
  RX-nombuf:  0         
  TX-packets: 3214848    TX-errors: 0          TX-bytes:  205750272

  Throughput (since last show)
  Rx-pps:     11750669          Rx-bps:   6016353160
  Tx-pps:     11750637          Tx-bps:   6016336776
  ############################################################################
";

    #[test]
    fn the_rate_is_that_of_receiving() {
        let rates: Vec<f64> = STATS.lines().filter_map(packets_per_second).collect();
        assert_eq!(rates, [11_750_669.0]);
        assert_eq!(packets_per_second("  Rx-pps:  "), None);
        let counts: Vec<u64> = STATS.lines().filter_map(packets_received).collect();
        assert_eq!(counts, [3_213_824]);
    }

    #[test]
    fn forwarding_is_over_when_it_is_done() {
        let stop = "Telling cores to ...stop\nWaiting for lcores to finish...\n\nDone.\n";
        assert_eq!(stop.lines().filter_map(is_done).count(), 1);
        assert_eq!(is_done("Done"), None);
    }

    #[test]
    fn links_are_up_or_down() {
        let info =
            "Link status: up\nLink speed: 10 Gbps\nLink status: down\nLink duplex: full-duplex";
        let links: Vec<bool> = info.lines().filter_map(link_is_up).collect();
        assert_eq!(links, [true, false]);
    }
}
