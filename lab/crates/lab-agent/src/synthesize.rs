//! `media`: synthesize media files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use perpacket_agent::output::Output;
use perpacket_agent::status::{Failure, Status};
use perpacket_agent::stop;
use perpacket_agent::verb::Verb;
use perpacket_media::wire::synthesis::{RATES_BPS, Stream};
use perpacket_spec::{BitRate, Seed, Spec, SpecError, Time, Whole};
use schemars::JsonSchema;
use serde::Serialize;

const EXAMPLE: &str = "Example:\n  perpacket-agent media synthesize --into media --files 100 \
    --bit-rate 300kb/s --duration 60s";

/// Write transport streams of constant rate; a seed determines their bytes.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct SynthesizeSpec {
    /// Folder for the files stream-00000.ts and so on; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Number of files.
    #[arg(long, value_name = "N", default_value = "1")]
    files: Whole<1, 100_000>,
    /// Rate of each stream.
    #[arg(long, value_name = "BIT-RATE", default_value_t = BitRate(300_000))]
    bit_rate: BitRate,
    /// Length of each stream.
    #[arg(long, value_name = "TIME", default_value_t = Time::from_secs(60))]
    duration: Time,
    #[command(flatten)]
    #[serde(flatten)]
    seed: Seed,
}

/// The report of `media synthesize`.
#[derive(Serialize)]
struct Written {
    schema: u32,
    /// Folder of the files.
    folder: PathBuf,
    files: u32,
    /// Rate of each stream.
    rate_bps: u64,
    /// Seed of everything random.
    seed: u64,
    file_bytes: u64,
}

/// Longest stream: two days.
const DURATION_LIMIT: Time = Time::from_secs(172_800);

impl Spec for SynthesizeSpec {
    fn resolved(self) -> Result<Self, SpecError> {
        let duration = self.duration;
        if duration.0.is_zero() || duration > DURATION_LIMIT {
            return Err(SpecError::new(format!(
                "--duration {duration}: expected more than 0, at most {DURATION_LIMIT}"
            )));
        }
        if !RATES_BPS.contains(&self.bit_rate.0) {
            return Err(SpecError::new(format!(
                "--bit-rate {}: expected {} to {}",
                self.bit_rate,
                BitRate(*RATES_BPS.start()),
                BitRate(*RATES_BPS.end()),
            )));
        }
        Ok(self)
    }
}

pub fn verb() -> Verb {
    Verb::new("media synthesize", EXAMPLE, run)
}

/// Writes the files and prints the report.
fn run(spec: SynthesizeSpec, output: &Output) -> Result<Status, Failure> {
    let duration = spec.duration.0;
    let folder = &spec.into;
    let failed =
        |path: &Path, error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let stop = stop::on_signals()?;
    let (mut written, mut packets) = (0, 0);
    for file in 0..spec.files.get() {
        let stream = Stream {
            seed: spec.seed.seed,
            file,
            rate_bps: spec.bit_rate.0,
        };
        packets = stream.packets_in(duration.as_secs_f64());
        let path = folder.join(stream.file_name());
        if !write(&stream, packets, &path, &stop).map_err(|error| failed(&path, error))? {
            break;
        }
        written += 1;
    }
    let result = Written {
        schema: 1,
        folder: folder.clone(),
        files: written,
        rate_bps: spec.bit_rate.0,
        seed: spec.seed.seed,
        file_bytes: packets * 188,
    };
    output.print(&result, |result| {
        format!(
            "{} files of {} bytes at {} b/s in {}\n",
            result.files,
            result.file_bytes,
            result.rate_bps,
            result.folder.display()
        )
    })?;
    Ok(if written == spec.files.get() {
        Status::Done
    } else {
        Status::Interrupted
    })
}

/// Writes a file under a temporary name and renames it. Returns false if a signal stopped it.
fn write(stream: &Stream, packets: u64, path: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let unfinished = path.with_extension("unfinished");
    let mut output = BufWriter::with_capacity(1 << 20, File::create(&unfinished)?);
    for index in 0..packets {
        output.write_all(&stream.packet(index))?;
        if index % 4096 == 0 && stop.load(Ordering::Relaxed) {
            fs::remove_file(&unfinished)?;
            return Ok(false);
        }
    }
    output.into_inner()?;
    fs::rename(&unfinished, path)?;
    Ok(true)
}
