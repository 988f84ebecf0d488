//! Builds the agent, so that one wheel holds the extension module and the executable: maturin
//! takes it from the out directory (see `pyproject.toml`).

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    // Everything the agent is built from; a change in anything else needs no new agent.
    for name in [
        "agent",
        "cost",
        "link",
        "load",
        "microbench",
        "profiler",
        "router",
        "rtp",
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
        // Flags meant for this build, such as a linter's wrapper, are not meant for that one.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        // Its symbols stay, for profiles of our own server; what debuggers need would be most of it.
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        // Whole-program optimization is for the simulator; here it would only take minutes.
        .env("CARGO_PROFILE_RELEASE_LTO", "thin")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    if !cargo.status()?.success() {
        return Err("the agent could not be built; the messages above say why".into());
    }
    fs::copy(
        target.join("release/perpacket-agent"),
        out.join("perpacket-agent"),
    )?;
    Ok(())
}
