//! Builds the agent, so that one wheel holds the extension module and the executable: maturin
//! takes it from the out directory (see `pyproject.toml`).

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    // Everything the agent is built from; a change in anything else needs no new agent.
    for path in ["../agent/src", "../agent/Cargo.toml", "../../Cargo.lock"] {
        println!("cargo:rerun-if-changed={path}");
    }
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
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    if !cargo.status()?.success() {
        return Err("the agent could not be built; the messages above say why".into());
    }
    fs::copy(
        target.join("release/perpacket-agent"),
        out.join("perpacket-agent"),
    )?;
    Ok(())
}
