//! The number of requests that a server answered since `export` started.
//!
//! The page is read in a thread of its own: a server that does not respond must not delay samples.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use perpacket_linux::mailbox::lock;
use perpacket_profiler::ProfileError;
use perpacket_profiler::requests::{RequestCount, RequestCounter};

use crate::status::Failure;

/// Time between two reads of the page.
const INTERVAL: Duration = Duration::from_secs(1);

/// The number of requests, and how often it could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Answered requests.
    pub answered: u64,
    pub failed_reads: u64,
}

/// Adds up a server's requests, also if the server restarts and counts from zero again.
#[derive(Clone, Debug, Default)]
pub struct RequestTotal {
    sum: Arc<Mutex<Requests>>,
}

impl RequestTotal {
    /// Starts to read the page of a URL. `note` gets a sentence when reads begin to fail, and when they
    /// succeed again.
    pub fn start(url: &str, note: impl Fn(&str) + Send + 'static) -> Result<Self, Failure> {
        let counter = RequestCounter::new(url)?;
        let total = Self::default();
        let shared = total.clone();
        let option = format!("--requests {url}");
        let read = move || {
            let mut last = None;
            let mut is_failing = false;
            loop {
                let read = counter.read();
                match &read {
                    Err(error) if !is_failing => note(&error.to_string()),
                    Ok(_) if is_failing => note(&format!("{option}: reads succeed again")),
                    _ => {}
                }
                is_failing = read.is_err();
                shared.add(&mut last, read);
                thread::sleep(INTERVAL);
            }
        };
        thread::Builder::new()
            .name("requests".to_owned())
            .spawn(read)
            .map_err(|error| Failure::failed(format!("--requests {url}: {error}")))?;
        Ok(total)
    }

    /// The numbers now.
    pub fn now(&self) -> Requests {
        *lock(&self.sum)
    }

    fn add(&self, last: &mut Option<RequestCount>, read: Result<RequestCount, ProfileError>) {
        let mut sum = lock(&self.sum);
        let Ok(count) = read else {
            sum.failed_reads += 1;
            return;
        };
        if let Some(before) = last.replace(count) {
            // After a restart the server counts from zero again, so all its requests are new.
            let is_restart = count.requests < before.requests;
            let since = if is_restart {
                RequestCount {
                    requests: 0,
                    ..before
                }
            } else {
                before
            };
            sum.answered += since.until(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_restarts_continues_the_sum() {
        let total = RequestTotal::default();
        let mut last = None;
        for requests in [100, 150, 5, 9] {
            let count = RequestCount {
                requests,
                counts_itself: false,
            };
            total.add(&mut last, Ok(count));
        }
        assert_eq!(total.now().answered, 50 + 5 + 4);
    }
}
