//! A rollout step, or other traffic, sent through the filter's workers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::time::Duration;

use burst_prefix_cache::placement::{BalanceBy, Rules};
use burst_prefix_cache::replicas::Source;
use burst_prefix_cache::window::{Arrival, Settings};
use burst_prefix_cache::workers::Moment;
use fastrand::Rng;

use super::sim::{Fate, Faults, Request, Sim};

pub(crate) const WORKERS: usize = 4;
/// Longer than any step: what is remembered stays so.
pub(crate) const MEMORY: Duration = Duration::from_secs(10);
/// Longer than any pause within the slowest step, whose requests come each 3.4 ms.
pub(crate) const QUIET: Duration = Duration::from_millis(50);
const START: Moment = Moment(1_000_000_000);

/// Who decides where requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Policy {
    /// Nobody but Envoy's `least_request`.
    NoFilter,
    /// Windows that forget, fixed from their first arrival, in one worker.
    Reference,
    /// With `groupMemoryMs`.
    Memory,
    /// With `groupMemoryMs` and `quietPeriodMs`.
    Quiet,
    /// With `groupMemoryMs`, and clients that tell the size of their groups.
    Told,
    /// With `groupMemoryMs` and `hold: none`.
    HoldNone,
}

impl Policy {
    pub(crate) const ALL: [Self; 6] = [
        Self::NoFilter,
        Self::HoldNone,
        Self::Reference,
        Self::Memory,
        Self::Quiet,
        Self::Told,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoFilter => "no filter",
            Self::Reference => "reference",
            Self::Memory => "memory",
            Self::Quiet => "memory, quiet period",
            Self::Told => "memory, group sizes",
            Self::HoldNone => "memory, hold: none",
        }
    }

    pub(crate) fn has_window(self) -> bool {
        !matches!(self, Self::NoFilter | Self::HoldNone)
    }

    fn settings(self, window: Duration, step: Step) -> Settings {
        let remembers = self != Self::Reference;
        Settings {
            window,
            quiet: (self == Self::Quiet).then_some(QUIET),
            max_batch: None,
            seal: false,
            hold: self != Self::HoldNone,
            memory: if remembers { MEMORY } else { Duration::ZERO },
            rules: Rules {
                max_per_replica: step.most_per_replica,
                min_colocate_blocks: 0,
                balance_by: BalanceBy::Requests,
            },
            source: Source::Static(names(step.replicas)),
        }
    }
}

fn names(replicas: usize) -> Vec<String> {
    (1..=replicas).map(|i| format!("10.0.0.{i}:8000")).collect()
}

/// What arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// So many groups of this size, in shuffled order.
    Groups(u32, u32),
    /// Of each ten requests two have one popular prompt, three a prompt of their own, and five are
    /// of an agent's fan-out: five requests within 50 ms.
    Serving(u32),
}

/// The group with the popular prompt.
const POPULAR: u32 = 0;
const FAN_OUT: u32 = 5;
const FAN_OUT_SPREAD: Duration = Duration::from_millis(50);

/// What is sent where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) traffic: Traffic,
    /// `maxPerReplica`
    pub(crate) most_per_replica: Option<NonZeroU32>,
    pub(crate) replicas: usize,
    /// How long a request takes on its replica.
    pub(crate) lasts: Duration,
    /// How long its requests take to arrive.
    pub(crate) spread: Duration,
}

/// What became of a step.
#[derive(Debug)]
pub(crate) struct Run {
    /// Requests on the replica where most of their group are, of all that have a group.
    pub(crate) colocation: f64,
    /// Replicas that a group was sent to, on the mean.
    pub(crate) replicas_a_group: f64,
    /// The requests on the busiest replica, in fair shares.
    pub(crate) busiest: f64,
    /// How long each request waited.
    pub(crate) waits: Vec<Duration>,
}

impl Step {
    pub(crate) fn run(self, policy: Policy, window: Duration, seed: u64) -> Run {
        let mut rng = Rng::with_seed(seed);
        let (groups, requests) = self.requests(policy, &mut rng);
        let fates: Vec<Option<Fate>> = if policy == Policy::NoFilter {
            vec![None; requests.len()]
        } else {
            let workers = if policy == Policy::Reference {
                1
            } else {
                WORKERS
            };
            // What the filter meets in Envoy: timers of 4 ms, and a queue between threads.
            let faults = Faults {
                late_messages: Duration::from_micros(200),
                late_ticks: Duration::from_millis(if policy == Policy::Reference { 0 } else { 4 }),
                ..Faults::default()
            };
            let settings = policy.settings(window, self);
            let sim = Sim::new(
                &settings,
                workers,
                requests.clone(),
                &[],
                faults,
                rng.u64(..),
            );
            sim.run();
            let fates = sim.fates.take();
            fates.into_iter().map(|mut fates| fates.pop()).collect()
        };
        let sent: Vec<(Moment, Option<String>)> = requests
            .iter()
            .zip(fates)
            .map(|(request, fate)| sent(request.at, fate))
            .collect();
        let on = self.routed(&sent, &mut rng);
        let waits = requests.iter().zip(&sent);
        let waits = waits.map(|(request, (at, _))| at.since(request.at));
        self.outcome(&groups, &on, waits.collect())
    }

    /// The requests in their order of arrival, and the group of each.
    fn requests(self, policy: Policy, rng: &mut Rng) -> (Vec<u32>, Vec<Request>) {
        let mut arrivals: Vec<(u64, u32)> = match self.traffic {
            Traffic::Groups(groups, size) => {
                let mut at: Vec<u64> = (0..groups * size)
                    .map(|_| rng.u64(..=nanos(self.spread)))
                    .collect();
                at.sort_unstable();
                let mut groups: Vec<u32> = (0..groups * size).map(|i| i % groups).collect();
                rng.shuffle(&mut groups);
                at.into_iter().zip(groups).collect()
            }
            Traffic::Serving(requests) => (0..requests)
                .flat_map(|group| {
                    let at = rng.u64(..=nanos(self.spread));
                    match group % 6 {
                        0 | 1 => vec![(at, POPULAR)],
                        2 => (0..FAN_OUT)
                            .map(|_| (at + rng.u64(..=nanos(FAN_OUT_SPREAD)), group))
                            .collect(),
                        _ => vec![(at, group)],
                    }
                })
                .collect(),
        };
        arrivals.sort_by_key(|(at, _)| *at);
        let workers = if policy == Policy::Reference {
            1
        } else {
            WORKERS
        };
        let request = |(at, group): &(u64, u32)| {
            let at = START.plus(Duration::from_nanos(*at));
            let blocks = (0..32).map(|block| u64::from(*group) << 32 | block);
            let mut request = Request::new(rng.usize(..workers), at, blocks.collect());
            request.lasts = self.lasts;
            if let (Policy::Told, Traffic::Groups(_, size)) = (policy, self.traffic) {
                request.asks.group_size = NonZeroU32::new(size);
            }
            request
        };
        let requests = arrivals.iter().map(request).collect();
        (arrivals.iter().map(|(_, group)| *group).collect(), requests)
    }

    /// The replica of each request, by its number. What has no affinity goes where the shipped
    /// `envoy.yaml` sends it: `least_request`, which takes of two random replicas the one with
    /// fewer requests.
    fn routed(self, sent: &[(Moment, Option<String>)], rng: &mut Rng) -> Vec<usize> {
        let names = names(self.replicas);
        let mut order: Vec<usize> = (0..sent.len()).collect();
        order.sort_by_key(|request| sent.get(*request).map(|(at, _)| *at));
        let mut active = vec![0u32; self.replicas];
        let mut ends = BinaryHeap::new();
        let mut on = vec![0; sent.len()];
        for request in order {
            let Some((at, chosen)) = sent.get(request) else {
                continue;
            };
            while let Some(Reverse((end, replica))) = ends.peek().copied() {
                if end > *at {
                    break;
                }
                ends.pop();
                change(&mut active, replica, |count| count - 1);
            }
            let chosen = chosen.as_ref();
            let replica = chosen.and_then(|chosen| names.iter().position(|name| name == chosen));
            let replica = replica.unwrap_or_else(|| {
                let (one, other) = (rng.usize(..self.replicas), rng.usize(..self.replicas));
                let fewer = active.get(other) < active.get(one);
                if fewer { other } else { one }
            });
            change(&mut active, replica, |count| count + 1);
            ends.push(Reverse((at.plus(self.lasts), replica)));
            if let Some(slot) = on.get_mut(request) {
                *slot = replica;
            }
        }
        on
    }

    fn outcome(self, groups: &[u32], on: &[usize], waits: Vec<Duration>) -> Run {
        let mut of_groups: BTreeMap<u32, BTreeMap<usize, u32>> = BTreeMap::new();
        let mut of_replicas = vec![0u32; self.replicas];
        for (group, replica) in groups.iter().zip(on) {
            let of_group = of_groups.entry(*group).or_default();
            *of_group.entry(*replica).or_default() += 1;
            change(&mut of_replicas, *replica, |count| count + 1);
        }
        of_groups.retain(|group, members| {
            let is_popular = matches!(self.traffic, Traffic::Serving(_)) && *group == POPULAR;
            members.values().sum::<u32>() > 1 && !is_popular
        });
        let grouped: u32 = of_groups.values().flat_map(BTreeMap::values).sum();
        let most = |group: &BTreeMap<usize, u32>| group.values().copied().max().unwrap_or(0);
        let together: u32 = of_groups.values().map(most).sum();
        let touched: usize = of_groups.values().map(BTreeMap::len).sum();
        let busiest = of_replicas.iter().copied().max().unwrap_or(0);
        let all = groups.len() as f64;
        Run {
            colocation: f64::from(together) / f64::from(grouped),
            replicas_a_group: touched as f64 / of_groups.len() as f64,
            busiest: f64::from(busiest) * self.replicas as f64 / all,
            waits,
        }
    }
}

/// When a request went on, and the replica that was chosen for it.
fn sent(arrived: Moment, fate: Option<Fate>) -> (Moment, Option<String>) {
    match fate {
        Some(Fate::Released { at, replica, .. }) => (at, replica),
        Some(Fate::Passed(Arrival::Decided(decision, listed))) => {
            let index = decision.replica().map(|index| index as usize);
            let name = index.and_then(|index| listed.names.get(index).cloned());
            (arrived, name)
        }
        _ => (arrived, None),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn change(counts: &mut [u32], place: usize, change: impl FnOnce(u32) -> u32) {
    if let Some(count) = counts.get_mut(place) {
        *count = change(*count);
    }
}
