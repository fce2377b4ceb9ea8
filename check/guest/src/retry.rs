//! Formats the output of `covalent-bench loss` in a guest: which side waits for a timer when frames
//! are lost, and how long.

use std::{fmt::Write, fs, path::Path};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{outcome::Outcome, roce::bold};

/// The fact that holds them.
const FACT: &str = "retry";

/// All figures of the tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Requests a second that were due.
    rate_per_s: f64,
    /// How long the cable was cut each time.
    cut_ms: u64,
    /// The sides, in order, each with its description.
    sides: Vec<(String, String)>,
    losses: Vec<Lossy>,
    cuts: Vec<Cut>,
}

/// One side under one loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Lossy {
    side: String,
    parts_per_million: u64,
    /// On the way there and back.
    lost_frames: u64,
    requests: u64,
    /// Never answered.
    lost: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

/// One side on a cable that is cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cut {
    side: String,
    /// `silent` or `carrier`.
    way: String,
    cuts: u64,
    /// Requests that were never answered over the whole run.
    lost: u64,
    /// From the mending to the first answer: median, least, most.
    recovered_ms: [f64; 3],
    /// The longest wait of a request around a cut: median, least, most.
    longest_ms: [f64; 3],
}

/// The figures of a result of `covalent-bench loss`, as a fact.
///
/// # Errors
/// When the file is none.
pub fn fact(results: &Path) -> Result<String> {
    let text = fs::read_to_string(results)
        .with_context(|| format!("cannot read {}", results.display()))?;
    let results: Value = serde_json::from_str(&text).context("no result of the losses")?;
    Ok(format!(
        "{FACT} {}\n",
        serde_json::to_string(&figures(&results)?)?
    ))
}

fn figures(results: &Value) -> Result<Figures> {
    let list = |name: &str| {
        results[name]
            .as_array()
            .ok_or_else(|| anyhow!("there is no list `{name}`"))
    };
    let sides = list("contestants")?;
    if let Some(side) = sides.iter().find(|side| side["absent"].is_string()) {
        bail!("{} took no part: {}", side["name"], side["absent"]);
    }
    for name in ["losses", "cuts"] {
        let rows = list(name)?.len();
        ensure!(
            rows > 0 && rows.is_multiple_of(sides.len()),
            "{} sides, but {rows} rows of {name}: some side failed",
            sides.len()
        );
    }
    Ok(Figures {
        rate_per_s: float(&results["setup"]["pacing"]["open"], "rate_per_s")?,
        cut_ms: whole(&results["setup"], "cut_ms")?,
        sides: list("contestants")?
            .iter()
            .map(side)
            .collect::<Result<_>>()?,
        losses: list("losses")?.iter().map(lossy).collect::<Result<_>>()?,
        cuts: list("cuts")?.iter().map(cut).collect::<Result<_>>()?,
    })
}

fn side(entry: &Value) -> Result<(String, String)> {
    let words = |name: &str| entry["description"][name].as_str().unwrap_or_default();
    let mut description = format!("{}; {}", words("what"), words("tuning"));
    if let Some(failures) = entry["failures"].as_array()
        && let Some(first) = failures.first()
    {
        let _ = write!(
            description,
            "; {} repeats failed, the first: {first}",
            failures.len()
        );
    }
    Ok((text(entry, "name")?, description))
}

fn lossy(one: &Value) -> Result<Lossy> {
    let (figures, times) = (&one["figures"], &one["figures"]["times_us"]);
    let lost_frames: [u64; 2] = serde_json::from_value(one["lost_frames"].clone())
        .context("frames that were lost there and back")?;
    Ok(Lossy {
        side: text(figures, "side")?,
        parts_per_million: whole(one, "parts_per_million")?,
        lost_frames: lost_frames.iter().sum(),
        requests: whole(figures, "requests")?,
        lost: whole(figures, "lost")?,
        p50_us: float(times, "typical")?,
        p99_us: float(times, "p99")?,
        p999_us: float(times, "p999")?,
        max_us: float(times, "max")?,
    })
}

fn cut(one: &Value) -> Result<Cut> {
    let three = |name: &str| {
        let summary = &one[name];
        Ok::<_, anyhow::Error>([
            float(summary, "median")?,
            float(summary, "min")?,
            float(summary, "max")?,
        ])
    };
    let cuts = one["recovered_ms"]["repeats"]
        .as_array()
        .map_or(0, Vec::len);
    Ok(Cut {
        side: text(&one["figures"], "side")?,
        way: text(one, "way")?,
        cuts: cuts as u64,
        lost: whole(&one["figures"], "lost")?,
        recovered_ms: three("recovered_ms")?,
        longest_ms: three("longest_ms")?,
    })
}

fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str();
    text.map(str::to_owned)
        .ok_or_else(|| anyhow!("there is no text `{name}`"))
}

fn whole(value: &Value, name: &str) -> Result<u64> {
    value[name]
        .as_u64()
        .ok_or_else(|| anyhow!("there is no number `{name}`"))
}

fn float(value: &Value, name: &str) -> Result<f64> {
    value[name]
        .as_f64()
        .ok_or_else(|| anyhow!("there is no number `{name}`"))
}

/// A section of the page for each outcome that has such figures.
pub fn section(outcomes: &[Outcome]) -> Result<String> {
    let mut out = String::new();
    for outcome in outcomes {
        let Some(fact) = outcome.facts.get(FACT) else {
            continue;
        };
        let figures: Figures = serde_json::from_value(fact.clone())
            .with_context(|| format!("figures of {}", outcome.job))?;
        write_section(&mut out, &outcome.kernel, &figures);
    }
    Ok(out)
}

fn write_section(out: &mut String, kernel: &str, figures: &Figures) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "\n## When frames are lost: waits for a timer, kernel {kernel}\n\n\
         One guest has one cable, whose frames are lost with the same probability for all\n\
         sides, each way. {:.0} requests of 8 bytes per second are due, and each counts from\n\
         its due time. The machine is emulated: a side's figures at 0 % are those of the\n\
         machine, and only the excess over them shows the effect of losses. p99.9 covers the\n\
         few slowest requests of one cell (`All figures`); only those wait for a lost reply.",
        figures.rate_per_s
    );
    let mut parts: Vec<u64> = figures
        .losses
        .iter()
        .map(|one| one.parts_per_million)
        .collect();
    parts.sort_unstable();
    parts.dedup();
    let _ = writeln!(
        out,
        "\n### p99.9 and longest wait in milliseconds, by loss\n"
    );
    let percent = |parts: u64| format!("{} %", parts as f64 / 1e4);
    let head: Vec<String> = parts.iter().map(|&parts| percent(parts)).collect();
    let _ = writeln!(out, "| side | {} |", head.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(parts.len()));
    for (name, _) in &figures.sides {
        let cells: Vec<String> = parts
            .iter()
            .map(|&parts| {
                let found = figures
                    .losses
                    .iter()
                    .find(|one| one.side == *name && one.parts_per_million == parts);
                found.map_or_else(
                    || "–".to_owned(),
                    |one| {
                        let times = format!("{} / {}", ms(one.p999_us / 1e3), ms(one.max_us / 1e3));
                        if parts > 0 && one.lost_frames == 0 {
                            format!("{times} (no frame was lost)")
                        } else {
                            times
                        }
                    },
                )
            })
            .collect();
        let _ = writeln!(out, "| {} | {} |", named(name), cells.join(" | "));
    }
    if !figures.cuts.is_empty() {
        let _ = writeln!(
            out,
            "\n### Cut for {} ms: milliseconds from the repair to the first reply\n\n\
             Counted from the request to repair the cable. That includes the start of `nft` or\n\
             `ip`, for all sides alike, which takes long on an emulated machine. A few cuts\n\
             each: an indication.\n\n\
             | cut | side | cuts | first reply after (least–most) | longest wait of a request \
             (least–most) | never answered |\n\
             |---|---|---|---|---|---|",
            figures.cut_ms
        );
    }
    for cut in &figures.cuts {
        let three =
            |[median, min, max]: [f64; 3]| format!("{} ({}–{})", ms(median), ms(min), ms(max));
        let way = if cut.way == "silent" {
            "frames vanish"
        } else {
            "carrier lost"
        };
        let _ = writeln!(
            out,
            "| {way} | {} | {} | {} | {} | {} |",
            named(&cut.side),
            cut.cuts,
            three(cut.recovered_ms),
            three(cut.longest_ms),
            cut.lost
        );
    }
    let _ = writeln!(
        out,
        "\n### All figures\n\n\
         | loss | side | requests | frames lost | p50 ms | p99 ms | p99.9 ms | longest ms | never \
         answered |\n|---|---|---|---|---|---|---|---|---|"
    );
    for &parts in &parts {
        for one in figures
            .losses
            .iter()
            .filter(|one| one.parts_per_million == parts)
        {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                percent(parts),
                named(&one.side),
                one.requests,
                one.lost_frames,
                ms(one.p50_us / 1e3),
                ms(one.p99_us / 1e3),
                ms(one.p999_us / 1e3),
                ms(one.max_us / 1e3),
                one.lost
            );
        }
    }
    let _ = writeln!(out);
    for (name, description) in &figures.sides {
        let _ = writeln!(out, "- {}: {description}.", named(name));
    }
}

fn named(side: &str) -> String {
    bold(side, side.starts_with("covalent"))
}

/// Formats milliseconds with a meaningful number of digits.
fn ms(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results() -> Value {
        let figures = |side: &str, p999: f64| {
            json!({
                "side": side,
                "requests": 1000,
                "lost": 2,
                "times_us": { "typical": 80.0, "p99": 90.0, "p999": p999, "max": 4e5 },
            })
        };
        let summary =
            json!({ "median": 207.0, "min": 1.5, "max": 400.0, "repeats": [1.5, 207.0, 400.0] });
        json!({
            "setup": { "pacing": { "open": { "rate_per_s": 3000.0 } }, "cut_ms": 100 },
            "contestants": [
                {
                    "name": "covalent-cas",
                    "description": { "what": "a swap", "tuning": "lanes poll" },
                    "absent": null,
                    "failures": [],
                },
                {
                    "name": "tcp",
                    "description": { "what": "the kernel's", "tuning": "TCP_NODELAY" },
                    "absent": null,
                    "failures": ["late"],
                },
            ],
            "losses": [
                {
                    "parts_per_million": 100,
                    "lost_frames": [3, 4],
                    "figures": figures("covalent-cas", 900.0),
                },
                {
                    "parts_per_million": 100,
                    "lost_frames": [1, 1],
                    "figures": figures("tcp", 212_345.0),
                },
            ],
            "cuts": [
                {
                    "way": "silent",
                    "recovered_ms": summary,
                    "longest_ms": summary,
                    "figures": figures("covalent-cas", 1.0),
                },
                {
                    "way": "silent",
                    "recovered_ms": summary,
                    "longest_ms": summary,
                    "figures": figures("tcp", 1.0),
                },
            ],
        })
    }

    #[test]
    fn tails_and_recoveries_stand_side_by_side() {
        let mut text = String::new();
        write_section(&mut text, "6.1", &figures(&results()).expect("figures"));
        for line in [
            "| side | 0.01 % |\n",
            "| **covalent-cas** | 0.90 / 400 |\n| tcp | 212 / 400 |\n",
            "| frames vanish | tcp | 3 | 207 (1.50–400) | 207 (1.50–400) | 2 |\n",
            "| 0.01 % | **covalent-cas** | 1000 | 7 | 0.08 | 0.09 | 0.90 | 400 | 2 |\n",
            "- tcp: the kernel's; TCP_NODELAY; 1 repeats failed, the first: \"late\".",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn an_invalid_result_is_refused() {
        assert!(figures(&json!({})).is_err());
        let mut without = results();
        without["losses"][0]["figures"] = json!({});
        assert!(figures(&without).is_err());
    }

    #[test]
    fn a_side_that_was_not_measured_everywhere_is_no_result() {
        let mut absent = results();
        absent["contestants"][0]["absent"] = json!("no RDMA");
        assert!(figures(&absent).is_err());
        for name in ["losses", "cuts"] {
            let mut fewer = results();
            fewer[name].as_array_mut().expect("a list").pop();
            assert!(figures(&fewer).is_err(), "{name}");
        }
    }
}
