//! Huge pages of the host, reserved by a test and given back.

use std::fs::{self, File};

const PLACE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Huge pages for a test, reserved if it runs as root. Other tests and benchmarks that change their
/// number wait meanwhile. Otherwise each would restore a number that another had set.
pub struct Reserved {
    before: Option<u64>,
    _turn: Option<File>,
}

impl Reserved {
    pub fn more(pages: u64) -> Self {
        let turn = File::open(pool()).ok();
        let turn = turn.filter(|file| file.lock().is_ok());
        // Surplus pages disappear with their user. Restoring a number that includes them would keep
        // them.
        let before = read("nr_hugepages").zip(read("surplus_hugepages"));
        let before = before.map(|(all, surplus)| all.saturating_sub(surplus));
        let reserve = |&before: &u64| fs::write(pool(), (before + pages).to_string()).is_ok();
        Self {
            before: before.filter(reserve),
            _turn: turn,
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            fs::write(pool(), before.to_string()).unwrap();
        }
    }
}

fn pool() -> String {
    format!("{PLACE}/nr_hugepages")
}

fn read(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("{PLACE}/{name}")).ok()?;
    text.trim().parse().ok()
}
