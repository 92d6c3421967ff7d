//! How many requests of a rollout step land with their group, and how long they wait for that, over
//! the length of the window.
//!
//! ```text
//! make bench ARGS=curves
//! ```
//!
//! The filter's own workers run under the simulated clock of `tests/window`, so a run takes seconds
//! and gives the same numbers each time. They are printed, and written to `target/bench/curves.md`
//! and, drawn, to `target/bench/curves.svg`.

mod plot;
mod report;
#[path = "../../tests/window/sim.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared with the window's tests, and fails by panicking as they do"
)]
mod sim;
mod step;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use report::Point;
use step::{Policy, Step};

const WINDOWS_MS: [u64; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1500];
const SPREADS_MS: [u64; 4] = [0, 50, 300, 860];
/// The replicas, and how long a request takes there, in milliseconds. The first is drawn.
const FLEETS: [(usize, u64); 4] = [(4, 200), (4, 1), (8, 200), (8, 1)];
const SEEDS: u64 = 20;

fn main() -> anyhow::Result<()> {
    let filters: Vec<String> = std::env::args().skip(1).collect();
    // Criterion's benches take the same words: the parts to measure, and options for criterion.
    let mut words = filters.iter().filter(|word| !word.starts_with('-'));
    if words.clone().count() > 0 && !words.any(|word| "curves".contains(word.as_str())) {
        return Ok(());
    }
    // Without `--bench` this only tries whether everything runs.
    let is_measured = filters.iter().any(|word| word == "--bench");
    let seeds = if is_measured { SEEDS } else { 1 };

    let mut points = Vec::new();
    for (replicas, lasts_ms) in FLEETS {
        for spread_ms in SPREADS_MS {
            eprintln!(
                "curves: {replicas} replicas, {lasts_ms} ms a request, arrivals over {spread_ms} ms"
            );
            let step = Step {
                replicas,
                lasts: Duration::from_millis(lasts_ms),
                spread: Duration::from_millis(spread_ms),
            };
            for policy in Policy::ALL {
                let windows = if policy.has_window() {
                    &WINDOWS_MS[..]
                } else {
                    &WINDOWS_MS[..1]
                };
                for window_ms in windows {
                    let window = Duration::from_millis(*window_ms);
                    let runs = (0..seeds).map(|seed| step.run(policy, window, seed));
                    let window = policy.has_window().then_some(window);
                    points.push(Point::of(step, policy, window, runs.collect()));
                }
            }
        }
    }
    if is_measured {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench");
        std::fs::create_dir_all(&directory)?;
        let text = report::text(&points);
        print!("\n{text}\n");
        let drawn: Vec<&Point> = points
            .iter()
            .filter(|point| point.is_of(FLEETS[0]))
            .collect();
        for (name, content) in [("curves.md", text), ("curves.svg", plot::svg(&drawn)?)] {
            let file = directory.join(name);
            std::fs::write(&file, content)
                .with_context(|| format!("writing {}", file.display()))?;
            println!("written to {}", file.display());
        }
    }
    Ok(())
}
