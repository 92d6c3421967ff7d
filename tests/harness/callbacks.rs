//! What Envoy does at an event: which callbacks it calls, and what it makes of their answers.

use std::sync::{Arc, Mutex, MutexGuard};

use super::call::lock;
use super::engine::{Into, Vm};
use super::exchange::{Fate, Flow, Part};
use super::world::{Callback, Event, MILLI, Root, World};

/// The VM trapped.
pub(crate) struct Trapped;

type Done<T = ()> = Result<T, Trapped>;

const CONTINUE: u32 = 0;

/// A worker thread at work on one event.
pub(crate) struct Thread {
    pub(crate) number: usize,
    /// None where the VM has died, and at first.
    pub(crate) vm: Option<Vm>,
    pub(crate) world: Arc<Mutex<World>>,
}

impl Thread {
    /// Works on an event, to its end.
    pub(crate) async fn happen(mut self, event: Event) -> Self {
        if self.handle(event).await.is_err() {
            self.vm = None;
        }
        self
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    async fn handle(&mut self, event: Event) -> Done {
        let number = self.number;
        self.world().trace(format!("thread {number}: {event:?}"));
        match event {
            Event::Part(request) => {
                let done = self.part(request).await;
                if done.is_err() {
                    // Its VM may have died before it knew of it.
                    let exchange = &mut self.world().exchanges[request];
                    exchange.fate.get_or_insert(Fate::Lost);
                }
                done
            }
            Event::Leave(request) => self.leave(request).await,
            Event::Respond(request) => self.respond(request).await,
            Event::Log(request) => self.log(request).await,
            Event::Notify { root, token, .. } => {
                if self.has_root(root) {
                    let ready = Into::QueueReady { token };
                    self.call(Callback::Root, root, ready).await?;
                    self.go_on().await?;
                }
                Ok(())
            }
            Event::Tick {
                vm,
                root,
                generation,
                ..
            } => self.tick(vm, root, generation).await,
            Event::Trap { calls, .. } => {
                let Some(vm) = self.vm.as_ref().map(|vm| vm.number) else {
                    return Ok(());
                };
                self.world().machines[vm].traps_in = Some(calls);
                if calls == 0 {
                    self.world().bury(vm);
                    return Err(Trapped);
                }
                Ok(())
            }
            Event::Configure { config, .. } => {
                self.world().threads[number].config = config;
                if self.vm.is_some() {
                    self.configure(config).await?;
                }
                Ok(())
            }
        }
    }

    /// Whether the thread's VM has this root context.
    fn has_root(&self, root: u32) -> bool {
        let vm = self.vm.as_ref().map(|vm| vm.number);
        vm.is_some_and(|vm| self.world().machines[vm].roots.contains_key(&root))
    }

    /// Calls into the VM. A trap that the schedule did not ask for is a fault of the filter.
    async fn call(&mut self, callback: Callback, context: u32, into: Into) -> Done<u32> {
        let Some(vm) = &mut self.vm else {
            return Err(Trapped);
        };
        let number = vm.number;
        {
            let mut world = lock(&self.world);
            let machine = &mut world.machines[number];
            machine.callback = callback;
            machine.current = context;
            machine.effective = 0;
        }
        let result = vm.call(context, into).await;
        let mut world = lock(&self.world);
        let world = &mut *world;
        let machine = &world.machines[number];
        let resumed = machine.resumed.len();
        world.witness.most_resumed = world.witness.most_resumed.max(resumed);
        let asked_for = machine.traps_in == Some(0);
        result.map_err(|error| {
            if !asked_for {
                world
                    .witness
                    .wrong(format!("vm {number} trapped: {error:?}"));
            }
            world.bury(number);
            Trapped
        })
    }

    /// The VM of this thread, fresh if there is none.
    async fn started(&mut self) -> Done<usize> {
        if let Some(vm) = &self.vm {
            return Ok(vm.number);
        }
        let (number, config) = {
            let mut world = self.world();
            let number = world.add_machine(self.number);
            (number, world.threads[self.number].config)
        };
        match Vm::start(Arc::clone(&self.world), number).await {
            Ok(vm) => self.vm = Some(vm),
            Err(error) => {
                let mut world = self.world();
                world
                    .witness
                    .wrong(format!("a VM did not start: {error:?}"));
                world.bury(number);
                return Err(Trapped);
            }
        }
        self.configure(config).await?;
        Ok(number)
    }

    /// A new root context with a configuration.
    async fn configure(&mut self, config: usize) -> Done {
        let Some(vm) = self.vm.as_ref().map(|vm| vm.number) else {
            return Err(Trapped);
        };
        let (root, before, size) = {
            let mut world = self.world();
            let size = world.configs[config].len();
            let machine = &mut world.machines[vm];
            let root = machine.next_context;
            machine.next_context += 1;
            let known = Root {
                config,
                ..Root::default()
            };
            machine.roots.insert(root, known);
            let before = std::mem::replace(&mut machine.newest_root, root);
            (root, before, u32::try_from(size).unwrap())
        };
        let create = Into::ContextCreate {
            context: root,
            root: 0,
        };
        self.call(Callback::Root, root, create).await?;
        let mut taken = self.call(Callback::Root, root, Into::VmStart).await? != 0;
        if taken {
            let configure = Into::Configure { size };
            taken = self.call(Callback::Root, root, configure).await? != 0;
        }
        self.world().witness.refused += usize::from(!taken);
        if before != 0 {
            self.retire(before).await?;
        }
        Ok(())
    }

    /// A root context that is not the newest ends with its last stream.
    async fn retire(&mut self, root: u32) -> Done {
        let Some(vm) = self.vm.as_ref().map(|vm| vm.number) else {
            return Ok(());
        };
        {
            let world = self.world();
            let machine = &world.machines[vm];
            let mut requests = machine.streams.values();
            if root == machine.newest_root
                || !machine.roots.contains_key(&root)
                || requests.any(|request| world.exchanges[*request].root == root)
            {
                return Ok(());
            }
        }
        self.call(Callback::Response, root, Into::Done).await?;
        self.call(Callback::Response, root, Into::Delete).await?;
        self.world().machines[vm].roots.remove(&root);
        Ok(())
    }

    async fn tick(&mut self, vm: usize, root: u32, generation: u32) -> Done {
        let due = |world: &World| {
            let root = world.machines[vm].roots.get(&root);
            world.machines[vm].alive && root.is_some_and(|root| root.generation == generation)
        };
        if !due(&self.world()) {
            return Ok(());
        }
        self.call(Callback::Root, root, Into::Tick).await?;
        {
            // Whatever was set in the callback runs from its end.
            let mut world = self.world();
            if let Some(root) = world.machines[vm].roots.get_mut(&root) {
                root.generation += 1;
            }
            world.arm(vm, root);
        }
        self.go_on().await
    }

    /// A part of a request comes.
    async fn part(&mut self, request: usize) -> Done {
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
        } else {
            world.exchanges[request].flow = Flow::Stopped;
        }
    }

    /// Envoy goes on with the streams that the callback resumed, and with what follows from that.
    async fn go_on(&mut self) -> Done {
        loop {
            let Some(vm) = self.vm.as_ref().map(|vm| vm.number) else {
                return Ok(());
            };
            let Some(request) = self.world().machines[vm].resumed.pop_front() else {
                return Ok(());
            };
            let flow = {
                let mut world = self.world();
                let exchange = &mut world.exchanges[request];
                let flow = exchange.flow;
                exchange.resumes += 1;
                if flow == Flow::Running && exchange.open() {
                    let wrong = format!("request {request} was resumed, and was not stopped");
                    world.witness.wrong(wrong);
                }
                flow
            };
            match flow {
                Flow::Running => {}
                Flow::Stopped => forward(&mut self.world(), request),
                Flow::StoppedAll => self.iterate_from_here(request).await?,
            }
        }
    }

    /// A filter that had stopped all hears now of what came in the meantime.
    async fn iterate_from_here(&mut self, request: usize) -> Done {
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

    async fn respond(&mut self, request: usize) -> Done {
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
    async fn log(&mut self, request: usize) -> Done {
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

    async fn leave(&mut self, request: usize) -> Done {
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

/// The request goes on to its replica, which answers a while after it has all of it.
fn forward(world: &mut World, request: usize) {
    let now = world.now;
    let exchange = &mut world.exchanges[request];
    exchange.flow = Flow::Running;
    let answered = |exchange: &super::exchange::Exchange| {
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
