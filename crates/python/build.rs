//! Builds the agent, so that one wheel holds the extension module and the executable: maturin
//! takes it from the out directory (see `pyproject.toml`).

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// How far a build looks beyond a crate; whoever asks for one decides for both.
const OPTIMIZATION: &str = "CARGO_PROFILE_RELEASE_LTO";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=RUSTC_WORKSPACE_WRAPPER");
    if env::var_os("RUSTC_WORKSPACE_WRAPPER").is_some() {
        return Ok(()); // a linter looks at the code alone, and makes no wheel
    }
    // Everything the agent is built from; a change in anything else needs no new agent.
    for name in [
        "agent",
        "cost",
        "link",
        "load",
        "media",
        "microbench",
        "profiler",
        "router",
        "serve",
        "workload",
    ] {
        println!("cargo:rerun-if-changed=../{name}/src");
        println!("cargo:rerun-if-changed=../{name}/Cargo.toml");
    }
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let target = out.join("agent");
    let mut cargo = Command::new(env::var_os("CARGO").ok_or("CARGO is not set")?);
    cargo
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            "perpacket-agent",
            "--target-dir",
        ])
        .arg(&target)
        // Flags meant for this build are not meant for that one.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // Its symbols stay, for profiles of our own server; what debuggers need would be most of it.
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    if env::var_os(OPTIMIZATION).is_none() {
        // Whole-program optimization is for the simulator; here it would only take minutes.
        cargo.env(OPTIMIZATION, "thin");
    }
    if !cargo.status()?.success() {
        return Err("the agent could not be built; the messages above say why".into());
    }
    fs::copy(
        target.join("release/perpacket-agent"),
        out.join("perpacket-agent"),
    )?;
    Ok(())
}
