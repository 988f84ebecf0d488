//! The shorthand of OSDI 2006, table 3: Workload-NICconnections-P|N-L|N-Selection-MIPS.

use std::str::FromStr;

use crate::error::ConfigurationError;

/// The content of a shorthand such as `W-4096-P-L-FCFS-400`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shorthand {
    /// `W`, `I`, `D` or `S`.
    pub workload: String,
    connections: u32,
    host_first: bool,
    load_control: bool,
    active_restore: bool,
    policy: &'static str,
    threshold: Option<u32>,
    mips: u32,
}

const FORM: &str = "expected WORKLOAD-CONNECTIONS-P|N-L|N|R-FCFS|Tn|LIFETIME|ORACLE-MIPS, such as \
                    W-1024-P-N-FCFS-400, or bulk";

impl FromStr for Shorthand {
    type Err = ConfigurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |part: &str, allowed: &str| {
            ConfigurationError::new(
                "configuration",
                text,
                format!("`{part}` is not {allowed}; {FORM}"),
            )
        };
        let parts: Vec<&str> = text.split('-').collect();
        let [workload, connections, priority, load, selection, mips] = parts[..] else {
            return Err(ConfigurationError::new("configuration", text, FORM));
        };
        if !["W", "I", "D", "S"].contains(&workload) {
            return Err(wrong(workload, "a workload (W, I, D or S)"));
        }
        let number = |part: &str, what: &str| part.parse::<u32>().map_err(|_| wrong(part, what));
        let (policy, threshold) = match selection {
            "FCFS" => ("fcfs", None),
            "LIFETIME" => ("lifetime", None),
            "ORACLE" => ("oracle", None),
            _ => {
                let digits = selection
                    .strip_prefix('T')
                    .ok_or_else(|| wrong(selection, "a selection policy"))?;
                (
                    "threshold",
                    Some(number(digits, "a threshold of enqueues")?),
                )
            }
        };
        Ok(Self {
            workload: workload.to_owned(),
            connections: number(connections, "a number of connections")?,
            host_first: match priority {
                "P" => true,
                "N" => false,
                other => return Err(wrong(other, "P (host packets first) or N")),
            },
            load_control: match load {
                "L" | "R" => true,
                "N" => false,
                other => return Err(wrong(other, "L (load control), R (with restore) or N")),
            },
            active_restore: load == "R",
            policy,
            threshold,
            mips: number(mips, "a rate in million instructions a second")?,
        })
    }
}

impl Shorthand {
    /// The parameters it sets, as (name, value).
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![
            ("nic.connections", self.connections.to_string()),
            ("nic.host_first", self.host_first.to_string()),
            ("nic.load_control", self.load_control.to_string()),
            ("nic.active_restore", self.active_restore.to_string()),
            ("selection.policy", self.policy.to_owned()),
            ("nic.mips", self.mips.to_string()),
        ];
        if let Some(threshold) = self.threshold {
            parameters.push(("selection.threshold", threshold.to_string()));
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_part_that_is_wrong() {
        for (text, part) in [
            ("X-0-N-N-FCFS-400", "`X`"),
            ("W-many-N-N-FCFS-400", "`many`"),
            ("W-0-Q-N-FCFS-400", "`Q`"),
            ("W-0-N-Q-FCFS-400", "`Q`"),
            ("W-0-N-N-LIFO-400", "`LIFO`"),
            ("W-0-N-N-Tx-400", "`x`"),
            ("W-0-N-N-FCFS-fast", "`fast`"),
            ("W-0", "W-1024-P-N-FCFS-400"),
        ] {
            let error = text.parse::<Shorthand>().unwrap_err();
            assert_eq!(error.value, text);
            assert!(error.allowed.contains(part), "{error}");
        }
    }
}
