//! Metrics as OpenMetrics text (github.com/OpenObservability/OpenMetrics, version 1.0).

use std::fmt::Write;

use super::metrics::{Form, Metric, Number};

pub fn page(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for metric in metrics {
        // Writing to a string cannot fail.
        let _ = write(&mut text, metric);
    }
    text.push_str("# EOF\n");
    text
}

fn write(text: &mut String, metric: &Metric) -> std::fmt::Result {
    let name = format!("perpacket_{}", metric.name);
    let (form, suffix) = match metric.form {
        Form::Counter => ("counter", "_total"),
        Form::Gauge => ("gauge", ""),
        Form::Info => ("info", "_info"),
    };
    writeln!(text, "# TYPE {name} {form}")?;
    if !metric.unit().is_empty() {
        writeln!(text, "# UNIT {name} {}", metric.unit())?;
    }
    writeln!(text, "# HELP {name} {}", escaped(metric.help))?;
    for point in &metric.points {
        write!(text, "{name}{suffix}")?;
        if !point.labels.is_empty() {
            let pairs: Vec<String> = point
                .labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            write!(text, "{{{}}}", pairs.join(","))?;
        }
        match point.value {
            Number::Whole(value) => writeln!(text, " {value}")?,
            Number::Real(value) => writeln!(text, " {value}")?,
        }
    }
    Ok(())
}

/// A label's value or a help text with its special characters escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::metrics::Point;
    use super::*;

    #[test]
    fn special_characters_of_labels_are_escaped() {
        let metric = Metric {
            name: "limit",
            form: Form::Info,
            help: "Why.",
            points: vec![Point {
                labels: vec![("meaning", "a \"b\"\n\\c".to_owned())],
                value: Number::Whole(1),
            }],
        };
        assert_eq!(
            page(&[metric]),
            "# TYPE perpacket_limit info\n# HELP perpacket_limit Why.\n\
             perpacket_limit_info{meaning=\"a \\\"b\\\"\\n\\\\c\"} 1\n# EOF\n"
        );
    }
}
