//! The text of table cells, for the terminal and for the page.

use covalent::status::PortMode;

use crate::summary::Summary;

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

/// Three significant figures.
pub fn short(figure: f64) -> String {
    let decimals = match figure.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{figure:.decimals$}")
}

/// A figure with so many digits behind the point; a dash where there is none.
pub fn figure(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
}

/// A median with the least and the most, with so many digits behind the point.
pub fn range(figures: &Summary, digits: usize) -> String {
    let Summary {
        median, min, max, ..
    } = figures;
    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
}

/// The name of a side, on the page; Covalent's stand out.
pub fn side_name(side: &str) -> String {
    if side.starts_with("covalent") {
        format!("**{side}**")
    } else {
        side.to_owned()
    }
}

/// Whether a goal was met, at a terminal.
pub const fn met(met: bool) -> &'static str {
    if met { "met" } else { "NOT MET" }
}

/// Whether a goal was met, on the page.
pub const fn met_on_page(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}
