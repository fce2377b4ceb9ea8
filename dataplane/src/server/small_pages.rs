//! The log text for pipes that could have huge pages and do not.

use covalent_api::request::PipeKind;
use covalent_config::HugePages;

/// A huge page, in bytes.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Returns the advice for a pipe of `capacity_bytes` in pages of `page_bytes`. `None` if nothing is
/// wrong: the pipe has huge pages, is smaller than one, or was configured without.
pub(super) fn advice(
    wanted: HugePages,
    kind: PipeKind,
    capacity_bytes: u64,
    page_bytes: u64,
) -> Option<String> {
    if wanted == HugePages::Never
        || capacity_bytes < HUGE_PAGE_BYTES
        || page_bytes >= HUGE_PAGE_BYTES
    {
        return None;
    }
    let pages = capacity_bytes / HUGE_PAGE_BYTES;
    Some(match kind {
        PipeKind::Rx | PipeKind::RxBytes | PipeKind::VerbComplete => format!(
            "reserve {pages} more pages of 2 MiB for it, by `vm.nr_hugepages` (see `sysctl`), then \
             open the pipe again"
        ),
        // Memory that an application can write never lies in reserved pages.
        PipeKind::Tx | PipeKind::RxTx | PipeKind::VerbSubmit => format!(
            "the kernel (Linux 6.1 or later) found no {pages} free pages of 2 MiB for it: free \
             memory, or compact it by writing 1 to /proc/sys/vm/compact_memory, then open the pipe \
             again; `vm.nr_hugepages` does not help memory that applications can write"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_if_wanted_huge_pages_are_missing() {
        let of = |wanted, kind, capacity| advice(wanted, kind, capacity, 4096);
        let rx = of(HugePages::Auto, PipeKind::Rx, 16 << 20);
        assert!(
            rx.is_some_and(|text| text.contains("reserve 8 ") && text.contains("nr_hugepages"))
        );
        let tx = of(HugePages::Auto, PipeKind::Tx, 2 << 20);
        assert!(tx.is_some_and(|text| text.contains("compact_memory")));
        assert_eq!(of(HugePages::Auto, PipeKind::Rx, 1 << 20), None, "small");
        assert_eq!(
            of(HugePages::Never, PipeKind::Rx, 2 << 20),
            None,
            "unwanted"
        );
        let huge = advice(HugePages::Auto, PipeKind::Rx, 2 << 20, 2 << 20);
        assert_eq!(huge, None, "there");
    }
}
