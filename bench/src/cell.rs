//! The text of table cells, for the terminal and for the page.

use covalent::status::PortMode;

/// How a port's frames come and go, as it was read back.
pub fn mode(mode: &PortMode) -> String {
    format!(
        "{} XDP, {}, need_wakeup {}, {} queue(s), pages of {} bytes",
        mode.xdp,
        if mode.zero_copy { "zero-copy" } else { "copy" },
        mode.need_wakeup,
        mode.queues,
        mode.page_bytes
    )
}

/// A figure with so many digits behind the point; a dash where there is none.
pub fn figure(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
}

/// Whether a goal was met, at a terminal.
pub const fn met(met: bool) -> &'static str {
    if met { "met" } else { "NOT MET" }
}

/// Whether a goal was met, on the page.
pub const fn met_on_page(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}
