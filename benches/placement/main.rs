//! How fast batches are placed, prompts hashed and bodies read, natively and as WebAssembly, beside
//! the reference.
//!
//! ```text
//! make bench                                  # everything
//! cargo bench --bench placement -- native     # natively only
//! ```
//!
//! Criterion measures, but processor time instead of the clock's: of the one thread that works, so
//! that what else the machine does counts little. All results together are printed at the end, and
//! written to `target/bench/placement.md` and `.json`.

mod report;
mod rows;
mod wasm;
mod work;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use cpu_time::ThreadTime;
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

use report::{Build, Report, Time};
use rows::Row;
use wasm::Guest;

/// How often each row is measured.
const SAMPLES: usize = 20;

fn main() -> anyhow::Result<()> {
    let mut criterion = Criterion::default()
        .sample_size(SAMPLES)
        .nresamples(5_000)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
        .configure_from_args();

    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench");
    let guest = directory.join("wasm32-wasip1/release/bench_guest.wasm");
    let mut guest = if guest.is_file() {
        let loaded = Guest::load(&guest).map_err(wasm::trap);
        Some(loaded.with_context(|| format!("loading {}", guest.display()))?)
    } else {
        eprintln!("There is no WebAssembly to measure; `make bench` builds it.");
        None
    };

    let mut report = Report::new();
    for (place, row) in rows::all().into_iter().enumerate() {
        let work = row.task.prepare();
        let size = work.size();
        let native = work.with(|run| {
            measure(&mut criterion, &row, Build::Native, size, |times| {
                run(times);
                Ok(())
            })
        })?;
        drop(work);
        let wasm = match &mut guest {
            None => None,
            Some(guest) => {
                guest.prepare(place)?;
                let run = |times| guest.run(times);
                measure(&mut criterion, &row, Build::Wasm, size, run)?
            }
        };
        report.add(row, size, native, wasm);
    }
    criterion.final_summary();

    // Without `--bench`, criterion only tries whether everything runs.
    if std::env::args().any(|argument| argument == "--bench") {
        write(&directory, &report)?;
    }
    Ok(())
}

/// Has criterion measure a row; `None` where the command line leaves it out.
fn measure(
    criterion: &mut Criterion,
    row: &Row,
    build: Build,
    size: usize,
    mut run: impl FnMut(u64) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Time>> {
    let mut nanoseconds = Vec::new();
    let mut result = Ok(());
    let mut group = criterion.benchmark_group(row.section.name());
    group.sampling_mode(SamplingMode::Flat);
    group.throughput(if row.section.is_in_bytes() {
        Throughput::Bytes(size as u64)
    } else {
        Throughput::Elements(size as u64)
    });
    group.bench_function(BenchmarkId::new(build.name(), &row.name), |bencher| {
        bencher.iter_custom(|times| {
            let start = ThreadTime::now();
            let ran = run(times);
            let time = start.elapsed();
            if result.is_ok() {
                result = ran;
            }
            nanoseconds.push(time.as_nanos() as f64 / times as f64);
            // Criterion divides by it.
            time.max(Duration::from_nanos(1))
        });
    });
    group.finish();
    result?;
    // What comes before the samples is warm-up.
    let samples = nanoseconds.split_off(nanoseconds.len().saturating_sub(SAMPLES));
    Ok(Time::of(samples))
}

fn write(directory: &Path, report: &Report) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    let text = report.text();
    print!("\n{text}\n");
    for (name, content) in [("placement.md", text), ("placement.json", report.json()?)] {
        let file = directory.join(name);
        std::fs::write(&file, content).with_context(|| format!("writing {}", file.display()))?;
        println!("written to {}", file.display());
    }
    Ok(())
}
