//! How options that several verbs have are read, and when one is refused.

use std::time::Duration;

use crate::status::Failure;

/// Processors that the kernel's fixed-size sets can name.
const MOST_PROCESSORS: usize = 1024;
/// Longest time in seconds: thirty years and more.
const LONGEST_S: f64 = 1e9;

/// A number of seconds as a time.
pub fn seconds(option: &str, value: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(value)
        .ok()
        .filter(|duration| duration.as_secs_f64() < LONGEST_S)
        .ok_or_else(|| Failure::usage(format!("--{option} {value}: expected seconds, 0 or more")))
}

/// The processors of a list such as `0,2-3`.
pub fn processors(option: &str, list: &str) -> Result<Vec<usize>, Failure> {
    let mut processors = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < MOST_PROCESSORS => {
                processors.extend(first..=last);
            }
            _ => {
                return Err(Failure::usage(format!(
                    "--{option} {list}: expected numbers and ranges below {MOST_PROCESSORS}, such \
                     as 0,2-3"
                )));
            }
        }
    }
    Ok(processors)
}

/// An option that would be ignored: whether it is, its name, and why.
pub type Ignored = (bool, &'static str, &'static str);

/// Refuses the first option that was given and would have no effect: who typed it expects one.
pub fn refuse_ignored(options: &[Ignored]) -> Result<(), Failure> {
    match options.iter().find(|(is_ignored, ..)| *is_ignored) {
        None => Ok(()),
        Some((_, option, why)) => Err(Failure::usage(format!("--{option} has no effect {why}"))
            .with_hint(format!(
                "leave --{option} out, or ask for what it belongs to"
            ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn a_list_of_processors_has_numbers_and_ranges() {
        assert_eq!(processors("cpus", "0,2-4").unwrap(), [0, 2, 3, 4]);
        for wrong in ["", "a", "3-1", "-1", "0,,1", "99999"] {
            let failure = processors("cpus", wrong).unwrap_err();
            assert_eq!(failure.status, Status::Usage, "{wrong}");
        }
    }

    #[test]
    fn a_negative_or_endless_time_is_a_mistake() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            let failure = seconds("duration", wrong).unwrap_err();
            assert_eq!(failure.status, Status::Usage);
            assert!(failure.message.starts_with("--duration"), "{wrong}");
        }
        assert_eq!(seconds("warmup", 0.5).unwrap(), Duration::from_millis(500));
    }

    #[test]
    fn an_option_that_would_be_ignored_is_named_with_what_it_needs() {
        let options = [
            (false, "speed", "without --replay"),
            (true, "users", "without --workload surge"),
        ];
        let failure = refuse_ignored(&options).unwrap_err();
        assert_eq!(
            failure.message,
            "--users has no effect without --workload surge"
        );
        assert!(refuse_ignored(&options[..1]).is_ok());
    }
}
