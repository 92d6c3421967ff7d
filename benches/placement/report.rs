//! All results in one place, each beside its goal.

use std::fmt;

use serde::Serialize;

use super::rows::{Row, Section};

/// How many times faster than the reference placing a batch has to be: natively, as WebAssembly.
const FACTORS: [f64; 2] = [20.0, 10.0];
/// How many times as long a request may take among 100 times as many.
const GROWTH: f64 = 2.0;
/// How fast hashing has to be natively, in GB/s.
const HASHING: f64 = 5.0;
/// As WebAssembly, in parts of the native speed.
const HASHING_AS_WASM: f64 = 0.5;

/// Which build was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Native,
    Wasm,
}

impl Build {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Wasm => "wasm",
        }
    }
}

/// How long a row takes once, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Time {
    median_ns: f64,
    best_ns: f64,
}

impl Time {
    /// `None` without samples.
    pub(crate) fn of(mut nanoseconds: Vec<f64>) -> Option<Self> {
        nanoseconds.sort_by(f64::total_cmp);
        Some(Self {
            median_ns: *nanoseconds.get(nanoseconds.len() / 2)?,
            best_ns: *nanoseconds.first()?,
        })
    }
}

/// A row and its results.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(flatten)]
    row: Row,
    /// Bytes that are read, or else requests that are placed.
    size: usize,
    native: Option<Time>,
    wasm: Option<Time>,
}

impl Line {
    /// Whether the command line did not leave it out.
    fn is_measured(&self) -> bool {
        self.native.is_some() || self.wasm.is_some()
    }

    fn time(&self, build: Build) -> Option<f64> {
        let time = match build {
            Build::Native => self.native,
            Build::Wasm => self.wasm,
        };
        Some(time?.best_ns)
    }
}

/// What a row is judged by.
struct Judged {
    value: f64,
    unit: &'static str,
    missed: bool,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, unit, .. } = self;
        let digits = digits(*value);
        let mark = if self.missed { " (missed)" } else { "" };
        write!(f, "{value:.digits$}{unit}{mark}")
    }
}

/// Decimals that make three digits.
fn digits(value: f64) -> usize {
    match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    }
}

/// The results so far.
pub(crate) struct Report {
    machine: String,
    lines: Vec<Line>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            machine: machine(),
            lines: Vec::new(),
        }
    }

    /// Adds a row and what was measured of it.
    pub(crate) fn add(&mut self, row: Row, size: usize, native: Option<Time>, wasm: Option<Time>) {
        self.lines.push(Line {
            row,
            size,
            native,
            wasm,
        });
    }

    pub(crate) fn json(&self) -> anyhow::Result<String> {
        #[derive(Serialize)]
        struct Whole<'a> {
            machine: &'a str,
            rows: &'a [Line],
            missed: Vec<String>,
        }
        let whole = Whole {
            machine: &self.machine,
            rows: &self.lines,
            missed: self.missed(),
        };
        Ok(serde_json::to_string_pretty(&whole)? + "\n")
    }

    /// As Markdown whose tables are aligned.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "# Speed\n\n{}\n\nProcessor time of one thread, the fastest of 20 samples. WebAssembly runs under \
             wasmtime. The reference's times are those of its own benchmark, measured elsewhere \
             (Go 1.27, 2 shared cores): the fastest and the slowest run. Factors compare fastest \
             with fastest.\n",
            self.machine
        );
        for (section, title, goal) in [
            (
                Section::Place,
                "Placing a batch, hashing not included",
                "Goal: 20 times faster than the reference, 10 times as WebAssembly.",
            ),
            (
                Section::Scale,
                "100 times the requests",
                "Goal: the time of a request at most doubles.",
            ),
            (
                Section::Hash,
                "Hashing a prompt",
                "Goal: 5 GB/s, and at least half the native speed as WebAssembly.",
            ),
            (
                Section::Read,
                "Reading a request, hashing included",
                "No goal is set.",
            ),
        ] {
            let of_section = |line: &Line| line.row.section == section && line.is_measured();
            if !self.lines.iter().any(of_section) {
                continue;
            }
            text.push_str(&format!(
                "\n## {title}\n\n{goal}\n\n{}",
                self.table(section)
            ));
        }
        let missed = self.missed();
        let verdict = if missed.is_empty() {
            "Every row that was measured reaches its goal.".to_owned()
        } else {
            format!("Goals missed:\n\n- {}", missed.join("\n- "))
        };
        text + "\n" + &verdict + "\n"
    }

    fn table(&self, section: Section) -> String {
        let (size, unit, nanoseconds) = if section.is_in_bytes() {
            ("bytes", "µs", 1e3)
        } else {
            ("requests", "ms", 1e6)
        };
        let judged_by = match section {
            Section::Place => "factor",
            Section::Scale => "time a request",
            Section::Hash | Section::Read => "speed",
        };
        let mut rows = vec![vec![
            "row".to_owned(),
            size.to_owned(),
            format!("reference {unit}"),
            format!("native {unit}"),
            judged_by.to_owned(),
            format!("wasm {unit}"),
            judged_by.to_owned(),
        ]];
        let time = |time: f64| {
            let time = time / nanoseconds;
            format!("{time:.0$}", digits(time))
        };
        let of_section = |line: &Line| line.row.section == section && line.is_measured();
        let lines = self.lines.iter().enumerate();
        for (place, line) in lines.filter(|(_, line)| of_section(line)) {
            let mut cells = vec![line.row.name.clone(), line.size.to_string()];
            cells.push(match line.row.reference_ms {
                Some((low, high)) if low < high => {
                    format!("{}–{}", time(low * 1e6), time(high * 1e6))
                }
                Some((low, _)) => time(low * 1e6),
                None => String::new(),
            });
            for build in [Build::Native, Build::Wasm] {
                cells.push(line.time(build).map(time).unwrap_or_default());
                let judged = self.judge(place, build);
                cells.push(judged.map(|judged| judged.to_string()).unwrap_or_default());
            }
            rows.push(cells);
        }
        aligned(&rows)
    }

    /// `None` where there is nothing to judge by.
    fn judge(&self, place: usize, build: Build) -> Option<Judged> {
        let line = self.lines.get(place)?;
        let time = line.time(build)?;
        let [native_factor, wasm_factor] = FACTORS;
        Some(match line.row.section {
            Section::Place => {
                let value = line.row.reference_ms?.0 * 1e6 / time;
                let goal = match build {
                    Build::Native => native_factor,
                    Build::Wasm => wasm_factor,
                };
                Judged {
                    value,
                    unit: "x",
                    missed: value < goal,
                }
            }
            Section::Scale => {
                let small = self.lines.get(place.checked_sub(1)?)?;
                if small.row.section != Section::Scale || small.size >= line.size {
                    return None;
                }
                let value = time / line.size as f64 * small.size as f64 / small.time(build)?;
                Judged {
                    value,
                    unit: "x",
                    missed: value > GROWTH,
                }
            }
            Section::Hash | Section::Read => {
                let value = line.size as f64 / time;
                let goal = match (line.row.section, build) {
                    (Section::Hash, Build::Native) => HASHING,
                    (Section::Hash, Build::Wasm) => {
                        line.size as f64 / line.time(Build::Native)? * HASHING_AS_WASM
                    }
                    _ => 0.0,
                };
                Judged {
                    value,
                    unit: " GB/s",
                    missed: value < goal,
                }
            }
        })
    }

    fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (place, line) in self.lines.iter().enumerate() {
            for build in [Build::Native, Build::Wasm] {
                if let Some(judged) = self.judge(place, build).filter(|judged| judged.missed) {
                    let (section, build) = (line.row.section.name(), build.name());
                    missed.push(format!("{section}, {}, {build}: {judged}", line.row.name));
                }
            }
        }
        missed
    }
}

/// A table of Markdown, of which the first row is the head.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            text.push_str(&if column == 0 {
                format!("| {cell:<width$} |")
            } else {
                format!(" {cell:>width$} |")
            });
        }
        text.push('\n');
        if i == 0 {
            for (column, &width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width);
                text.push_str(&if column == 0 {
                    format!("|-{dashes}-|")
                } else {
                    format!("-{dashes}:|")
                });
            }
            text.push('\n');
        }
    }
    text
}

/// The processor, the cores and how busy they were when the bench began, as far as Linux tells.
fn machine() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("an unknown processor".to_owned(), |(_, name)| {
            name.to_owned()
        });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().filter(|load| !load.is_empty());
    format!(
        "Machine: {processor}, {cores} cores, load {} at the start.",
        load.unwrap_or("unknown")
    )
}
