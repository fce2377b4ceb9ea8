//! Selects the device counts to report.

use covalent_api::status::DEVICE_COUNTS_MAX;

/// Selects the counts of the whole device, in its driver's order, up to the number that fits in a
/// status. Counts of queues (`rx_q0_packets`) come by the hundred and are left out.
pub(super) fn reportable(counts: Vec<(String, u64)>) -> Vec<(String, u64)> {
    counts
        .into_iter()
        .filter(|(name, _)| !is_of_a_queue(name))
        .take(DEVICE_COUNTS_MAX)
        .collect()
}

/// A part of the name is a letter `q` and a number.
fn is_of_a_queue(name: &str) -> bool {
    name.split('_').any(|part| {
        part.strip_prefix('q').is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_counts_are_left_out_and_other_counts_are_bounded() {
        let counts = |names: &[&str]| {
            names
                .iter()
                .map(|name| ((*name).to_owned(), 1))
                .collect::<Vec<_>>()
        };
        let reported = reportable(counts(&[
            "rx_good_packets",
            "rx_q0_packets",
            "tx_q12_bytes",
            "rx_qos_drops",
            "q",
        ]));
        assert_eq!(reported, counts(&["rx_good_packets", "rx_qos_drops", "q"]));
        let many = (0..1000)
            .map(|number| (format!("count{number}"), number))
            .collect();
        assert_eq!(reportable(many).len(), DEVICE_COUNTS_MAX);
    }
}
