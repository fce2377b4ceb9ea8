//! Soft-RoCE beside Covalent in one guest: the output of `covalent-bench` and perftest, compared,
//! with verdicts on the goals.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::Outcome;

/// The fact that holds them.
const FACT: &str = "roce";

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    latencies: Vec<Latency>,
    rates: Vec<Rate>,
    goals: Vec<Goal>,
}

/// A middle one and the ends of several repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    repeats: usize,
}

/// Whole round trips, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Latency {
    side: String,
    bytes: u64,
    p50_us: Spread,
    p999_us: f64,
    /// Whether it is Covalent's.
    ours: bool,
}

/// Millions of atomics a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Rate {
    side: String,
    mops: Spread,
    ours: bool,
}

/// A goal and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Goal {
    goal: String,
    found: f64,
    met: bool,
}

/// Where our verb is submitted. An application is a separate process from its lane, and with two
/// cores it shares one with the lane. The kernel's own device, and perftest with it, has no second
/// process.
#[derive(Debug, Clone, Copy)]
struct Requester {
    words: &'static str,
    /// Its compare-and-swap among the latencies.
    swap: &'static str,
    /// Its additions among the rates.
    additions: &'static str,
}

const REQUESTERS: [Requester; 2] = [
    Requester {
        words: "of an application",
        swap: "covalent-cas",
        additions: "covalent-add",
    },
    Requester {
        words: "in the lane's thread",
        swap: "covalent-lane-cas",
        additions: "covalent-lane-add",
    },
];

/// Returns the figures of the files as a fact: the output of `latency`, `perftest` and `atomics` of
/// `covalent-bench`.
///
/// # Errors
/// A file is invalid, or a side that a goal needs is missing.
pub fn fact([latency, perftest, atomics]: [&Path; 3]) -> Result<String> {
    let figures = figures([&json(latency)?, &json(perftest)?, &json(atomics)?])?;
    Ok(format!(
        "{FACT} {}
",
        serde_json::to_string(&figures)?
    ))
}

fn json(file: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))
}

fn figures([latency, perftest, atomics]: [&Value; 3]) -> Result<Figures> {
    let mut latencies = on_one_cable(latency)?;
    let (their_latencies, their_rates) = theirs(perftest)?;
    latencies.extend(their_latencies);
    let mut rates = Vec::new();
    for requester in &REQUESTERS {
        let name = requester.additions;
        let side = list(atomics, "sides")?
            .iter()
            .find(|side| side["side"] == name)
            .with_context(|| format!("no additions of side `{name}` were measured"))?;
        rates.push(Rate {
            side: requester.additions.to_owned(),
            mops: spread(&side["mops"])?,
            ours: true,
        });
    }
    rates.extend(their_rates);
    let goals = REQUESTERS
        .iter()
        .map(|requester| goals(requester, &latencies, &rates))
        .collect::<Result<Vec<_>>>()?
        .concat();
    Ok(Figures {
        latencies,
        rates,
        goals,
    })
}

/// Returns the measurements of `covalent-bench latency`: our sides, and others measured the same
/// way.
fn on_one_cable(latency: &Value) -> Result<Vec<Latency>> {
    list(latency, "figures")?
        .iter()
        .map(|figures| {
            let side = figures["side"].as_str().context("a side without a name")?;
            Ok(Latency {
                side: side.to_owned(),
                bytes: figures["bytes"].as_u64().context("a side without a size")?,
                p50_us: spread(&figures["p50_us"])?,
                p999_us: number(&figures["times_us"], "p999")?,
                ours: side.starts_with("covalent"),
            })
        })
        .collect()
}

/// Returns the measurements of perftest: the same programs several times. Times of half a round
/// trip are doubled.
fn theirs(perftest: &Value) -> Result<(Vec<Latency>, Vec<Rate>)> {
    let mut times: BTreeMap<(String, u64), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for output in list(perftest, "outputs")? {
        let title = output["title"]
            .as_str()
            .context("an output without a title")?;
        let factor = if output["kind"] == "half_round_trip" {
            2.0
        } else {
            1.0
        };
        for row in list(output, "rows")? {
            if output["kind"] == "rate" {
                rates
                    .entry(title.to_owned())
                    .or_default()
                    .push(number(row, "mpps")?);
                continue;
            }
            let bytes = row["bytes"].as_u64().context("a row without a size")?;
            let (p50, p999) = times.entry((title.to_owned(), bytes)).or_default();
            p50.push(number(&row["times_us"], "typical")? * factor);
            p999.push(number(&row["times_us"], "p999")? * factor);
        }
    }
    let latencies = times
        .into_iter()
        .map(|((title, bytes), (p50, p999))| {
            Ok(Latency {
                side: format!("perftest, {title}"),
                bytes,
                p50_us: spread_of(p50)?,
                p999_us: spread_of(p999)?.median,
                ours: false,
            })
        })
        .collect::<Result<_>>()?;
    let rates = rates
        .into_iter()
        .map(|(title, mops)| {
            Ok(Rate {
                side: format!("perftest, {title}"),
                mops: spread_of(mops)?,
                ours: false,
            })
        })
        .collect::<Result<_>>()?;
    Ok((latencies, rates))
}

/// Returns the goals: our compare-and-swap against perftest's, and our additions per second against
/// its faster atomic.
fn goals(requester: &Requester, latencies: &[Latency], rates: &[Rate]) -> Result<Vec<Goal>> {
    let latency = |wanted: &dyn Fn(&str) -> bool| latencies.iter().find(|one| wanted(&one.side));
    let other = latency(&|side| side.starts_with("perftest") && side.contains("CMP_AND_SWAP"))
        .context("a compare-and-swap of perftest was not measured")?;
    let rate = |wanted: &dyn Fn(&Rate) -> bool| {
        rates
            .iter()
            .filter(|rate| wanted(rate))
            .map(|rate| rate.mops.median)
            .reduce(f64::max)
            .context("no rate of atomics was measured")
    };
    let goal = |goal: &str, found: f64, met: bool| Goal {
        goal: format!("{goal}, {}", requester.words),
        found,
        met,
    };
    let mut goals = Vec::new();
    let own = latency(&|side| side == requester.swap)
        .with_context(|| format!("`{}` was not measured", requester.swap))?;
    let p50 = own.p50_us.median / other.p50_us.median;
    let p999 = own.p999_us / other.p999_us;
    goals.push(goal(
        "p50 of a compare-and-swap: at most 0.5 of soft-RoCE's",
        p50,
        p50 <= 0.5,
    ));
    goals.push(goal(
        "p99.9 of it: at most 0.5 of soft-RoCE's",
        p999,
        p999 <= 0.5,
    ));
    let times = rate(&|rate| rate.side == requester.additions)? / rate(&|rate| !rate.ours)?;
    goals.push(goal(
        "atomics a second: at least 10 times soft-RoCE's",
        times,
        times >= 10.0,
    ));
    Ok(goals)
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    value[name]
        .as_array()
        .ok_or_else(|| anyhow!("there is no list `{name}`"))
}

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name]
        .as_f64()
        .ok_or_else(|| anyhow!("there is no number `{name}`"))
}

fn spread(summary: &Value) -> Result<Spread> {
    Ok(Spread {
        median: number(summary, "median")?,
        min: number(summary, "min")?,
        max: number(summary, "max")?,
        repeats: list(summary, "repeats")?.len(),
    })
}

fn spread_of(mut repeats: Vec<f64>) -> Result<Spread> {
    repeats.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (repeats.first(), repeats.last()) else {
        return Err(anyhow!("there are no repeats"));
    };
    let (low, high) = (repeats[(repeats.len() - 1) / 2], repeats[repeats.len() / 2]);
    Ok(Spread {
        median: f64::midpoint(low, high),
        min,
        max,
        repeats: repeats.len(),
    })
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
        "\n## Soft-RoCE beside Covalent, kernel {kernel}\n\n\
         One guest has virtual cables, with the requester on one core and the responder on the\n\
         other. `rxe-cas` is soft-RoCE under the same program as Covalent, in turns on the\n\
         same cable. perftest's programs measure it in their own way, and the goals refer to\n\
         their output. Times are whole round trips (perftest prints halves for sends and\n\
         writes, which are doubled here).\n\n\
         An application of Covalent is a process beside its daemon, and shares a core with it\n\
         here. Each verb waits for switches between the two, and each switch discards the code\n\
         that an emulated processor has translated, and its lookups. The lane's own thread\n\
         shows a verb without them. `covalent-local-cas` shows an application without them:\n\
         its lane is on the other core, and the swap is in its own node. `af_xdp` is the bare\n\
         echo of one frame over AF_XDP, the minimum for any verb over AF_XDP. soft-RoCE, which\n\
         replies in the kernel, takes about as long as that echo here, so half of it is out of\n\
         reach on this machine.\n\n\
         Lanes poll; native XDP, copy, 4 KiB pages. p99.9 of Covalent is of all requests, that\n\
         of perftest the median of its runs. Rates: Covalent with up to 512 additions in\n\
         flight, `ib_atomic_bw` with its default depth.\n\n\
         | goal | found | |\n\
         |---|---|---|"
    );
    for goal in &figures.goals {
        let met = if goal.met { "met" } else { "**missed**" };
        let _ = writeln!(out, "| {} | {:.2} | {met} |", goal.goal, goal.found);
    }
    let _ = writeln!(
        out,
        "\n| side | bytes | p50 µs (least–most of repeats) | p99.9 µs |\n|---|---|---|---|"
    );
    for one in &figures.latencies {
        let p50 = one.p50_us;
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} ({:.1}–{:.1} of {}) | {:.1} |",
            bold(&one.side, one.ours),
            one.bytes,
            p50.median,
            p50.min,
            p50.max,
            p50.repeats,
            one.p999_us
        );
    }
    let _ = writeln!(
        out,
        "\n| side | thousands of atomics a second (least–most of repeats) |\n|---|---|"
    );
    for rate in &figures.rates {
        let mops = rate.mops;
        let _ = writeln!(
            out,
            "| {} | {:.0} ({:.0}–{:.0} of {}) |",
            bold(&rate.side, rate.ours),
            mops.median * 1e3,
            mops.min * 1e3,
            mops.max * 1e3,
            mops.repeats
        );
    }
}

/// Ours in bold.
pub fn bold(side: &str, ours: bool) -> String {
    if ours {
        format!("**{side}**")
    } else {
        side.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(median: f64) -> Value {
        json!({ "median": median, "min": median - 1.0, "max": median + 1.0, "repeats": [median] })
    }

    fn files(swap_us: f64, mops: f64) -> [Value; 3] {
        let row =
            |typical: f64| json!({ "bytes": 8, "times_us": { "typical": typical, "p999": 50.0 } });
        [
            json!({ "figures": [
                {
                    "side": "covalent-cas",
                    "bytes": 8,
                    "p50_us": summary(swap_us),
                    "times_us": { "p999": 20.0 },
                },
                {
                    "side": "covalent-lane-cas",
                    "bytes": 8,
                    "p50_us": summary(4.0),
                    "times_us": { "p999": 26.0 },
                },
                {
                    "side": "rxe-cas",
                    "bytes": 8,
                    "p50_us": summary(17.0),
                    "times_us": { "p999": 60.0 },
                },
            ] }),
            json!({ "outputs": [
                {
                    "title": "Atomic CMP_AND_SWAP Latency Test",
                    "kind": "round_trip",
                    "rows": [row(16.0)],
                },
                {
                    "title": "Atomic CMP_AND_SWAP Latency Test",
                    "kind": "round_trip",
                    "rows": [row(20.0)],
                },
                {
                    "title": "RDMA_Write Latency Test",
                    "kind": "half_round_trip",
                    "rows": [row(5.0)],
                },
                {
                    "title": "Atomic FETCH_AND_ADD BW Test",
                    "kind": "rate",
                    "rows": [{ "mpps": 0.06 }],
                },
            ] }),
            json!({ "sides": [
                { "side": { "redis": 1 }, "mops": summary(0.1) },
                { "side": "covalent-add", "mops": summary(mops) },
                { "side": "covalent-lane-add", "mops": summary(3.0) }] }),
        ]
    }

    fn of(swap_us: f64, mops: f64) -> Figures {
        let [latency, perftest, atomics] = files(swap_us, mops);
        figures([&latency, &perftest, &atomics]).expect("figures")
    }

    #[test]
    fn goals_are_ratios_of_medians() {
        let good = of(9.0, 0.6);
        let met: Vec<bool> = good.goals.iter().map(|goal| goal.met).collect();
        assert_eq!(met, [true, true, true, true, false, true]);
        assert!(
            (good.goals[0].found - 0.5).abs() < 1e-9,
            "the median of 16 and 20 is 18"
        );
        let bad = of(9.1, 0.59);
        let met: Vec<bool> = bad.goals.iter().map(|goal| goal.met).collect();
        assert_eq!(met, [false, true, false, true, false, true]);
        let write = good.latencies.iter().find(|one| one.side.contains("Write"));
        assert!(
            (write.expect("it").p50_us.median - 10.0).abs() < 1e-9,
            "a half is doubled"
        );
    }

    #[test]
    fn a_side_that_is_missing_is_an_error() {
        let [latency, perftest, atomics] = files(9.0, 0.6);
        let none = json!({ "figures": [], "outputs": [], "sides": [] });
        figures([&latency, &perftest, &atomics]).expect("all are there");
        for files in [
            [&none, &perftest, &atomics],
            [&latency, &none, &atomics],
            [&latency, &perftest, &none],
        ] {
            figures(files).expect_err("one is not");
        }
    }

    #[test]
    fn a_missed_goal_stands_out() {
        let mut text = String::new();
        write_section(&mut text, "6.1", &of(30.0, 0.6));
        assert!(text.contains("| 1.67 | **missed** |"), "{text}");
        assert!(
            text.contains("| **covalent-cas** | 8 | 30.0 (29.0–31.0 of 1) | 20.0 |"),
            "{text}"
        );
    }
}
