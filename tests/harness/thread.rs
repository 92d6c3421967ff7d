//! A worker thread of Envoy: its VM, and what it does at an event.

use std::sync::{Arc, Mutex, MutexGuard};

use super::call::lock;
use super::engine::{Into, Vm};
use super::exchange::{Fate, Flow};
use super::streams::forward;
use super::world::{Callback, Event, Root, World};

/// The VM trapped.
pub(crate) struct Trapped;

/// What a callback comes to.
pub(super) type Done<T = ()> = Result<T, Trapped>;

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

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
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
            Event::Answer { vm, token, .. } => self.answer(vm, token).await,
            Event::Start { .. } => self.started().await.map(drop),
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
    pub(super) async fn call(&mut self, callback: Callback, context: u32, into: Into) -> Done<u32> {
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
    pub(super) async fn started(&mut self) -> Done<usize> {
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
    pub(super) async fn retire(&mut self, root: u32) -> Done {
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

    /// A call that the VM made is answered, or has failed.
    async fn answer(&mut self, vm: usize, token: u32) -> Done {
        let (root, into) = {
            let mut world = self.world();
            let Some((root, answer)) = world.answer(vm, token) else {
                return Ok(());
            };
            let into = Into::CallResponse {
                token,
                headers: answer.headers.as_ref().map_or(0, |headers| headers.0.len()),
                body: answer.body.len(),
            };
            world.machines[vm].answer = Some(answer);
            (root, into)
        };
        self.call(Callback::Root, root, into).await?;
        self.world().machines[vm].answer = None;
        self.go_on().await
    }

    /// Envoy goes on with the streams that the callback resumed, and with what follows from that.
    pub(super) async fn go_on(&mut self) -> Done {
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
}
