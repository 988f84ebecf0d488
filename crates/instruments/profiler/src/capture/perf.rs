//! The kernel's perf events as an event source: on each processor, a sampled event and its group.

use std::io;
use std::mem::size_of;

use perpacket_cost::EventKind;
use perpacket_linux::perf::bindings::{self, perf_event_attr};
use perpacket_linux::perf::{Event, SampleRing};
use perpacket_linux::text;

use crate::capture::events::{Pass, Rate, kernel_event};
use crate::capture::ring;
use crate::capture::{Backend, EventProvider, EventSource, GroupCounts, Record, record};
use crate::error::ProfileError;

/// The setting that limits the use of perf events.
pub const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Difference between the longest and the shortest period of the processors' timers, as a share.
const PERIOD_SPREAD: f64 = 0.1;

/// The golden ratio. The fractions of its multiples have the largest distances from each other
/// (Knuth, *The Art of Computer Programming* 3, 6.4).
const GOLDEN_RATIO: f64 = 1.618_033_988_749_895;

/// The period of a processor's timer.
///
/// Timers of one period interrupt the processors at a constant distance. While the first interrupt
/// runs, a process on another processor waits for an answer, so the second interrupt always finds
/// that processor asleep. Timers of different periods meet the processors at all distances.
pub(crate) fn period_ns(hertz: u32, cpu: usize) -> u64 {
    let turn = (cpu as f64 * GOLDEN_RATIO).fract();
    let period_ns = SECOND_NS as f64 / f64::from(hertz.max(1));
    (period_ns * (1.0 + PERIOD_SPREAD * (0.5 - turn))) as u64
}

/// The kernel of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Whether hardware counters open.
    pub counters: bool,
    /// Whether records of processes and their maps are wanted besides samples.
    pub processes: bool,
}

impl EventProvider for Kernel {
    fn backend(&self) -> Backend {
        if self.counters {
            Backend::Pmu
        } else {
            Backend::CpuClock
        }
    }

    fn open(&self, pass: &Pass, cpus: &[usize]) -> Result<Box<dyn EventSource>, ProfileError> {
        Ok(Box::new(PerfSource::open(pass, cpus, self.processes)?))
    }
}

/// Whether an event can be opened on a processor. Nothing is counted.
///
/// # Errors
/// Why it does not open.
pub fn try_open(event: EventKind, cpu: usize) -> io::Result<()> {
    Event::open(&attributes(event, None, false, cpu)?, cpu, None).map(drop)
}

/// Whether the events of a pass can be opened together on a processor.
#[must_use]
pub fn fits(pass: &Pass, cpu: usize) -> bool {
    CpuEvents::open(pass, cpu, false).is_ok()
}

/// The attributes of an event on one processor: sampled at a rate, or only counted.
fn attributes(
    event: EventKind,
    rate: Option<Rate>,
    processes: bool,
    cpu: usize,
) -> io::Result<perf_event_attr> {
    let (kind, number) = kernel_event(event).ok_or(io::ErrorKind::Unsupported)?;
    let mut attr = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config: number,
        ..perf_event_attr::default()
    };
    attr.read_format = (bindings::PERF_FORMAT_GROUP
        | bindings::PERF_FORMAT_TOTAL_TIME_ENABLED
        | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING) as u64;
    // The kernel refuses a member whose clock is not its leader's.
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    let Some(rate) = rate else {
        return Ok(attr);
    };
    attr.set_disabled(1);
    attr.sample_type = record::SAMPLE_FIELDS;
    attr.set_sample_id_all(1);
    attr.set_exclude_callchain_user(1);
    if processes {
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
    }
    // A timer has a fixed period. For a counter, the kernel adjusts the period to the frequency.
    match (event, rate) {
        (EventKind::CpuNs, Rate::Hertz(hertz)) => {
            attr.__bindgen_anon_1.sample_period = period_ns(hertz, cpu);
        }
        (_, Rate::Hertz(hertz)) => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = u64::from(hertz.max(1));
        }
        (_, Rate::Every(period)) => attr.__bindgen_anon_1.sample_period = period,
    }
    if kind != bindings::PERF_TYPE_SOFTWARE {
        // A pinned event is on the hardware all the time, or fails. It never shares a counter.
        attr.set_pinned(1);
    }
    Ok(attr)
}

/// Opens a sampled event. If the kernel supports it (Linux 5.7), samples have their control group.
fn open_sampled(mut attr: perf_event_attr, cpu: usize) -> io::Result<Event> {
    let fields = attr.sample_type;
    attr.sample_type |= bindings::PERF_SAMPLE_CGROUP as u64;
    attr.set_cgroup(1);
    Event::open(&attr, cpu, None).or_else(|_| {
        attr.sample_type = fields;
        attr.set_cgroup(0);
        Event::open(&attr, cpu, None)
    })
}

/// The events of a pass on some processors.
#[derive(Debug)]
struct PerfSource {
    names: Vec<String>,
    cpus: Vec<CpuEvents>,
    chain: Vec<u64>,
}

/// The events of a pass on one processor.
#[derive(Debug)]
struct CpuEvents {
    cpu: usize,
    leader: Event,
    ring: SampleRing,
    /// These events must stay open, because closing a member ends its counting.
    _members: Vec<Event>,
}

impl PerfSource {
    fn open(pass: &Pass, cpus: &[usize], processes: bool) -> Result<Self, ProfileError> {
        let all = std::iter::once(pass.sample).chain(pass.count.iter().copied());
        Ok(Self {
            names: all.map(|event| event.name().to_owned()).collect(),
            cpus: cpus
                .iter()
                .map(|&cpu| CpuEvents::open(pass, cpu, processes))
                .collect::<Result<_, _>>()?,
            chain: Vec::new(),
        })
    }

    fn switch(&self, switch: fn(&Event) -> io::Result<()>) -> Result<(), ProfileError> {
        self.cpus
            .iter()
            .try_for_each(|events| switch(&events.leader))
            .map_err(|source| ProfileError::Kernel {
                what: "resetting, enabling or disabling the events",
                source,
            })
    }
}

impl CpuEvents {
    fn open(pass: &Pass, cpu: usize, processes: bool) -> Result<Self, ProfileError> {
        let failed = |event: EventKind| move |source| open_error(event, cpu, source);
        let leader = attributes(pass.sample, Some(pass.rate), processes, cpu)
            .and_then(|attr| open_sampled(attr, cpu))
            .map_err(failed(pass.sample))?;
        let members = pass
            .count
            .iter()
            .map(|&event| {
                attributes(event, None, false, cpu)
                    .and_then(|attr| Event::open(&attr, cpu, Some(&leader)))
                    .map_err(failed(event))
            })
            .collect::<Result<_, _>>()?;
        let ring = SampleRing::map(&leader).map_err(|source| ProfileError::Kernel {
            what: "mapping the ring of samples",
            source,
        })?;
        Ok(Self {
            cpu,
            leader,
            ring,
            _members: members,
        })
    }

    /// The group's counts so far. Fails if they are not exact.
    fn counts(&self, names: &[String]) -> Result<Vec<u64>, ProfileError> {
        let failed = |source| ProfileError::Kernel {
            what: "reading the counters",
            source,
        };
        let mut bytes = vec![0; 8 * (3 + names.len())];
        // If a pinned group is not on the hardware, a read returns no bytes.
        let length = self.leader.read(&mut bytes).map_err(failed)?;
        let (words, _) = bytes[..length].as_chunks();
        let words: Vec<u64> = words.iter().map(|&word| u64::from_ne_bytes(word)).collect();
        group_counts(&words, names, self.cpu)
    }
}

/// Extracts the counts from a read of a group's leader. The read has the number of events, the time
/// enabled, the time running, and the counts.
///
/// # Errors
/// The group was not on the hardware all the time, so its values are zero or scaled.
pub fn group_counts(words: &[u64], names: &[String], cpu: usize) -> Result<Vec<u64>, ProfileError> {
    let multiplexed = |enabled_ns, running_ns| ProfileError::Multiplexed {
        group: names.join(", "),
        cpu,
        running_ns,
        enabled_ns,
    };
    let [number, enabled_ns, running_ns, counts @ ..] = words else {
        return Err(multiplexed(0, 0));
    };
    if running_ns < enabled_ns || *number as usize != names.len() || counts.len() < names.len() {
        return Err(multiplexed(*enabled_ns, *running_ns));
    }
    Ok(counts[..names.len()].to_vec())
}

/// The error for an event that cannot be opened: it is forbidden or does not exist.
fn open_error(event: EventKind, cpu: usize, source: io::Error) -> ProfileError {
    let denied = matches!(source.raw_os_error(), Some(libc::EACCES | libc::EPERM));
    if denied {
        let paranoid = text::read(PARANOID);
        return ProfileError::Forbidden {
            paranoid: paranoid.map_or_else(|_| "unreadable".to_owned(), |text| text.trim().into()),
        };
    }
    ProfileError::Open {
        event: event.name().to_owned(),
        cpu,
        source,
    }
}

impl EventSource for PerfSource {
    fn start(&mut self) -> Result<(), ProfileError> {
        self.switch(Event::reset)?;
        self.switch(Event::enable)
    }

    fn drain(&mut self, sink: &mut dyn FnMut(&Record<'_>)) -> Result<(), ProfileError> {
        // The buffer is new each time. Otherwise, rings that were full after a pause would leave it
        // large for good.
        let mut bytes = Vec::new();
        for events in &mut self.cpus {
            events
                .ring
                .drain(&mut bytes)
                .map_err(|source| ProfileError::Kernel {
                    what: "reading the ring of samples",
                    source,
                })?;
        }
        let mut records: Vec<_> = ring::records(&bytes)
            .map(|bytes| (record::time_ns(bytes), bytes))
            .collect();
        // The maps of a process must come before its samples, even if another processor recorded
        // the maps.
        records.sort_by_key(|&(time_ns, _)| time_ns);
        for (_, bytes) in records {
            if let Some(record) = record::parse(bytes, &mut self.chain) {
                sink(&record);
            }
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<GroupCounts, ProfileError> {
        self.switch(Event::disable)?;
        let mut sums = vec![0; self.names.len()];
        for events in &self.cpus {
            for (sum, count) in sums.iter_mut().zip(events.counts(&self.names)?) {
                *sum += count;
            }
        }
        Ok(GroupCounts {
            counts: self.names.iter().cloned().zip(sums).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_with_members_opens_and_counts() {
        if perpacket_requirements::lacks_perf() {
            return;
        }
        // Two timers are a group that every machine has.
        let pass = Pass {
            sample: EventKind::CpuNs,
            count: vec![EventKind::CpuNs],
            rate: Rate::Hertz(97),
        };
        let mut source = PerfSource::open(&pass, &[0], false).unwrap();
        source.start().unwrap();
        let counts = source.stop().unwrap().counts;
        assert!(counts.len() == 2 && counts.iter().all(|(_, count)| *count > 0));
    }

    #[test]
    fn the_timers_of_many_processors_have_different_periods_near_the_demanded_one() {
        let mut periods: Vec<_> = (0..256).map(|cpu| period_ns(997, cpu)).collect();
        let mean = periods.iter().sum::<u64>() as f64 / 256.0;
        assert!((mean * 997.0 / 1e9 - 1.0).abs() < 0.001, "{mean}");
        periods.sort_unstable();
        // A distance of 100 ns moves one timer past another in at most 10 s.
        assert!(periods.windows(2).all(|pair| pair[1] - pair[0] >= 100));
    }

    #[test]
    fn a_group_that_shared_the_hardware_is_an_error_that_names_it() {
        let names = ["cycles".to_owned(), "llc_misses".to_owned()];
        let error = group_counts(&[2, 1000, 400, 77, 5], &names, 3).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("{cycles, llc_misses}") && text.contains("processor 3"),
            "{text}"
        );
        assert!(text.contains("400 ns of 1000 ns"), "{text}");
        assert_eq!(group_counts(&[2, 9, 9, 77, 5], &names, 3).unwrap(), [77, 5]);
    }

    #[test]
    fn a_group_that_never_ran_is_an_error() {
        let names = ["cycles".to_owned()];
        assert!(group_counts(&[], &names, 0).is_err());
        assert!(group_counts(&[1, 500, 0, 0], &names, 0).is_err());
    }
}
