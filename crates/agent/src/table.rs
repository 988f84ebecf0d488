//! Tables that several verbs print: named values, and columns of numbers.

use std::fmt::Write;

/// Width of the first column.
const NAME_WIDTH: usize = 22;

/// Named values, one in each line.
pub fn rows<V: AsRef<str>>(rows: &[(&str, V)]) -> String {
    let row = |(name, value): &(&str, V)| format!("{name:<NAME_WIDTH$}{}\n", value.as_ref());
    rows.iter().map(row).collect()
}

/// A row of numbers for each name, with a header.
pub fn columns<const N: usize>(
    title: &str,
    names: [&str; N],
    lines: &[(&str, [f64; N])],
) -> String {
    let mut text = format!("{title:<NAME_WIDTH$}");
    // Writing to a string cannot fail.
    for name in names {
        let _ = write!(text, "{name:>11}");
    }
    text.push('\n');
    for (name, values) in lines {
        let _ = write!(text, "{name:<NAME_WIDTH$}");
        for value in values {
            let _ = write!(text, "{value:>11.1}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_with_their_names() {
        let text = columns("us", ["p50", "max"], &[("service", [1.0, 22.25])]);
        let ends = |line: &str, word: &str| line.find(word).unwrap() + word.len();
        let (head, line) = text.split_once('\n').unwrap();
        assert_eq!(ends(head, "p50"), ends(line, "1.0"));
        assert_eq!(ends(head, "max"), ends(line, "22.2"));
    }
}
