//! `profile`: what each packet costs, layer by layer.

pub mod by_cpu;
mod self_check;
mod table;

use std::path::Path;

use perpacket_profiler::recording::{self, Traffic};
use perpacket_profiler::settings::DEFAULT_DURATION;
use perpacket_profiler::spec::{Division, Spec, Taxonomy};
use perpacket_profiler::{End, Fault, ProfileError, Profiler, Report};

use crate::output::{Format, Output, ResultFile};
use crate::status::{Failure, Status};
use crate::stop;
use crate::verb::Verb;

const EXAMPLE: &str = "\
Examples:
  perpacket-agent profile --duration 10s --pid $(pidof -s nginx)
  perpacket-agent profile --requests http://127.0.0.1:8080/.perpacket/report
  perpacket-agent profile --folded stacks.txt -- wrk -d 5 http://127.0.0.1:8080/
  perpacket-agent profile --every 1s --format json
  perpacket-agent profile --perf perf.data --links before.json after.json
  perpacket-agent profile --self-check";

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        let failure = match error.fault() {
            Fault::Usage => Self::usage(&error),
            Fault::Lacking => Self::lacking(&error),
            Fault::Failed => Self::failed(&error),
        };
        match error.next_step() {
            Some(step) => failure.with_hint(step),
            None => failure,
        }
    }
}

pub fn verb() -> Verb {
    Verb::new("profile", EXAMPLE, |spec, output| run(&spec, output))
}

/// Measures a profile and prints it.
fn run(spec: &Spec, output: &Output) -> Result<Status, Failure> {
    if let Some(file) = &spec.perf {
        return recorded(spec, file, output);
    }
    let every = spec.every.map(|length| length.0);
    let stop = stop::on_signals()?;
    if spec.self_check {
        return self_check::run(spec, &stop, output);
    }
    let mut profiler = Profiler::new(spec.settings())?;
    let end = match every {
        Some(every) => profiler.run_every(every, &stop, Output::print_line)?,
        None => once(spec, &mut profiler, &stop, output)?,
    };
    match end {
        End::Stopped if every.is_none() || spec.duration.is_some() => Ok(Status::Interrupted),
        End::Command(0) | End::Duration | End::Process | End::Stopped => Ok(Status::Done),
        End::Command(status) => Err(Failure::failed(format!(
            "{}: the command ended with exit status {status}; the profile above covers its run",
            spec.command.join(" ")
        ))),
    }
}

fn once(
    spec: &Spec,
    profiler: &mut Profiler,
    stop: &std::sync::atomic::AtomicBool,
    output: &Output,
) -> Result<End, Failure> {
    // Create the file before the run, so that a wrong name fails at once.
    let folded = ResultFile::of("folded", spec.folded.as_deref())?;
    let pprof = ResultFile::of("pprof", spec.pprof.as_deref())?;
    if output.shows_progress() && spec.command.is_empty() {
        let length = spec.duration.map_or(DEFAULT_DURATION, |time| time.0);
        message!(
            "profiling for {:.0} s; Ctrl-C ends it earlier",
            length.as_secs_f64()
        );
    }
    let (report, end) = profiler.run(stop)?;
    // Print the report first, so that a full disk does not lose it.
    print_report(spec, &report, output)?;
    if let Some(file) = folded {
        file.write_by(|out| profiler.write_folded(out))?;
    }
    if let Some(file) = pprof {
        file.write_by(|out| profiler.write_pprof(out))?;
    }
    Ok(end)
}

/// Prints the profile of a file of `perf record`.
fn recorded(spec: &Spec, file: &Path, output: &Output) -> Result<Status, Failure> {
    let folded = ResultFile::of("folded", spec.folded.as_deref())?;
    let pprof = ResultFile::of("pprof", spec.pprof.as_deref())?;
    let traffic = match (spec.packets, spec.links.as_deref()) {
        (Some(packets), _) => Traffic::Packets(packets),
        (None, Some([before, after])) => Traffic::Links(before.clone(), after.clone()),
        (None, _) => Traffic::Unknown,
    };
    let mut recorded = recording::analyse(&recording::Settings {
        file: file.to_owned(),
        traffic,
        kallsyms: spec.kallsyms.clone(),
        rules: spec.rules.clone(),
        pid: spec.pid,
        keeps_offsets: folded.is_some() || pprof.is_some(),
    })?;
    print_report(spec, &recorded.report, output)?;
    if let Some(file) = folded {
        file.write_by(|out| recorded.write_folded(out))?;
    }
    if let Some(file) = pprof {
        file.write_by(|out| recorded.write_pprof(out))?;
    }
    Ok(Status::Done)
}

fn print_report(spec: &Spec, report: &Report, output: &Output) -> Result<(), Failure> {
    let taxonomy = spec.taxonomy.unwrap_or(Taxonomy::Layers);
    output.print(report, |report| {
        table::render(report, taxonomy, spec.by == Some(Division::Cpu))
    })?;
    if output.format == Format::Json && !output.quiet {
        for limit in &report.limits {
            message!("note: {limit}");
        }
    }
    Ok(())
}
