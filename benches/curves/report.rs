//! The numbers, as a table, and what of them should not be.

use std::collections::BTreeMap;
use std::time::Duration;

use super::step::{MEMORY, Policy, QUIET, Run, Step, Traffic, WORKERS};

/// The least co-location of a step that the filter remembers.
const COLOCATION: f64 = 0.99;
/// The most requests on a replica, in fair shares.
const BUSIEST: f64 = 1.3;
/// How much longer than its window a request may wait in a healthy Envoy: a late timer, a message
/// to the owner and one back, and what a worker does in between.
const LATE: Duration = Duration::from_millis(20);

/// What should not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Scattered,
    Uneven,
    Late,
}

/// The steps of all seeds with one policy and window.
pub(crate) struct Point {
    pub(crate) step: Step,
    pub(crate) policy: Policy,
    pub(crate) window: Option<Duration>,
    /// The mean over the seeds.
    pub(crate) colocation: f64,
    replicas_a_group: f64,
    pub(crate) busiest: f64,
    /// The seed where each was worst, and how bad.
    least_colocation: (f64, usize),
    most_busy: (f64, usize),
    /// Of all requests, ascending.
    waits: Vec<Duration>,
}

impl Point {
    pub(crate) fn of(step: Step, policy: Policy, window: Option<Duration>, runs: Vec<Run>) -> Self {
        let mean = |of: fn(&Run) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let seeds = || runs.iter().enumerate();
        let worst = |of: fn(&Run) -> f64| {
            let values = seeds().map(|(seed, run)| (of(run), seed));
            values
                .min_by(|one, other| one.0.total_cmp(&other.0))
                .unwrap_or_default()
        };
        let most_busy = worst(|run| -run.busiest);
        let least_colocation = worst(|run| run.colocation);
        let (colocation, replicas_a_group) =
            (mean(|run| run.colocation), mean(|run| run.replicas_a_group));
        let busiest = mean(|run| run.busiest);
        let mut waits: Vec<Duration> = runs.into_iter().flat_map(|run| run.waits).collect();
        waits.sort_unstable();
        Self {
            step,
            policy,
            window,
            colocation,
            replicas_a_group,
            busiest,
            least_colocation,
            most_busy: (-most_busy.0, most_busy.1),
            waits,
        }
    }

    pub(crate) fn is_of(&self, (replicas, lasts_ms): (usize, u64)) -> bool {
        self.step.replicas == replicas && self.step.lasts == Duration::from_millis(lasts_ms)
    }

    /// The wait that so many of a hundred requests do not exceed, in milliseconds.
    pub(crate) fn wait_ms(&self, percent: usize) -> f64 {
        let last = self.waits.len().saturating_sub(1);
        let wait = self.waits.get(last * percent / 100);
        wait.map_or(0.0, |wait| wait.as_secs_f64() * 1e3)
    }

    fn window_ms(&self) -> String {
        let window = self.window.map(|window| window.as_millis().to_string());
        window.unwrap_or_else(|| "–".into())
    }

    /// What should not be, with the seed that shows it, and how far it is off its bound.
    fn faults(&self) -> Vec<(Fault, f64, String)> {
        let mut faults = Vec::new();
        if matches!(self.policy, Policy::NoFilter | Policy::Reference) {
            return faults;
        }
        let ((colocation, of), (busiest, at)) = (self.least_colocation, self.most_busy);
        if colocation < COLOCATION {
            let told = format!("co-location of {:.1} % with seed {of}", colocation * 100.0);
            faults.push((Fault::Scattered, COLOCATION - colocation, told));
        }
        // A popular prompt without a bound is there to be compared with.
        let is_service = matches!(self.step.traffic, Traffic::Serving(_));
        let is_bounded = !is_service || self.step.most_per_replica.is_some();
        if busiest > BUSIEST && is_bounded {
            let told = format!("a replica with {busiest:.2} fair shares with seed {at}");
            faults.push((Fault::Uneven, busiest - BUSIEST, told));
        }
        let most = self.window.map_or(Duration::ZERO, |window| window + LATE);
        let longest = self.waits.last().copied().unwrap_or_default();
        if longest > most {
            let told = format!("a wait of {} ms", longest.as_millis());
            faults.push((Fault::Late, (longest - most).as_secs_f64(), told));
        }
        faults
    }

    fn title(&self) -> String {
        let (step, policy) = (title(self.step), self.policy.name());
        format!("{step}, {policy}, window {}", self.window_ms())
    }
}

/// What is sent where, in words.
pub(crate) fn title(step: Step) -> String {
    let traffic = match step.traffic {
        Traffic::Groups(groups, size) => format!("{groups} groups of {size}"),
        Traffic::Serving(_) => "a service".to_owned(),
    };
    let most = step.most_per_replica;
    let most = most.map_or(String::new(), |most| format!(", at most {most} a replica"));
    format!(
        "{traffic}, {} replicas{most}, {} ms a request, arrivals over {} ms",
        step.replicas,
        step.lasts.as_millis(),
        step.spread.as_millis(),
    )
}

/// As Markdown.
pub(crate) fn text(points: &[Point], others: &[Point]) -> String {
    let mut text = format!(
        "# Co-location and wait over the window\n\n\
         Rollout steps, their requests in shuffled order and their arrivals spread evenly, and the \
         traffic of a service, through {WORKERS} workers under a simulated clock; the reference's windows, \
         which forget, in one. Memory is {} s, the quiet period {} ms.\n\n\
         - **co-location**: of all requests that have a group, those on the replica where most of \
         their group are; of a group of 8 that is all over the place 1 counts. The mean over the \
         seeds, and the lowest. A request without affinity goes where `least_request` sends it: of \
         two random replicas the one with fewer requests in flight.\n\
         - **replicas**: that a group was sent to, on the mean: how often its prompt is prefilled.\n\
         - **wait**: in ms, of all requests of all seeds.\n\
         - **busiest**: the requests on the busiest replica, in fair shares. The mean over the \
         seeds, and the highest.\n",
        MEMORY.as_secs(),
        QUIET.as_millis(),
    );
    let mut last = None;
    for point in points.iter().chain(others) {
        if last != Some(point.step) {
            last = Some(point.step);
            text.push_str(&format!(
                "\n## {}\n\n\
                 | {:<20} | window | co-location | lowest  | replicas | wait p50 |    p95 |    max | busiest | highest |\n\
                 |-{:-<20}-|-------:|------------:|--------:|---------:|---------:|-------:|-------:|--------:|--------:|\n",
                title(point.step),
                "",
                "",
            ));
        }
        text.push_str(&format!(
            "| {:<20} | {:>6} | {:>9.1} % | {:>5.1} % | {:>8.2} | {:>8.1} | {:>6.1} | {:>6.1} | {:>7.2} | {:>7.2} |\n",
            point.policy.name(),
            point.window_ms(),
            point.colocation * 100.0,
            point.least_colocation.0 * 100.0,
            point.replicas_a_group,
            point.wait_ms(50),
            point.wait_ms(95),
            point.wait_ms(100),
            point.busiest,
            point.most_busy.0,
        ));
    }
    // Of each kind, fleet and policy the worst; there may be many.
    let mut worst: BTreeMap<_, (usize, f64, String)> = BTreeMap::new();
    for point in points.iter().chain(others) {
        for (fault, by, told) in point.faults() {
            let step = point.step;
            let kind = (fault, step.replicas, step.lasts, point.policy);
            let (count, most, line) = worst.entry(kind).or_default();
            *count += 1;
            if by > *most {
                (*most, *line) = (by, format!("{}: {told}", point.title()));
            }
        }
    }
    let verdict = if worst.is_empty() {
        "No step with memory is below 99 % of co-location, no replica above 1.3 fair shares, and \
         nobody waits more than 20 ms longer than the window.\n"
            .to_owned()
    } else {
        let lines = worst.values();
        let lines: Vec<String> = lines
            .map(|(count, _, line)| format!("- {line}; one of {count} such lines"))
            .collect();
        format!(
            "What should not be, the worst of each kind:\n\n{}\n",
            lines.join("\n")
        )
    };
    text + "\n" + &verdict
}
