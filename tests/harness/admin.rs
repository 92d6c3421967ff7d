//! Envoy's admin, as the filter's HTTP calls find it: each is answered as a schedule says.

use std::collections::{BTreeMap, VecDeque};

use burst_prefix_cache::replicas::Pools;

use super::exchange::Headers;
use super::status::Status;
use super::world::{Event, MILLI, World};

/// What becomes of a call.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// This status and this body, after so many milliseconds. Envoy answers 504 by itself when the
    /// call's time is up.
    Answer(u16, Vec<u8>, u64),
    /// The connection breaks, after so many milliseconds.
    Broken(u64),
    /// The host refuses the call.
    Refused,
    /// Nobody ever hears of it again.
    Lost,
}

/// An answer, as its callback finds it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// None where the call failed.
    pub(crate) headers: Option<Headers>,
    pub(crate) body: Vec<u8>,
}

/// A call that the filter made.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) at: u64,
    pub(crate) vm: usize,
    root: u32,
    /// When it ends, and what comes then; none where nothing ever does.
    ends: Option<(u64, Answer)>,
    /// What the configuration that asked looks like: each has a list of its own.
    config: Vec<u8>,
}

/// Envoy's admin.
#[derive(Debug)]
pub(crate) struct Admin {
    /// The only cluster that leads to it.
    pub(crate) cluster: &'static str,
    /// What becomes of the next calls.
    pub(crate) next: VecDeque<Reply>,
    /// What becomes of all others.
    pub(crate) otherwise: Reply,
    /// All calls that were made, in order.
    pub(crate) asked: Vec<Asked>,
    /// The lists that were told, and when.
    pub(crate) told: Vec<(u64, Pools)>,
    /// The calls by their VM and token.
    open: BTreeMap<(usize, u32), usize>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            cluster: "admin",
            next: VecDeque::new(),
            otherwise: Reply::Refused,
            asked: Vec::new(),
            told: Vec::new(),
            open: BTreeMap::new(),
        }
    }
}

/// A call, as the filter makes it.
pub(crate) struct Request {
    pub(crate) cluster: String,
    pub(crate) headers: Headers,
    pub(crate) timeout_ms: u32,
}

impl World {
    /// The filter makes a call; its token.
    pub(crate) fn ask(&mut self, vm: usize, request: &Request) -> Result<u32, Status> {
        let path = request.headers.text(":path");
        let complete = [":method", ":authority"]
            .iter()
            .all(|name| request.headers.get(name).is_some());
        if request.cluster != self.admin.cluster || path.is_none() || !complete {
            return Err(Status::BadArgument);
        }
        if path.as_deref() != Some("/clusters?format=json") || request.timeout_ms == 0 {
            self.witness.wrong(format!(
                "the admin is asked for {path:?}, in {} ms",
                request.timeout_ms
            ));
        }
        let root = self.acts_on_root(vm);
        let known = self.machines[vm].roots.get(&root);
        let config = known.map(|root| self.configs[root.config].clone());
        let Some(config) = config else {
            return Err(Status::InternalFailure);
        };
        self.one_at_a_time(&config);
        let reply = self.admin.next.pop_front();
        let reply = reply.unwrap_or_else(|| self.admin.otherwise.clone());
        let timeout = self.now + u64::from(request.timeout_ms) * MILLI;
        let status = |status: u16| Some(Headers::new([(":status", status.to_string().as_str())]));
        let ends = match reply {
            Reply::Refused => return Err(Status::InternalFailure),
            Reply::Lost => None,
            Reply::Answer(code, body, millis) if self.now + millis * MILLI < timeout => {
                let headers = status(code);
                Some((self.now + millis * MILLI, Answer { headers, body }))
            }
            Reply::Broken(millis) if self.now + millis * MILLI < timeout => {
                Some((self.now + millis * MILLI, Answer::default()))
            }
            Reply::Answer(..) | Reply::Broken(_) => {
                let headers = status(504);
                let body = b"upstream request timeout".to_vec();
                Some((timeout, Answer { headers, body }))
            }
        };
        let token = u32::try_from(self.admin.asked.len() + 1).unwrap();
        if let Some((at, _)) = ends {
            let thread = self.machines[vm].thread;
            self.plan(at, Event::Answer { thread, vm, token });
        }
        self.admin.open.insert((vm, token), self.admin.asked.len());
        self.admin.asked.push(Asked {
            at: self.now,
            vm,
            root,
            ends,
            config,
        });
        self.trace(format!("vm {vm} asks the admin"));
        Ok(token)
    }

    /// No other call of this configuration may be under way. One of a dead VM is not, and one
    /// whose answer never comes is given up in the end.
    fn one_at_a_time(&mut self, config: &[u8]) {
        /// What is given up: longer than the call may take.
        const PATIENCE: u64 = 1_500 * MILLI;
        let now = self.now;
        let under_way = self.admin.asked.iter().filter(|asked| {
            let ends = asked
                .ends
                .as_ref()
                .map_or(asked.at + PATIENCE, |(at, _)| *at);
            asked.config == config && self.machines[asked.vm].alive && ends > now
        });
        let under_way: Vec<(usize, u64)> = under_way.map(|asked| (asked.vm, asked.at)).collect();
        if !under_way.is_empty() {
            let wrong = format!("the admin is asked while it is being asked: {under_way:?}");
            self.witness.wrong(wrong);
        }
    }

    /// The answer to a call, and the root context that made it; none where it is not there any
    /// more.
    pub(crate) fn answer(&mut self, vm: usize, token: u32) -> Option<(u32, Answer)> {
        let call = self.admin.open.remove(&(vm, token))?;
        let asked = self.admin.asked.get_mut(call)?;
        let root = asked.root;
        // The body is not needed any more when it has been told.
        let (_, answer) = asked.ends.as_mut()?;
        let answer = std::mem::take(answer);
        self.note(&answer);
        let machine = &self.machines[vm];
        (machine.alive && machine.roots.contains_key(&root)).then_some((root, answer))
    }
}
