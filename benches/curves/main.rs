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

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use report::Point;
use step::{Policy, Step, Traffic};

const WINDOWS_MS: [u64; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1500];
const SPREADS_MS: [u64; 4] = [0, 50, 300, 860];
/// The replicas, and how long a request takes there, in milliseconds. The first is drawn.
const FLEETS: [(usize, u64); 4] = [(4, 200), (4, 1), (8, 200), (8, 1)];
const SEEDS: u64 = 20;

/// The step whose curves are drawn.
const GROUPS: Traffic = Traffic::Groups(32, 8);

/// Groups of other sizes, and the traffic of a service for ten seconds.
fn other_steps() -> Vec<Step> {
    let sizes = [(512, 2), (64, 16), (16, 64)];
    let steps = sizes.map(|(groups, size)| Step {
        traffic: Traffic::Groups(groups, size),
        most_per_replica: None,
        replicas: 4,
        lasts: Duration::from_millis(200),
        spread: Duration::from_millis(300),
    });
    let bounds = [
        None,
        NonZeroU32::new(8),
        NonZeroU32::new(16),
        NonZeroU32::new(32),
    ];
    let services = bounds.map(|most_per_replica| Step {
        traffic: Traffic::Serving(600),
        most_per_replica,
        replicas: 8,
        lasts: Duration::from_millis(500),
        spread: Duration::from_secs(10),
    });
    steps.into_iter().chain(services).collect()
}

/// All seeds of a step, for each of the windows if the policy has any.
fn measure(step: Step, policy: Policy, windows_ms: &[u64], seeds: u64, points: &mut Vec<Point>) {
    let windows = if policy.has_window() {
        windows_ms
    } else {
        &[0]
    };
    for window_ms in windows {
        let window = policy
            .has_window()
            .then(|| Duration::from_millis(*window_ms));
        let title = report::title(step);
        eprintln!("curves: {title}, {}, window {window:?}", policy.name());
        let runs = (0..seeds).map(|seed| step.run(policy, window.unwrap_or_default(), seed));
        points.push(Point::of(step, policy, window, runs.collect()));
    }
}

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
            let step = Step {
                traffic: GROUPS,
                most_per_replica: None,
                replicas,
                lasts: Duration::from_millis(lasts_ms),
                spread: Duration::from_millis(spread_ms),
            };
            for policy in Policy::ALL {
                measure(step, policy, &WINDOWS_MS, seeds, &mut points);
            }
        }
    }
    let mut others = Vec::new();
    for step in other_steps() {
        for (policy, window_ms) in [
            (Policy::NoFilter, 0),
            (Policy::HoldNone, 0),
            (Policy::Reference, 100),
            (Policy::Memory, 10),
            (Policy::Quiet, 1500),
        ] {
            measure(step, policy, &[window_ms], seeds, &mut others);
        }
    }
    if is_measured {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench");
        std::fs::create_dir_all(&directory)?;
        let text = report::text(&points, &others);
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
