//! Parser for perftest's `--out_json` files (`write_test_info_to_file` and
//! `write_report_lat_to_file` of its `perftest_parameters.c`): one output per file.
//!
//! The file does not state the unit of a bandwidth (`--report_gbits` changes it). Bytes per second
//! are therefore computed from messages per second. Times are in microseconds, perftest's default
//! unless it prints cycles.

use serde_json::Value;

use super::parse::{Found, Output, Row, Times, kind_of};

/// Returns the output in `text`, if it is such a file. If the figures cannot be read, the result
/// holds a line number and no figures.
pub fn parse(text: &str) -> Option<Found> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        // With a level of service it writes a name without quotes.
        Err(error) => {
            return Some(Found {
                outputs: Vec::new(),
                unread_lines: vec![error.line()],
            });
        }
    };
    let (info, results) = (value.get("test_info")?, value.get("results")?);
    let word = |name: &str| info[name].as_str().map(str::to_owned);
    let title = word("test")?
        .replace("_Latency_", " Latency ")
        .replace("_BW_", " BW ");
    let row = row(results);
    Some(Found {
        unread_lines: if row.is_none() { vec![1] } else { Vec::new() },
        outputs: row
            .map(|row| Output {
                kind: kind_of(&title),
                title,
                device: word("Device"),
                link_type: word("Link_type"),
                rows: vec![row],
            })
            .into_iter()
            .collect(),
    })
}

/// The figures; `None` if one of those that are there cannot be one.
fn row(results: &Value) -> Option<Row> {
    let figure = |name: &str| match results.get(name) {
        None => Some(None),
        Some(value) => {
            let figure = value.as_f64()?;
            (figure.is_finite() && figure >= 0.0).then_some(Some(figure))
        }
    };
    let bytes = results["MsgSize"].as_u64()?;
    let times = Times {
        min: figure("t_min")?,
        max: figure("t_max")?,
        typical: figure("t_typical")?,
        mean: figure("t_avg")?,
        stdev: figure("t_stdev")?,
        p99: figure("percentile_99")?,
        p999: figure("percentile_99.9")?,
    };
    let mpps = figure("MsgRate")?;
    Some(Row {
        bytes,
        iterations: results["n_iterations"].as_u64()?,
        times_us: times.mean.map(|_| times),
        mpps,
        bytes_per_s: mpps.map(|mpps| mpps * 1e6 * bytes as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::{super::parse::Kind, *};

    const SEND_LAT: &str = include_str!("samples/ib_send_lat.json");

    #[test]
    fn latencies_have_all_figures_and_their_kind() {
        let found = parse(SEND_LAT).expect("such a file");
        assert_eq!((found.outputs.len(), found.unread_lines.len()), (1, 0));
        let output = &found.outputs[0];
        assert_eq!(
            (output.title.as_str(), output.kind, output.device.as_deref()),
            ("Send Latency Test", Kind::HalfRoundTrip, Some("rxe0"))
        );
        let times = output.rows[0].times_us.expect("times");
        assert_eq!(
            (output.rows[0].bytes, times.typical, times.p999),
            (64, Some(11.02), Some(58.4))
        );
    }

    #[test]
    fn rates_count_messages_for_every_unit_of_bandwidth() {
        let text = r#"{"test_info": {"test": "RDMA_Write_BW_Test"},
            "results": {"MsgSize": 1000, "n_iterations": 5000, "BW_peak": 0.0, "BW_average": 1.9, "MsgRate": 0.25}}"#;
        let found = parse(text).expect("such a file");
        let row = &found.outputs[0].rows[0];
        assert_eq!((row.mpps, row.bytes_per_s), (Some(0.25), Some(2.5e8)));
        assert_eq!(found.outputs[0].kind, Kind::Rate);
    }

    #[test]
    fn impossible_figures_are_reported_and_other_texts_refused() {
        let wrong = SEND_LAT.replace("11.02", "-11.02");
        assert_eq!(parse(&wrong).expect("such a file").unread_lines, [1]);
        let cut = parse("{\n\"results\": {\nsl: 3").expect("such a file");
        assert_eq!(cut.unread_lines, [3]);
        assert_eq!(parse("#bytes #iterations"), None);
        assert_eq!(parse("{\"a\": 1}"), None);
    }
}
