//! Turns options into the settings of a load, and settings into options with all defaults.

use std::path::Path;
use std::time::Duration;

use perpacket_load::SourceAddresses;
use perpacket_load::http::{
    Arrivals, Process, RequestsPerConnection, Settings, Shard, Spread, Target, Workload, threads,
};

use super::{Arguments, WorkloadName};
use crate::load::failure;
use crate::options::{BitRate, Ignored, Rate, Switch, Time, Window, refuse_ignored};
use crate::status::Failure;

/// Line speed of SPECweb99's clients, in bits per second.
const SPECWEB99_LINE_BPS: u64 = 400_000;
/// Default number of connections in a closed loop, and in an open loop.
const DEFAULT_CONNECTIONS: u32 = 64;
const DEFAULT_OPEN_CONNECTIONS: u32 = 1024;
/// Default polling time with `--cpus`.
const DEFAULT_SPIN: Duration = Duration::from_micros(60);
/// Default number of users of Surge.
const DEFAULT_USERS: u32 = 100;
/// Default number of clients of an application.
const DEFAULT_CLIENTS: u32 = 10;
/// Default number of connections of WebStone: its smallest number of clients.
const WEBSTONE_CLIENTS: u32 = 20;
/// The speed that ignores the times of a log.
const MAX_SPEED: &str = "max";

impl Arguments {
    /// The settings of the load.
    pub fn settings(&self) -> Result<Settings, Failure> {
        self.refuse_ignored()?;
        let workload = self.workload()?;
        let arrivals = self.arrivals()?;
        let line_speed_bps = match (self.line_speed.map(|rate| rate.0), &workload) {
            (Some(0), _) => None,
            (None, Workload::SpecWeb99 { .. }) => Some(SPECWEB99_LINE_BPS),
            (speed, _) => speed,
        };
        let ends_by_itself = self.requests.is_some() || workload.is_finite();
        let default_duration = (!ends_by_itself).then_some(Window::DEFAULT_DURATION);
        let default_spin = if self.runs_on.cpus.is_some() {
            DEFAULT_SPIN
        } else {
            Duration::ZERO
        };
        let default = Settings::new(&self.url, self.connections(&workload, arrivals));
        let settings = Settings {
            arrivals,
            workload,
            duration: self.window.duration.or(default_duration).map(|time| time.0),
            requests: self.requests,
            warmup: self.window.warmup.map_or(Duration::ZERO, |time| time.0),
            threads: self.threads,
            cpus: self.runs_on.list(),
            spin: self.spin.map_or(default_spin, |time| time.0),
            version: self.http,
            keep_alive_share: self.keep_alive,
            requests_per_connection: self.requests_per_connection()?,
            conditional_share: self.conditional,
            line_speed_bps,
            timeout: self.timeout.0,
            check: self.check,
            tls_resumption: self.tls_resumption != Some(Switch::Off),
            tls_version: self.tls_version,
            insecure: self.insecure,
            trusted: self.ca.clone(),
            sources: self.sources()?,
            shard: self.shard()?,
            seed: self.seed.seed,
            request_log: self.request_log.clone(),
            headers: self.header.clone(),
            ..default
        };
        settings.check().map_err(failure)?;
        Ok(settings)
    }

    /// The options with all defaults of this machine.
    pub fn resolved(&self, settings: &Settings) -> Result<Self, Failure> {
        let mut all = self.clone();
        all.window.duration = settings.duration.map(Time);
        all.window.warmup = Some(Time(settings.warmup));
        all.threads = Some(threads(settings).map_err(failure)?);
        match &settings.workload {
            Workload::Surge { users } => all.users = Some(*users),
            Workload::Application { .. } => all.clients = Some(settings.connections),
            _ => all.connections = Some(settings.connections),
        }
        if let Workload::SpecWeb99 { .. } = settings.workload {
            all.line_speed = Some(BitRate(settings.line_speed_bps.unwrap_or(0)));
        }
        if settings.arrivals.are_open() {
            all.spin = Some(Time(settings.spin));
        }
        if let Arrivals::Recorded { .. } = settings.arrivals {
            all.spread = Some(self.spread.unwrap_or(Spread::Uniform));
            all.speed = Some(self.speed.clone().unwrap_or_else(|| "1".to_owned()));
        }
        if self.rate.or(self.sessions_rate).is_some() {
            all.arrivals = Some(self.arrivals.unwrap_or(Process::Fixed));
        }
        all.workload = match (
            self.replay.as_ref().or(self.application.as_ref()),
            &self.trace,
        ) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(WorkloadName::Trace),
            (None, None) => Some(self.workload.unwrap_or(WorkloadName::File)),
        };
        Ok(all)
    }

    /// Refuses options that have no effect on this load.
    fn refuse_ignored(&self) -> Result<(), Failure> {
        let is_tls = Target::parse(&self.url).map_err(failure)?.tls;
        let is_surge = self.workload == Some(WorkloadName::Surge);
        let has_rate = self.rate.or(self.sessions_rate).is_some();
        let has_log = self.replay.is_some() || self.trace.is_some();
        let is_fastest = self.speed.as_deref() == Some(MAX_SPEED);
        let has_times = self.replay.is_some() && !is_fastest;
        let ignored: [Ignored; 13] = [
            (
                self.spin.is_some() && !has_rate && !has_times,
                "spin",
                "without --rate, --sessions-rate or a log's times: no request has a time at which \
                 it is due",
            ),
            (
                self.users.is_some() && !is_surge,
                "users",
                "without --workload surge",
            ),
            (
                self.connections.is_some() && is_surge,
                "connections",
                "with --workload surge: each of its --users has one",
            ),
            (
                self.arrivals.is_some() && !has_rate,
                "arrivals",
                "without --rate or --sessions-rate",
            ),
            (
                self.speed.is_some() && self.replay.is_none(),
                "speed",
                "without --replay",
            ),
            (
                self.spread.is_some() && self.replay.is_none(),
                "spread",
                "without --replay",
            ),
            (
                self.spread.is_some() && !has_times,
                "spread",
                "with --speed max, which ignores the log's times",
            ),
            (
                self.repeat && !(self.replay.is_some() && is_fastest),
                "repeat",
                "without --replay and --speed max",
            ),
            (
                self.object_mappings.is_some() && !has_log,
                "object-mappings",
                "without --replay or --trace",
            ),
            (
                self.tls_resumption.is_some() && !is_tls,
                "tls-resumption",
                "without an https URL",
            ),
            (
                self.tls_version.is_some() && !is_tls,
                "tls-version",
                "without an https URL",
            ),
            (self.insecure && !is_tls, "insecure", "without an https URL"),
            (self.ca.is_some() && !is_tls, "ca", "without an https URL"),
        ];
        refuse_ignored(&ignored)
    }

    fn connections(&self, workload: &Workload, arrivals: Arrivals) -> u32 {
        let default = match (workload, arrivals) {
            (Workload::Surge { users }, _) => return *users,
            (Workload::Application { .. }, _) => return self.clients.unwrap_or(DEFAULT_CLIENTS),
            (Workload::WebStone, Arrivals::Closed) => WEBSTONE_CLIENTS,
            (_, Arrivals::Closed) => DEFAULT_CONNECTIONS,
            _ => DEFAULT_OPEN_CONNECTIONS,
        };
        self.connections.unwrap_or(default)
    }

    fn workload(&self) -> Result<Workload, Failure> {
        if let Some(file) = &self.application {
            return Ok(Workload::Application {
                file: file.clone(),
                each: self.each,
            });
        }
        if let Some(file) = &self.replay {
            if !matches!(self.workload, None | Some(WorkloadName::Trace)) {
                return Err(Failure::usage(
                    "--replay: has its own workload; leave out --workload",
                ));
            }
            return Ok(self.log_workload(file, self.repeat));
        }
        if self.dynamic && self.workload != Some(WorkloadName::SpecWeb99) {
            return Err(Failure::usage(
                "--dynamic: only --workload specweb99 has dynamic operations",
            ));
        }
        match (self.workload, &self.trace) {
            (None | Some(WorkloadName::Trace), Some(file)) => Ok(self.log_workload(file, true)),
            (Some(WorkloadName::Trace), None) => Err(Failure::usage(
                "--workload trace: no log to replay",
            )
            .with_hint("name it with `--trace FILE`, or with `--replay FILE` to keep its times")),
            (_, Some(_)) => Err(Failure::usage("--trace: only --workload trace reads a log")),
            (None | Some(WorkloadName::File), None) => Ok(Workload::File),
            (Some(WorkloadName::SpecWeb99), None) => Ok(Workload::SpecWeb99 {
                dynamic: self.dynamic,
            }),
            (Some(WorkloadName::Surge), None) => Ok(Workload::Surge {
                users: self.users.unwrap_or(DEFAULT_USERS),
            }),
            (Some(WorkloadName::WebStone), None) => Ok(Workload::WebStone),
            (Some(WorkloadName::WorldCup), None) => Ok(Workload::WorldCup),
            (Some(WorkloadName::Ibm), None) => Ok(Workload::Ibm),
        }
    }

    fn log_workload(&self, file: &Path, repeats: bool) -> Workload {
        Workload::Trace {
            file: file.to_owned(),
            objects: self.object_mappings.clone(),
            spread: self.spread.unwrap_or(Spread::Uniform),
            repeats,
        }
    }

    fn arrivals(&self) -> Result<Arrivals, Failure> {
        let process = self.arrivals.unwrap_or(Process::Fixed);
        if self.replay.is_some() {
            return match self.speed.as_deref().unwrap_or("1") {
                MAX_SPEED => Ok(Arrivals::Closed),
                text => text
                    .parse()
                    .map(|speed| Arrivals::Recorded { speed })
                    .map_err(|_| {
                        Failure::usage(format!(
                            "--speed {text}: expected a factor such as 10, or max"
                        ))
                    }),
            };
        }
        Ok(match (self.rate, self.sessions_rate) {
            (Some(Rate(per_s)), _) => Arrivals::Requests { per_s, process },
            (None, Some(Rate(per_s))) => Arrivals::Sessions { per_s, process },
            (None, None) => Arrivals::Closed,
        })
    }

    fn requests_per_connection(&self) -> Result<Option<RequestsPerConnection>, Failure> {
        let parse = |text: &String| {
            text.parse()
                .map_err(|error| Failure::usage(format!("--requests-per-connection {error}")))
        };
        self.requests_per_connection.as_ref().map(parse).transpose()
    }

    fn sources(&self) -> Result<SourceAddresses, Failure> {
        match &self.source {
            None => Ok(SourceAddresses::default()),
            Some(text) => text
                .parse()
                .map_err(|error| Failure::usage(format!("--source {error}"))),
        }
    }

    fn shard(&self) -> Result<Shard, Failure> {
        match &self.shard {
            None => Ok(Shard::WHOLE),
            Some(text) => text
                .parse()
                .map_err(|error| Failure::usage(format!("--shard {error}"))),
        }
    }
}
