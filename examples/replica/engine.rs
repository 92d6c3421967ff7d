//! The engine: one scheduler that takes sequences in order of arrival, and a clock.
//!
//! A sequence waits for one of `max_running` slots and then for a prefill lane. When a lane takes
//! it, its blocks are looked up and count as cached from then on, as vLLM caches blocks when it
//! schedules them; the second of two equal prompts therefore finds the first's blocks even when
//! both came at once. Its prefill costs time for each token that was no hit; its first token is
//! there when the prefill ends, each further one a decode step later.
//!
//! How honest that is: the order, the counting of hits and the queueing are vLLM's, and so is the
//! shape of the time to the first token. Not modelled are the token budget of a step (chunked
//! prefill), decodes that slow down with the batch or under a prefill, attention that grows with
//! the length of the context, and preemption. With several lanes an equal prompt in another lane
//! may be done before the prefill that it profits from.

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::cache::PrefixCache;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::prompt::Prompt;

/// What a sequence reports. The receiver is the client: once it is dropped, the sequence ends.
#[derive(Debug)]
pub(crate) enum Event {
    /// Scheduled, with so many tokens of its prompt found in the cache.
    Scheduled { sequence: usize, cached: usize },
    /// A token was generated.
    Token {
        sequence: usize,
        text: String,
        last: bool,
    },
}

pub(crate) type Events = mpsc::UnboundedReceiver<Event>;

pub(crate) struct Engine {
    pub(crate) metrics: Metrics,
    cache: Mutex<PrefixCache>,
    jobs: mpsc::UnboundedSender<Job>,
    block_tokens: NonZeroUsize,
    decode_per_token: Duration,
}

/// A sequence on its way to the scheduler.
struct Job {
    prompt: Arc<Prompt>,
    arrived: Instant,
    reply: oneshot::Sender<Slot>,
}

/// What the scheduler gives to a sequence.
struct Slot {
    cached: usize,
    prefilled: Instant,
    /// Gives the blocks back when dropped, and then the slot.
    _blocks: Held,
    _permit: OwnedSemaphorePermit,
}

/// The blocks of a prompt that are in use.
struct Held {
    engine: Arc<Engine>,
    prompt: Arc<Prompt>,
    blocks: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = self.prompt.blocks.get(..self.blocks);
        self.engine.cache().give_back(held.unwrap_or_default());
    }
}

impl Engine {
    /// Starts the scheduler on the running runtime.
    pub(crate) fn start(options: &Options) -> Arc<Self> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let engine = Arc::new(Self {
            metrics: Metrics::default(),
            cache: Mutex::new(PrefixCache::new(options.cache_blocks)),
            jobs,
            block_tokens: options.block_tokens,
            decode_per_token: options.decode_per_token,
        });
        let scheduler = Scheduler {
            engine: Arc::clone(&engine),
            slots: Arc::new(Semaphore::new(
                options.max_running.get().min(Semaphore::MAX_PERMITS),
            )),
            lanes: vec![Instant::now(); options.prefill_parallel.get()],
            prefill_per_token: options.prefill_per_token,
        };
        tokio::spawn(scheduler.run(queue));
        engine
    }

    /// Runs `samples` sequences for each prompt; the sequences of prompt `p` are numbered
    /// `p * samples ..`. The events end when the last sequence has.
    pub(crate) fn generate(
        self: &Arc<Self>,
        prompts: Vec<Prompt>,
        samples: usize,
        max_tokens: usize,
    ) -> Events {
        let (events, receiver) = mpsc::unbounded_channel();
        let arrived = Instant::now();
        let prompts = prompts.into_iter().map(Arc::new);
        for (number, prompt) in prompts
            .flat_map(|prompt| std::iter::repeat_n(prompt, samples))
            .enumerate()
        {
            let (reply, slot) = oneshot::channel();
            let job = Job {
                prompt: Arc::clone(&prompt),
                arrived,
                reply,
            };
            // It fails only when the scheduler is gone, and then `slot` says so, too.
            let _ = self.jobs.send(job);
            let sequence = Sequence::new(Arc::clone(self), number, prompt, arrived);
            tokio::spawn(sequence.run(slot, max_tokens, events.clone()));
        }
        receiver
    }

    pub(crate) fn cache_usage(&self) -> f64 {
        self.cache().usage()
    }

    fn cache(&self) -> MutexGuard<'_, PrefixCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Scheduler {
    engine: Arc<Engine>,
    slots: Arc<Semaphore>,
    /// When each lane is free. These are times on paper: timers fire up to a millisecond late,
    /// and a queue of short prefills must not add that up.
    lanes: Vec<Instant>,
    prefill_per_token: Duration,
}

impl Scheduler {
    async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Job>) {
        while let Some(job) = queue.recv().await {
            let Some((permit, since)) = self.slot(job.arrived).await else {
                return;
            };
            let Some(lane) = self.lanes.iter_mut().min() else {
                return;
            };
            sleep_until(*lane).await;
            if job.reply.is_closed() {
                continue;
            }
            let start = since.max(*lane);
            let block_tokens = self.engine.block_tokens;
            let max_hit = job.prompt.max_hit(block_tokens);
            let taken = self.engine.cache().take(&job.prompt.blocks, max_hit);
            let cached = taken.hit * block_tokens.get();
            let fresh = u32::try_from(job.prompt.tokens - cached).unwrap_or(u32::MAX);
            *lane = start + self.prefill_per_token * fresh;

            let metrics = &self.engine.metrics;
            let tokens = job.prompt.tokens as u64;
            metrics.cache_queries.fetch_add(tokens, Relaxed);
            metrics.cache_hits.fetch_add(cached as u64, Relaxed);
            metrics.prompt_tokens.fetch_add(tokens, Relaxed);
            let slot = Slot {
                cached,
                prefilled: *lane,
                _blocks: Held {
                    engine: Arc::clone(&self.engine),
                    prompt: job.prompt,
                    blocks: taken.held,
                },
                _permit: permit,
            };
            // Where the client has gone just now, this drops the slot.
            let _ = job.reply.send(slot);
        }
    }

    /// A slot among the running, and since when the sequence could have had it.
    async fn slot(&self, arrived: Instant) -> Option<(OwnedSemaphorePermit, Instant)> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some((permit, arrived));
        }
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        Some((permit, Instant::now()))
    }
}

/// A sequence from its arrival to its end. Dropping it sets the gauges right and frees its blocks,
/// however it ended.
struct Sequence {
    engine: Arc<Engine>,
    number: usize,
    prompt: Arc<Prompt>,
    arrived: Instant,
    slot: Option<Slot>,
    finished: bool,
}

impl Sequence {
    fn new(engine: Arc<Engine>, number: usize, prompt: Arc<Prompt>, arrived: Instant) -> Self {
        engine.metrics.waiting.fetch_add(1, Relaxed);
        Self {
            engine,
            number,
            prompt,
            arrived,
            slot: None,
            finished: false,
        }
    }

    async fn run(
        mut self,
        slot: oneshot::Receiver<Slot>,
        max_tokens: usize,
        events: mpsc::UnboundedSender<Event>,
    ) {
        tokio::select! {
            // A client that goes drops the sequence where it stands.
            () = events.closed() => {}
            _ = self.generate(slot, max_tokens, &events) => {}
        }
    }

    /// `None` when the scheduler or the client is gone.
    async fn generate(
        &mut self,
        slot: oneshot::Receiver<Slot>,
        max_tokens: usize,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Option<()> {
        let slot = slot.await.ok()?;
        let (cached, prefilled) = (slot.cached, slot.prefilled);
        self.slot = Some(slot);
        let engine = Arc::clone(&self.engine);
        let metrics = &engine.metrics;
        metrics.waiting.fetch_sub(1, Relaxed);
        metrics.running.fetch_add(1, Relaxed);
        let sequence = self.number;
        events.send(Event::Scheduled { sequence, cached }).ok()?;

        let mut ready = prefilled;
        for step in 1..=max_tokens {
            sleep_until(ready).await;
            if step == 1 {
                metrics.first_token_after(self.arrived.elapsed());
            }
            metrics.generation_tokens.fetch_add(1, Relaxed);
            let last = step == max_tokens;
            if last {
                // Before the client can see it, so that who asks after its answer finds it counted.
                self.finish();
            }
            let text = token_text(self.prompt.digest, sequence, step);
            let token = Event::Token {
                sequence,
                text,
                last,
            };
            events.send(token).ok()?;
            ready += engine.decode_per_token;
            // Lets a token out before the next one, even where decoding takes no time.
            tokio::task::yield_now().await;
        }
        Some(())
    }

    fn finish(&mut self) {
        self.finished = true;
        self.leave();
    }

    fn leave(&mut self) {
        let metrics = &self.engine.metrics;
        if self.slot.take().is_some() {
            metrics.running.fetch_sub(1, Relaxed);
            let ended = match self.finished {
                true => &metrics.finished,
                false => &metrics.aborted,
            };
            ended.fetch_add(1, Relaxed);
        } else if !self.finished {
            metrics.waiting.fetch_sub(1, Relaxed);
            metrics.aborted.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Four bytes, one token by the rule for prompts: a space and three letters that depend on the
/// prompt, the sequence and the step alone.
fn token_text(digest: u64, sequence: usize, step: usize) -> String {
    let mut mixed = digest ^ ((sequence as u64) << 32) ^ step as u64;
    mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    let letter = |shift: u32| char::from(b'a' + ((mixed >> shift) % 26) as u8);
    [' ', letter(8), letter(24), letter(40)].iter().collect()
}
