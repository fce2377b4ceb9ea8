//! Checks the output of programs in a guest and converts it to facts.

use std::{fmt::Write, fs, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

/// Compares a bank's books with its clients' reports: every addition was executed exactly once, and
/// the total amount did not change.
///
/// # Errors
/// The entries that do not match.
pub fn check(bank: &Path, clients: &[impl AsRef<Path>]) -> Result<()> {
    let books = report(bank)?;
    let reports: Vec<Value> = clients
        .iter()
        .map(|client| report(client.as_ref()))
        .collect::<Result<_>>()?;
    agree(&books, &reports)
}

/// The object of the type `report` among the lines of a program's output.
fn report(file: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|value| value["type"] == "report")
        .ok_or_else(|| anyhow!("{} has no report", file.display()))
}

fn number(report: &Value, name: &str) -> Result<u64> {
    report[name]
        .as_u64()
        .ok_or_else(|| anyhow!("a report has no number `{name}`"))
}

/// The sums over all clients prove exactness: see `covalent-bank client --help`.
fn agree(books: &Value, clients: &[Value]) -> Result<()> {
    let sum = |name: &str| {
        clients.iter().try_fold(0_u64, |sum, client| {
            Ok::<_, anyhow::Error>(sum.wrapping_add(number(client, name)?))
        })
    };
    let counter = number(books, "counter")?;
    let square = counter.wrapping_mul(counter);
    let locks = sum("locks")?;
    for (what, found, wanted) in [
        ("the counter", counter, sum("delta_sum")?),
        ("its square", square, sum("squares")?),
        ("its cube", square.wrapping_mul(counter), sum("cubes")?),
        ("values handed out twice", sum("overlaps")?, 0),
        (
            "the sum of all accounts",
            number(books, "accounts_sum")?,
            number(books, "accounts_sum_expected")?,
        ),
        ("the lock", number(books, "lock")?, 0),
    ] {
        if found != wanted {
            bail!("{what}: {found} in the books, {wanted} by the clients");
        }
    }
    if books["guarded"] != serde_json::json!([locks, locks]) {
        bail!("{} sections under the lock, {}", locks, books["guarded"]);
    }
    if let Some(client) = clients.iter().find(|client| client["complete"] != true) {
        bail!("a client did not complete its work: {client}");
    }
    Ok(())
}

/// The summary of a demonstration as facts, one a line.
///
/// # Errors
/// When the file is none.
pub fn demonstration(summary: &Path) -> Result<String> {
    let text = fs::read_to_string(summary)
        .with_context(|| format!("cannot read {}", summary.display()))?;
    let summary: Value =
        serde_json::from_str(&text).context("the demonstration printed no summary")?;
    facts(&summary)
}

fn facts(summary: &Value) -> Result<String> {
    let checks = summary["checks"]
        .as_array()
        .ok_or_else(|| anyhow!("a demonstration without checks"))?;
    let ports = summary["ports"]
        .as_array()
        .ok_or_else(|| anyhow!("a demonstration without ports"))?;
    let mut modes: Vec<String> = ports
        .iter()
        .map(|port| {
            let mode = &port["mode"];
            let copy = if mode["zero_copy"] == true {
                "zero-copy"
            } else {
                "copy"
            };
            format!("AF_XDP {} {copy}", mode["xdp"].as_str().unwrap_or("?"))
        })
        .collect();
    modes.dedup();
    let mut facts_text = format!("mode {}\n", modes.join(", "));
    let _ = writeln!(facts_text, "checks {}", checks.len());
    for check in checks.iter().filter(|check| check["passed"] != true) {
        let _ = writeln!(facts_text, "failed {check}");
    }
    Ok(facts_text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn client(delta_sum: u64, squares: u64, cubes: u64) -> Value {
        json!({
            "delta_sum": delta_sum,
            "squares": squares,
            "cubes": cubes,
            "overlaps": 0,
            "locks": 1,
            "complete": true,
        })
    }

    #[test]
    fn books_agree_only_if_every_addition_happened_once() {
        let books = json!({
            "counter": 3,
            "accounts_sum": 10,
            "accounts_sum_expected": 10,
            "lock": 0,
            "guarded": [2, 2],
        });
        // One client was handed 0 and 1, the other 2.
        let clients = [client(2, 4, 8), client(1, 5, 19)];
        agree(&books, &clients).expect("they agree");
        assert!(
            agree(&books, &clients[..1]).is_err(),
            "one addition belongs to no client"
        );
        // Both were handed 1: the sum alone would not show it.
        assert!(agree(&books, &[client(2, 4, 8), client(1, 3, 7)]).is_err());
        let mut unfinished = clients.clone();
        unfinished[0]["complete"] = json!(false);
        assert!(agree(&books, &unfinished).is_err());
        let mut poor = books.clone();
        poor["accounts_sum"] = json!(9);
        assert!(agree(&poor, &clients).is_err());
    }

    #[test]
    fn a_demonstration_has_its_modes_and_failed_checks() {
        let port = |zero_copy| json!({ "mode": { "xdp": "native", "zero_copy": zero_copy } });
        let summary = json!({
            "checks": [{ "passed": true }, { "passed": false, "name": "cut" }],
            "ports": [port(true), port(true)],
        });
        let facts_text = facts(&summary).expect("a summary");
        assert!(
            facts_text.starts_with("mode AF_XDP native zero-copy\nchecks 2\nfailed {"),
            "{facts_text}"
        );
        assert!(facts(&json!({})).is_err());
    }
}
