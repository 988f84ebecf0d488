//! CPU lists in the kernel's notation: `0-3,8`.

use std::{fs, io};

/// The kernel's list of CPUs that run.
pub const ONLINE: &str = "/sys/devices/system/cpu/online";

/// CPUs that the kernel's fixed-size sets can name.
const CPU_COUNT_LIMIT: usize = 1024;

/// A text that is not a CPU list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// A part is neither a number nor a range.
    #[error("expected numbers and ranges below {CPU_COUNT_LIMIT}, such as 0,2-3")]
    Syntax,
    /// A CPU is there twice.
    #[error("expected each CPU once")]
    Repeated,
}

/// Reads a CPU list, in its order.
///
/// # Errors
/// The text is not a list, names a CPU twice, or one that no machine has.
pub fn parse(list: &str) -> Result<Vec<usize>, CpuListError> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().map_err(|_| CpuListError::Syntax);
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= CPU_COUNT_LIMIT {
            return Err(CpuListError::Syntax);
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return Err(CpuListError::Repeated);
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// Writes ascending CPUs as a list of ranges.
#[must_use]
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

/// The CPUs that run on this machine.
///
/// # Errors
/// The kernel's list cannot be read.
pub fn online() -> io::Result<Vec<usize>> {
    let list = fs::read_to_string(ONLINE)?;
    parse(list.trim()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_read_in_the_order_of_the_list() {
        assert_eq!(parse("8,0-2"), Ok(vec![8, 0, 1, 2]));
    }

    #[test]
    fn a_text_that_is_not_a_list_is_an_error() {
        for text in ["", "a", "3-1", "-1", "1,,2", "0-99999999", "1024", "0 1"] {
            assert_eq!(parse(text), Err(CpuListError::Syntax), "{text}");
        }
        assert_eq!(parse("0,0-1"), Err(CpuListError::Repeated));
    }

    #[test]
    fn a_list_is_written_as_ranges() {
        for list in ["0-2,8", "5", "0-1,3-4", ""] {
            let cpus = parse(list).unwrap_or_default();
            assert_eq!(format(&cpus), list);
        }
    }

    #[test]
    fn this_machine_has_a_cpu() {
        assert!(!online().unwrap().is_empty());
    }
}
