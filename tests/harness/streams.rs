//! What Envoy does with one stream: which callbacks it calls for the parts of a request, and what
//! it makes of the filter's answers.

use super::engine::Into;
use super::exchange::{Exchange, Fate, Flow, Part};
use super::thread::{Done, Thread};
use super::world::{Callback, Event, MILLI, World, most_members};
use burst_prefix_cache::config::Config;

const CONTINUE: u32 = 0;

impl Thread {
    /// A part of a request comes.
    pub(super) async fn part(&mut self, request: usize) -> Done {
        let part = {
            let mut world = self.world();
            let now = world.now;
            let exchange = &mut world.exchanges[request];
            let Some((_, part)) = exchange.client.parts.pop_front() else {
                return Ok(());
            };
            let (size, end) = match &part {
                Part::Headers { end } => (0, *end),
                Part::Data { bytes, end } => (bytes.len(), *end),
                Part::Trailers => (0, true),
            };
            exchange.received += size;
            exchange.ended |= end;
            if end {
                exchange.complete_at = Some(now);
            }
            if exchange.closed || exchange.fate.is_some() {
                return Ok(());
            }
            part
        };
        match part {
            Part::Headers { end } => self.headers(request, end).await?,
            Part::Data { bytes, end } => self.data(request, &bytes, end).await?,
            Part::Trailers => self.trailers(request).await?,
        }
        self.go_on().await
    }

    async fn headers(&mut self, request: usize, end: bool) -> Done {
        {
            let mut world = self.world();
            if self.vm.is_none() && world.now < world.threads[self.number].dead_until {
                world.exchanges[request].fate = Some(Fate::Lost);
                return Ok(());
            }
        }
        let vm = self.started().await?;
        let (context, root, count) = {
            let mut world = self.world();
            let world = &mut *world;
            let machine = &mut world.machines[vm];
            let context = machine.next_context;
            machine.next_context += 1;
            machine.streams.insert(context, request);
            let root = machine.newest_root;
            let exchange = &mut world.exchanges[request];
            exchange.vm = Some(vm);
            exchange.context = context;
            exchange.root = root;
            exchange.config = machine.roots[&root].config;
            (context, root, exchange.headers.0.len())
        };
        let create = Into::ContextCreate { context, root };
        self.call(Callback::Request, context, create).await?;
        let headers = Into::RequestHeaders {
            count: u32::try_from(count).unwrap(),
            end,
        };
        let action = self.call(Callback::Request, context, headers).await?;
        let mut world = self.world();
        let stopped = if world.headers_stop {
            Flow::Stopped
        } else {
            Flow::StoppedAll
        };
        if action == CONTINUE {
            forward(&mut world, request);
        } else {
            world.exchanges[request].flow = stopped;
        }
        Ok(())
    }

    async fn data(&mut self, request: usize, bytes: &[u8], end: bool) -> Done {
        let (size, limit, flow) = {
            let mut world = self.world();
            let limit = world.buffer_limit;
            let exchange = &mut world.exchanges[request];
            exchange.buffer.extend_from_slice(bytes);
            (exchange.buffer.len(), limit, exchange.flow)
        };
        match flow {
            Flow::StoppedAll => Ok(()),
            Flow::Stopped if size > limit => self.refuse(request, 413).await,
            Flow::Stopped | Flow::Running => self.body(request, size, end).await,
        }
    }

    /// The body's callback, with all that the buffer holds.
    async fn body(&mut self, request: usize, size: usize, end: bool) -> Done {
        let context = self.world().exchanges[request].context;
        let body = Into::RequestBody {
            size: u32::try_from(size).unwrap(),
            end,
        };
        let action = self.call(Callback::Request, context, body).await?;
        self.answered(request, action);
        Ok(())
    }

    async fn trailers(&mut self, request: usize) -> Done {
        let (context, flow) = {
            let mut world = self.world();
            let exchange = &mut world.exchanges[request];
            exchange.trailers = true;
            (exchange.context, exchange.flow)
        };
        if flow != Flow::StoppedAll {
            let trailers = Into::RequestTrailers;
            let action = self.call(Callback::Request, context, trailers).await?;
            self.answered(request, action);
        }
        Ok(())
    }

    /// The filter has answered a part of the body, or the trailers.
    fn answered(&self, request: usize, action: u32) {
        let mut world = self.world();
        if action == CONTINUE {
            if world.exchanges[request].flow == Flow::Stopped {
                world.exchanges[request].resumes += 1;
            }
            forward(&mut world, request);
            full(&mut world, request);
        } else {
            world.exchanges[request].flow = Flow::Stopped;
        }
    }

    /// A filter that had stopped all hears now of what came in the meantime.
    pub(super) async fn iterate_from_here(&mut self, request: usize) -> Done {
        let (size, end, trailers) = {
            let mut world = self.world();
            let now = world.now;
            let exchange = &mut world.exchanges[request];
            exchange.flow = Flow::Running;
            let buffer = std::mem::take(&mut exchange.buffer);
            let ended = std::mem::replace(&mut exchange.ended, false);
            exchange.forward(now);
            exchange.buffer = buffer;
            exchange.ended = ended;
            (exchange.buffer.len(), ended, exchange.trailers)
        };
        if size > 0 {
            self.body(request, size, end && !trailers).await?;
        }
        if trailers {
            self.trailers(request).await?;
        }
        if end {
            forward(&mut self.world(), request);
        }
        Ok(())
    }

    /// Envoy itself answers.
    async fn refuse(&mut self, request: usize, status: u16) -> Done {
        self.world().exchanges[request].fate = Some(Fate::Refused(status));
        self.world().respond(request, status);
        self.response_headers(request).await?;
        self.end(request).await
    }

    pub(super) async fn respond(&mut self, request: usize) -> Done {
        if !self.world().exchanges[request].open() {
            return Ok(());
        }
        self.world().respond(request, 200);
        self.response_headers(request).await?;
        self.end(request).await
    }

    async fn response_headers(&mut self, request: usize) -> Done {
        let context = self.world().exchanges[request].context;
        let headers = Into::ResponseHeaders;
        let action = self.call(Callback::Response, context, headers).await?;
        if action != CONTINUE {
            let wrong = format!("the response of request {request} was stopped");
            self.world().witness.wrong(wrong);
        }
        Ok(())
    }

    /// Envoy can be told to log a request also while it lasts.
    pub(super) async fn log(&mut self, request: usize) -> Done {
        let (open, context) = {
            let world = self.world();
            let exchange = &world.exchanges[request];
            (exchange.open(), exchange.context)
        };
        if open {
            self.call(Callback::Response, context, Into::Log).await?;
            self.go_on().await?;
        }
        Ok(())
    }

    pub(super) async fn leave(&mut self, request: usize) -> Done {
        {
            let mut world = self.world();
            let exchange = &mut world.exchanges[request];
            exchange.client.parts.clear();
            if exchange.closed || exchange.fate.is_some() {
                return Ok(());
            }
            exchange.fate = Some(Fate::Left);
            if !exchange.open() {
                return Ok(());
            }
        }
        self.end(request).await?;
        self.go_on().await
    }

    /// The stream ends.
    async fn end(&mut self, request: usize) -> Done {
        let (context, root) = {
            let world = self.world();
            let exchange = &world.exchanges[request];
            (exchange.context, exchange.root)
        };
        self.call(Callback::Response, context, Into::Log).await?;
        self.call(Callback::Response, context, Into::Done).await?;
        self.call(Callback::Response, context, Into::Delete).await?;
        self.world().forget(request);
        self.retire(root).await
    }
}

/// A request that was told that its window is full: it must be. Where callbacks interleave it may
/// have changed in the meantime.
fn full(world: &mut World, request: usize) {
    let exchange = &world.exchanges[request];
    let status = exchange.headers.get("x-burst-prefix-cache");
    if !world.whole_windows
        || world.faults.yield_one_in > 0
        || world.configs.len() > 1
        || status.as_deref() != Some(b"batch-full")
    {
        return;
    }
    // The last window of its pool is the current one.
    let is_routed = Config::parse(&world.configs[exchange.config])
        .is_ok_and(|config| config.replicas.is_routed());
    let is_ours = |window: &&Vec<usize>| {
        let mut members = window.iter().map(|request| &world.exchanges[*request]);
        !is_routed || members.all(|member| member.client.cluster == exchange.client.cluster)
    };
    let window = world.witness.windows.values().rfind(is_ours);
    let stays = |request: &&usize| world.exchanges[**request].fate != Some(Fate::Left);
    let members = window.map_or(0, |window| window.iter().filter(stays).count());
    let most = most_members(&world.configs[exchange.config]);
    if most.is_none_or(|most| members < most) {
        let wrong = format!("request {request} found {members} in a full window");
        world.witness.wrong(wrong);
    }
}

/// The request goes on to its replica, which answers a while after it has all of it.
pub(super) fn forward(world: &mut World, request: usize) {
    let now = world.now;
    let exchange = &mut world.exchanges[request];
    exchange.flow = Flow::Running;
    let answered = |exchange: &Exchange| {
        exchange
            .upstream
            .as_ref()
            .is_some_and(|upstream| upstream.ended)
    };
    let before = answered(exchange);
    exchange.forward(now);
    if answered(exchange) && !before {
        let takes = world.rng.u64(..20 * MILLI);
        world.plan(now + takes, Event::Respond(request));
    }
}
