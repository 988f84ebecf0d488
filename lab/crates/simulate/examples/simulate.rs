//! Runs configurations without Python: `cargo run --release --example simulate -- W-0-N-N-FCFS-400
//! seed=2 nic.lowat=128 bulk workload.connections=512`. Prints one JSON result a line, followed by
//! the explanation with `explain=true` and the timeline with `timeline=true`.

use std::time::Instant;

use perpacket_simulate::{Progress, Simulation};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut runs: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for argument in std::env::args().skip(1) {
        match (argument.split_once('='), runs.last_mut()) {
            (Some((name, value)), Some((_, overrides))) => {
                overrides.push((name.to_owned(), value.to_owned()));
            }
            _ => runs.push((argument, Vec::new())),
        }
    }
    for (configuration, mut overrides) in runs {
        let seed = match overrides.iter().position(|(name, _)| name == "seed") {
            Some(index) => overrides.remove(index).1.parse()?,
            None => 1,
        };
        let explain = overrides.iter().position(|(name, _)| name == "explain");
        let explains = explain.is_some_and(|index| overrides.remove(index).1 == "true");
        let timeline = overrides.iter().position(|(name, _)| name == "timeline");
        let wants_timeline = timeline.is_some_and(|index| overrides.remove(index).1 == "true");
        let simulation = Simulation::new(&configuration, &overrides, None)?;
        let started = Instant::now();
        let simulated = simulation.run(seed, wants_timeline, &Progress::default())?;
        let wall_s = started.elapsed().as_secs_f64();
        println!("{}", serde_json::to_string(&simulated.outcome)?);
        if explains {
            println!("{}", serde_json::to_string(&simulated.explanation)?);
        }
        if let Some(timeline) = simulated.timeline {
            println!("{}", serde_json::to_string(&timeline)?);
        }
        eprintln!(
            "{:.2} M packets/s",
            simulation.packets() as f64 / wall_s / 1e6
        );
    }
    Ok(())
}
