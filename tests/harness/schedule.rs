//! A schedule: what clients send to which worker, and what goes wrong, all from one seed.

use std::collections::VecDeque;

use fastrand::Rng;

use super::admin::Reply;
use super::exchange::{Client, Headers, Part};
use super::lists::{self, ROUTES};
use super::proxy::Proxy;
use super::witness::SECRET;
use super::world::{Event, Faults, MILLI};

/// When the first requests come.
const START: u64 = 1_000 * MILLI;

/// What may happen in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing goes wrong: each window is one joint assignment.
    Calm,
    /// Clients leave while a window is open.
    Leaving,
    /// VMs trap.
    Deaths,
    /// Configurations change while requests wait.
    Updates,
    /// Ticks are seconds late.
    Late,
    /// The admin tells the replicas of several pools, which come and go.
    Pools,
    /// All of it, and the host refuses what it is asked for.
    Rough,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Calm,
        Self::Leaving,
        Self::Deaths,
        Self::Updates,
        Self::Late,
        Self::Pools,
        Self::Rough,
    ];

    /// Whether every window is placed jointly, all of it and only once.
    pub(crate) fn whole_windows(self) -> bool {
        matches!(
            self,
            Self::Calm | Self::Leaving | Self::Updates | Self::Pools
        )
    }
}

/// A schedule, ready to run.
pub(crate) struct Schedule {
    pub(crate) kind: Kind,
    threads: usize,
    window_ms: u64,
    pub(crate) configs: Vec<String>,
    clients: Vec<Client>,
    pub(crate) faults: Faults,
    events: Vec<(u64, Event)>,
    replies: Vec<Reply>,
    /// How long after the start the first requests may come: often a list is known by then.
    first: u64,
    seed: u64,
}

impl Schedule {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let threads = rng.usize(if kind == Kind::Calm { 1..=8 } else { 2..=8 });
        let window_ms = [rng.u64(5..40), rng.u64(20..250)][rng.usize(..2)];
        let configs = match kind {
            Kind::Updates | Kind::Rough => rng.usize(1..=3),
            _ => 1,
        };
        let mut schedule = Self {
            kind,
            threads,
            window_ms,
            configs: (0..configs).map(|_| config(rng, kind, window_ms)).collect(),
            clients: Vec::new(),
            faults: faults(rng, kind),
            events: Vec::new(),
            replies: Vec::new(),
            first: 0,
            seed: 0,
        };
        if rng.u32(..3) == 0 {
            // An update that changes nothing for the filter: its windows go on.
            let first = schedule.configs[0].clone();
            schedule.configs.fill(first);
        }
        let count = [rng.usize(1..12), rng.usize(1..60), rng.usize(1..=200)][rng.usize(..3)];
        let mut spread = window_ms * MILLI * rng.u64(0..6) / 2;
        if kind == Kind::Pools {
            schedule.first = rng.u64(..400 * MILLI);
            // So that some see several lists.
            spread += [0, rng.u64(..1_500 * MILLI)][rng.usize(..2)];
        }
        for _ in 0..count {
            let client = schedule.client(rng, spread);
            if rng.u32(..16) == 0 {
                let at = START + rng.u64(..=spread + window_ms * MILLI);
                schedule
                    .events
                    .push((at, Event::Log(schedule.clients.len())));
            }
            schedule.clients.push(client);
        }
        schedule.plan_faults(rng, spread + 2 * window_ms * MILLI);
        if kind == Kind::Pools {
            schedule.replies = lists::replies(rng);
            schedule.events.push((START, Event::Start { thread: 0 }));
        }
        schedule.seed = rng.u64(..);
        schedule
    }

    /// The proxy at the beginning of the schedule.
    pub(crate) fn proxy(&self) -> Proxy {
        let configs = self.configs.iter().map(|json| json.clone().into_bytes());
        let clients = self.clients.clone();
        let proxy = Proxy::new(self.seed, self.threads, configs.collect(), clients);
        {
            let mut world = proxy.world();
            world.faults = self.faults;
            world.whole_windows = self.kind.whole_windows();
            let mut replies = VecDeque::from(self.replies.clone());
            if let Some(last) = replies.pop_back() {
                world.admin.otherwise = last;
            }
            world.admin.next = replies;
            for (at, event) in &self.events {
                world.plan(*at, *event);
            }
        }
        proxy
    }

    /// The proxy at the end of the schedule.
    pub(crate) fn run(&self) -> Proxy {
        /// Where the admin is asked it never ends by itself. All clients have gone by then.
        const END: u64 = START + 8_000 * MILLI;
        let mut proxy = self.proxy();
        match self.kind {
            Kind::Pools => proxy.run_until(END),
            _ => proxy.run(),
        }
        proxy
    }

    /// How long a complete request may wait, in nanoseconds.
    pub(crate) fn longest_wait(&self) -> u64 {
        /// What the promise has room for: a tick this late.
        const ROOM: u64 = 10 * MILLI;
        (self.window_ms + 300) * MILLI + self.faults.late_ticks.saturating_sub(ROOM)
    }

    fn client(&self, rng: &mut Rng, spread: u64) -> Client {
        let thread = rng.usize(..self.threads);
        let at = START + self.first + rng.u64(..=spread);
        let (headers, body) = request(rng, self.kind != Kind::Leaving);
        let (parts, complete) = parts(rng, at, body);
        let leaves = match self.kind {
            // Early enough that the owner surely hears of it before it closes the window.
            Kind::Leaving => {
                let quarter = self.window_ms * MILLI / 4;
                let early = complete < START + quarter && rng.bool();
                early.then(|| complete + rng.u64(..quarter))
            }
            Kind::Rough if rng.u32(..4) == 0 => Some(at + rng.u64(..=2 * self.window_ms * MILLI)),
            _ => None,
        };
        let never_ends = !parts.iter().any(|(_, part)| ends(part));
        Client {
            thread,
            headers,
            parts,
            // A proxy waits for nobody for ever.
            leaves: leaves.or(never_ends.then_some(at + 5_000 * MILLI)),
            cluster: match self.kind {
                Kind::Pools => Some(ROUTES[rng.usize(..7) / 3]),
                _ => None,
            },
        }
    }

    fn plan_faults(&mut self, rng: &mut Rng, lasts: u64) {
        let moment = |rng: &mut Rng| START + rng.u64(..=lasts);
        if matches!(self.kind, Kind::Deaths | Kind::Rough) {
            for _ in 0..rng.usize(1..=self.threads) {
                let thread = rng.usize(..self.threads);
                let calls = [0, rng.u32(1..20), rng.u32(1..300)][rng.usize(..3)];
                let at = moment(rng);
                self.events.push((at, Event::Trap { thread, calls }));
            }
        }
        for config in 1..self.configs.len() {
            let at = moment(rng);
            for thread in 0..self.threads {
                let at = at + rng.u64(..3 * MILLI);
                self.events.push((at, Event::Configure { thread, config }));
            }
        }
        if self.kind == Kind::Rough && rng.bool() {
            let from = moment(rng);
            let lasts = rng.u64(..600 * MILLI);
            self.faults.refuse_data_between = Some((from, from + lasts));
        }
    }
}

fn ends(part: &Part) -> bool {
    match part {
        Part::Headers { end } | Part::Data { end, .. } => *end,
        Part::Trailers => true,
    }
}

fn faults(rng: &mut Rng, kind: Kind) -> Faults {
    let late = [100_000, 8 * MILLI][rng.usize(..2)];
    let mut faults = Faults {
        yield_one_in: [0, 2, 8, 40][rng.usize(..4)],
        late_messages: rng.u64(..late),
        late_ticks: 4 * MILLI,
        back_off: rng.u64(..1_000 * MILLI),
        ..Faults::default()
    };
    match kind {
        Kind::Calm | Kind::Updates | Kind::Pools => {}
        Kind::Leaving => faults.late_messages = rng.u64(..MILLI / 5),
        Kind::Deaths => faults.late_ticks = rng.u64(..10 * MILLI),
        Kind::Late => faults.late_ticks = rng.u64(..3_000 * MILLI),
        Kind::Rough => {
            faults.refuse_data_one_in = [0, 1, 2, 10][rng.usize(..4)];
            faults.refuse_headers_one_in = [0, 0, 3][rng.usize(..3)];
            faults.late_messages = rng.u64(..150 * MILLI);
            faults.late_ticks = rng.u64(..60 * MILLI);
        }
    }
    faults
}

fn config(rng: &mut Rng, kind: Kind, window_ms: u64) -> String {
    let replicas: Vec<String> = (1..=rng.usize(1..=6))
        .map(|replica| format!("10.0.0.{replica}:8000"))
        .collect();
    let replicas = match kind {
        Kind::Pools => lists::source(rng),
        _ => serde_json::json!({ "static": replicas }),
    };
    let per_replica = [-1, rng.i32(1..8)][rng.usize(..2)];
    let colocate = [0, rng.u32(..6)][rng.usize(..2)];
    let batch = [-1, 1000, rng.i32(1..40)][rng.usize(..3)];
    let balance = ["requests", "tokens"][rng.usize(..2)];
    // Whoever leaves does so well before the window ends, in the schedules of that kind.
    let early = kind != Kind::Leaving;
    let quiet = [0, 0, rng.u64(1..20)][if early { rng.usize(..3) } else { 0 }];
    let memory = [0, 0, 3_600_000][rng.usize(..3)];
    let hold = ["window", "window", "none"][if memory > 0 { rng.usize(..3) } else { 0 }];
    let full = ["pass", "seal"][if early { rng.usize(..2) } else { 0 }];
    serde_json::json!({
        "windowDurationMs": window_ms,
        "blockSizeTokens": 4,
        "maxPerReplica": per_replica,
        "minColocateBlocks": colocate,
        "maxBatchSize": batch,
        "balanceBy": balance,
        "quietPeriodMs": quiet,
        "groupMemoryMs": memory,
        "hold": hold,
        "onBatchFull": full,
        "replicas": replicas,
        "maxBodyBytes": 4000,
        "debugResponseHeaders": rng.bool(),
    })
    .to_string()
}

/// The headers of a request, and its body if it has one.
fn request(rng: &mut Rng, early: bool) -> (Headers, Option<Vec<u8>>) {
    let mut headers = vec![(":method", "POST"), (":authority", "llm")];
    if rng.u32(..4) == 0 {
        headers.extend([
            ("x-gateway-destination-endpoint", "forged"),
            ("x-burst-prefix-cache", "forged"),
            ("x-burst-prefix-cache", "forged"),
        ]);
    }
    if rng.u32(..8) == 0 {
        headers.push(("x-burst-group-id", ["a", "b", ""][rng.usize(..3)]));
    }
    if early && rng.u32(..4) == 0 {
        headers.push(("x-burst-group-size", ["1", "3", "0", "x"][rng.usize(..4)]));
    }
    let prompt = prompt(rng);
    let (path, body) = match rng.u32(..20) {
        0 => ("/v1/models", Some(prompt.into_bytes())),
        1 => (
            "/v1/completions",
            Some(format!("{{\"prompt\":\"{SECRET}").into_bytes()),
        ),
        2 => ("/v1/completions", None),
        3 => {
            headers.push(("content-encoding", "gzip"));
            ("/v1/completions", Some(SECRET.as_bytes().to_vec()))
        }
        4 => ("/v1/completions", Some(vec![b'x'; rng.usize(3_000..9_000)])),
        5 => (
            "/v1/completions",
            Some(br#"{"model":"m","prompt":""}"#.to_vec()),
        ),
        6..=10 => {
            let messages = [serde_json::json!({"role": "user", "content": prompt})];
            let body = serde_json::json!({"model": "m", "messages": messages});
            ("/v1/chat/completions", Some(body.to_string().into_bytes()))
        }
        _ => {
            let samples = [1, rng.u32(1..9)][rng.usize(..2)];
            let body = serde_json::json!({"model": "m", "prompt": prompt, "n": samples});
            ("/v1/completions", Some(body.to_string().into_bytes()))
        }
    };
    headers.push((":path", path));
    (Headers::new(headers), body)
}

/// One of a few prompts that share their beginnings.
fn prompt(rng: &mut Rng) -> String {
    let mut prompt = String::new();
    for depth in 0..rng.usize(1..4) {
        let branch = rng.usize(..3);
        prompt += &format!("{SECRET} {depth} {branch} ").repeat(1 + branch);
    }
    if rng.u32(..6) == 0 {
        prompt += &rng.u64(..).to_string();
    }
    prompt
}

/// A body in pieces, and when it is complete.
fn parts(rng: &mut Rng, at: u64, body: Option<Vec<u8>>) -> (VecDeque<(u64, Part)>, u64) {
    let Some(body) = body else {
        return ([(at, Part::Headers { end: true })].into(), at);
    };
    let mut parts = VecDeque::from([(at, Part::Headers { end: false })]);
    let mut at = at;
    let pieces = rng.usize(1..4);
    let size = body.len().div_ceil(pieces).max(1);
    for bytes in body.chunks(size) {
        let pause = [1_000, 3 * MILLI][rng.usize(..2)];
        at += rng.u64(..pause);
        let bytes = bytes.to_vec();
        parts.push_back((at, Part::Data { bytes, end: false }));
    }
    match rng.u32(..20) {
        // It never ends.
        0 => {}
        1..=3 => parts.push_back((at, Part::Trailers)),
        // As HTTP/2 ends it.
        4..=11 => {
            if let Some((_, Part::Data { end, .. })) = parts.back_mut() {
                *end = true;
            }
        }
        // As HTTP/1 does.
        _ => {
            let bytes = Vec::new();
            parts.push_back((at, Part::Data { bytes, end: true }));
        }
    }
    (parts, at)
}
