//! Lists of processors, in the kernel's notation: `0-3,8`.

use std::collections::BTreeSet;
use std::fs;

use crate::error::ProfileError;

/// Where the kernel lists the processors that run.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// More processors than any machine has: a typing mistake must not fill the memory.
const CPU_LIMIT: u32 = 65_536;

/// The processors that run on this machine.
///
/// # Errors
/// The kernel's list cannot be read.
pub fn online() -> Result<Vec<u32>, ProfileError> {
    let text = fs::read_to_string(ONLINE).map_err(|source| ProfileError::file(ONLINE, source))?;
    parse(text.trim())
        .ok_or_else(|| ProfileError::file(ONLINE, std::io::ErrorKind::InvalidData.into()))
}

/// The processors of a list that somebody gave, all of them among those that run.
///
/// # Errors
/// The text is no list, or names a processor that is not there.
pub fn choose(list: &str, online: &[u32]) -> Result<Vec<u32>, ProfileError> {
    let mistake = |reason: String| ProfileError::Cpus {
        list: list.to_owned(),
        reason,
        online: format(online),
    };
    let chosen = parse(list)
        .ok_or_else(|| mistake("expected numbers and ranges such as `0-3,8`".to_owned()))?;
    match chosen.iter().find(|cpu| !online.contains(cpu)) {
        Some(missing) => Err(mistake(format!("no processor {missing}"))),
        None => Ok(chosen),
    }
}

/// Processors as a list of ranges.
#[must_use]
pub fn format(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let texts: Vec<_> = ranges
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        })
        .collect();
    texts.join(",")
}

fn parse(list: &str) -> Option<Vec<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
            None => {
                let cpu: u32 = part.trim().parse().ok()?;
                (cpu, cpu)
            }
        };
        if first > last || last >= CPU_LIMIT {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written() {
        assert_eq!(parse("8,0-2"), Some(vec![0, 1, 2, 8]));
        assert_eq!(format(&[0, 1, 2, 8]), "0-2,8");
        for wrong in ["", "a", "3-1", "0-99999999", "1,,2"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_processor_that_is_not_there_is_named_with_those_that_are() {
        let text = choose("0,7", &[0, 1]).unwrap_err().to_string();
        assert!(
            text.contains("no processor 7") && text.contains("0-1 online"),
            "{text}"
        );
    }
}
