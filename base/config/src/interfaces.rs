//! `[node] interfaces`: ports that need nothing but the name of an interface.

use super::{
    port::{PortConfig, check_interface},
    table::Table,
};
use covalent_api::name;

/// The key `interfaces`: for each, a port of the kind `af_xdp` with the interface's name and all
/// defaults.
pub(super) fn read(table: &mut Table<'_, '_>) -> Vec<PortConfig> {
    const EXPECTED: &str = "the name of a network interface, as `ip link` shows it";
    let names = table.texts("interfaces", EXPECTED).unwrap_or_default();
    for name in &names {
        if let Err(message) = check_interface(name) {
            table.refuse("interfaces", message);
        } else if let Err(problem) = name::check(name) {
            table.refuse(
                "interfaces",
                format!(
                    "{name:?} cannot be the name of a port: {problem}; write a `[[port]]` with \
                     another `name` for this interface"
                ),
            );
        }
    }
    names.into_iter().map(PortConfig::of_interface).collect()
}
