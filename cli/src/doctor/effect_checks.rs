//! The modes in effect on a running node, read back by the daemon: reports where a slower mode was
//! silently selected.

use covalent_api::status::{PortMode, PortStatus};
use covalent_config::{Config, CopyMode, HugePages, PortKind, XdpMode};

use super::{
    driver,
    facts::{Named, Running},
    finding::Finding,
};
use crate::status;

/// Size of a huge page, in bytes.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Returns the findings for each AF_XDP port that has a device.
pub fn modes(config: &Config, named: &Named, running: &Running) -> Vec<Finding> {
    let opened = |port: &&PortStatus| port.kind == "af_xdp" && port.absent.is_none();
    let ports = running.after.ports.iter().filter(opened);
    ports
        .flat_map(|port| {
            let driver = named
                .interfaces
                .iter()
                .find(|it| it.port == port.name)
                .and_then(|it| it.driver.as_deref());
            [mode(config, port, driver), pages(config, port)]
        })
        .collect()
}

/// Returns the configured XDP hook and copy mode. A port that is not in the file has none, and any
/// mode is accepted.
fn wanted(config: &Config, port: &PortStatus) -> Option<(XdpMode, CopyMode)> {
    let kinds = config.port.iter().filter(|it| it.name == port.name);
    kinds
        .filter_map(|it| match it.kind {
            PortKind::AfXdp { xdp, copy, .. } => Some((xdp, copy)),
            _ => None,
        })
        .next()
}

fn mode(config: &Config, port: &PortStatus, driver: Option<&str>) -> Finding {
    let check = format!("port {}: mode in effect", port.name);
    let PortMode {
        xdp,
        zero_copy,
        need_wakeup,
        ..
    } = &port.mode;
    let interface = port.interface.as_deref().unwrap_or("its interface");
    let found = status::mode(&port.kind, &port.mode);
    let wanted = wanted(config, port);
    let wants_best_xdp = wanted.is_some_and(|(xdp, _)| xdp == XdpMode::Auto);
    let wants_best_copy = wanted.is_some_and(|(_, copy)| copy == CopyMode::Auto);
    let of_driver = driver.map_or_else(String::new, |driver| format!(" (driver {driver})"));
    if xdp == "generic" && wants_best_xdp {
        return Finding::warning(
            check,
            format!(
                "{found}: {interface}{of_driver} did not take the program in native mode, so the \
                 kernel's generic path is used, which is several times slower"
            ),
            "with xdp = \"native\" the start reports the reason; `ethtool -i` shows the driver; \
             set xdp = \"generic\" if this is intended",
        );
    }
    if !need_wakeup {
        return Finding::warning(
            check,
            format!(
                "{found}: the kernel does not request wakeups (need_wakeup), so each burst costs a \
                 system call"
            ),
            "a newer kernel or driver for the interface; `covalent status` shows need_wakeup in \
             `mode`",
        );
    }
    if !zero_copy && wants_best_copy && !driver::never_without_copies(driver) {
        return Finding::warning(
            check,
            format!(
                "{found}: {interface}{of_driver} gave no zero-copy, so the kernel copies each frame"
            ),
            "with copy = \"zero_copy\" the start reports the reason; set copy = \"copy\" if this \
             is intended",
        );
    }
    Finding::fine(check, found)
}

fn pages(config: &Config, port: &PortStatus) -> Finding {
    let check = format!("port {}: pages in effect", port.name);
    let kib = port.mode.page_bytes >> 10;
    let found = format!("packet memory in pages of {kib} KiB");
    if port.mode.page_bytes >= HUGE_PAGE_BYTES || config.dataplane.huge_pages == HugePages::Never {
        return Finding::fine(check, found);
    }
    Finding::warning(
        check,
        format!(
            "{found}, which are slower: too few huge pages of 2 MiB were free when it was opened"
        ),
        "sysctl -w vm.nr_hugepages=256, then restart covalentd; or accept it: \
         dataplane.huge_pages = \"never\"",
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    fn findings(driver: &str, change: impl FnOnce(&mut Config, &mut PortMode)) -> Vec<Finding> {
        let mut config = samples::af_xdp_config();
        let mut running = samples::running();
        running.after.ports[0].mode = PortMode {
            xdp: "native".into(),
            zero_copy: true,
            need_wakeup: true,
            page_bytes: HUGE_PAGE_BYTES,
            queues: 2,
        };
        change(&mut config, &mut running.after.ports[0].mode);
        let mut named = Named {
            interfaces: vec![samples::interface()],
            ..Named::default()
        };
        named.interfaces[0].driver = Some(driver.into());
        modes(&config, &named, &running)
    }

    fn set(config: &mut Config, to: (XdpMode, CopyMode)) {
        let PortKind::AfXdp { xdp, copy, .. } = &mut config.port[0].kind else {
            unreachable!("the sample is AF_XDP")
        };
        (*xdp, *copy) = to;
    }

    #[test]
    fn the_effective_mode_is_reported_and_a_silent_fallback_is_a_finding() {
        let fine = findings("ice", |_, _| {});
        assert!(
            fine.iter().all(|finding| finding.level == Level::Fine),
            "{fine:?}"
        );
        assert!(fine[0].found.contains("zero-copy"), "{fine:?}");
        let copies = findings("ice", |_, mode| mode.zero_copy = false);
        assert_eq!(copies[0].level, Level::Warning);
        assert!(copies[0].found.contains("driver ice") && copies[0].cure.contains("zero_copy"));
        let veth = findings("veth", |_, mode| mode.zero_copy = false);
        assert_eq!(veth[0].level, Level::Fine, "it has none");
        let meant = findings("ice", |config, mode| {
            mode.zero_copy = false;
            set(config, (XdpMode::Auto, CopyMode::Copy));
        });
        assert_eq!(meant[0].level, Level::Fine);
        let generic = findings("e1000e", |_, mode| mode.xdp = "generic".into());
        assert!(generic[0].level == Level::Warning && generic[0].cure.contains("native"));
        let meant = findings("e1000e", |config, mode| {
            (mode.xdp, mode.zero_copy) = ("generic".into(), false);
            set(config, (XdpMode::Generic, CopyMode::Copy));
        });
        assert_eq!(meant[0].level, Level::Fine);
        let kicked = findings("ice", |_, mode| mode.need_wakeup = false);
        assert!(kicked[0].level == Level::Warning && kicked[0].found.contains("need_wakeup"));
    }

    #[test]
    fn a_port_that_is_not_in_the_file_may_have_any_mode() {
        let other = findings("ice", |config, mode| {
            (mode.xdp, mode.zero_copy) = ("generic".into(), false);
            config.port[0].name = "renamed".into();
        });
        assert_eq!(other[0].level, Level::Fine, "{other:?}");
    }

    #[test]
    fn small_pages_are_reported_unless_configured() {
        let small = findings("ice", |_, mode| mode.page_bytes = 4096);
        assert!(
            small[1].level == Level::Warning && small[1].found.contains("4 KiB"),
            "{small:?}"
        );
        let meant = findings("ice", |config, mode| {
            mode.page_bytes = 4096;
            config.dataplane.huge_pages = HugePages::Never;
        });
        assert_eq!(meant[1].level, Level::Fine);
    }
}
