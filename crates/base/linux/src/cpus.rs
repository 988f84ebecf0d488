//! CPU lists in the kernel's notation: `0-3,8`.

use std::collections::BTreeSet;
use std::{fs, io};

/// The file in which the kernel lists the CPUs that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Number of CPUs in the kernel's fixed-size sets.
const CPU_LIMIT: usize = 1024;

/// A text that is not a CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{list:?}: expected CPU numbers and ranges below {CPU_LIMIT}, such as `0-3,8`")]
pub struct CpuListError {
    list: String,
}

/// Reads a CPU list. The result is in ascending order, with each CPU once.
///
/// # Errors
/// The text is not a list, or names a CPU above the kernel's limit.
pub fn parse(list: &str) -> Result<Vec<usize>, CpuListError> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().ok()?;
        let last = last.trim().parse().ok()?;
        (first <= last && last < CPU_LIMIT).then_some(first..=last)
    };
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',') {
        cpus.extend(range(part).ok_or_else(|| CpuListError {
            list: list.to_owned(),
        })?);
    }
    Ok(cpus.into_iter().collect())
}

/// Writes ascending CPUs as a list of ranges.
pub fn format(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|cpu, next| cpu + 1 == *next);
    let texts: Vec<String> = ranges
        .map(|range| match *range {
            [first, .., last] => format!("{first}-{last}"),
            [cpu] => cpu.to_string(),
            [] => String::new(),
        })
        .collect();
    texts.join(",")
}

/// The CPUs that are online.
///
/// # Errors
/// The kernel's list cannot be read.
pub fn online() -> io::Result<Vec<usize>> {
    let list = fs::read_to_string(ONLINE)
        .map_err(|error| io::Error::new(error.kind(), format!("{ONLINE}: {error}")))?;
    parse(&list)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{ONLINE}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_may_be_in_any_order() {
        assert_eq!(parse("8,0-2").unwrap(), [0, 1, 2, 8]);
        assert_eq!(parse(" 1 - 2, 1\n").unwrap(), [1, 2]);
    }

    #[test]
    fn a_text_that_is_not_a_list_is_an_error() {
        for text in ["", "a", "3-1", "-1", "1,,2", "0-99999999", "1024"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let message = parse("a").unwrap_err().to_string();
        assert!(
            message.starts_with("\"a\": expected CPU numbers"),
            "{message}"
        );
    }

    #[test]
    fn cpus_are_written_as_ranges() {
        for list in ["0-2,8", "5", "0-1,3-4", ""] {
            let cpus = parse(list).unwrap_or_default();
            assert_eq!(format(&cpus), list);
        }
    }

    #[test]
    fn this_machine_has_a_cpu_online() {
        assert!(!online().unwrap().is_empty());
    }
}
