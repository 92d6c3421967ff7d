//! The official Python clients of OpenAI and Anthropic.
//!
//! `make test` installs them into `target/tools/clients`; `CLIENTS` names another place, `PYTHON`
//! another Python. The scripts below `tests/clients` take any base URL.

use std::path::PathBuf;
use std::process::Command;

/// Where the clients are installed.
fn clients() -> PathBuf {
    let place = match std::env::var_os("CLIENTS") {
        Some(place) => place.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tools/clients"),
    };
    let there = |package: &str| place.join(package).join("__init__.py").is_file();
    assert!(
        there("openai") && there("anthropic"),
        "the Python clients are not in {}: run `make test`, which installs them",
        place.display()
    );
    place
}

/// Runs a script of `tests/clients` against a server.
pub(crate) fn run(script: &str, base_url: &str) {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(python)
        .arg(
            PathBuf::from(env!("CARGO_MANIFEST_DIR"))
                .join("tests/clients")
                .join(script),
        )
        .args(["--base-url", base_url])
        .env("PYTHONPATH", clients())
        // What is set for other servers must not send the requests there.
        .env_remove("OPENAI_BASE_URL")
        .env_remove("ANTHROPIC_BASE_URL")
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
