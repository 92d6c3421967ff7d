//! A host call in progress: the caller's memory, and the world.

use std::sync::{Arc, Mutex, MutexGuard};

use wasmtime::{Caller, Memory, Result, TypedFunc, bail, format_err};

use super::status::Status;
use super::world::World;

/// What a VM's store knows.
pub(crate) struct Host {
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) vm: usize,
    pub(crate) memory: Option<Memory>,
    pub(crate) allocate: Option<TypedFunc<u32, u32>>,
}

/// A host call in progress.
pub(crate) struct Call<'a> {
    caller: Caller<'a, Host>,
    pub(crate) vm: usize,
}

pub(crate) fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().expect("a schedule failed")
}

impl<'a> Call<'a> {
    /// Here a VM traps when it is its time.
    pub(crate) fn new(caller: Caller<'a, Host>) -> Result<Self> {
        let vm = caller.data().vm;
        let mut world = lock(&caller.data().world);
        if let Some(calls) = &mut world.machines[vm].traps_in {
            if *calls == 0 {
                bail!("a trap that the schedule asked for");
            }
            *calls -= 1;
        }
        drop(world);
        Ok(Self { caller, vm })
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.caller.data().world)
    }

    fn memory(&self) -> Result<Memory> {
        let memory = self.caller.data().memory;
        memory.ok_or_else(|| format_err!("a host call before the start"))
    }

    pub(crate) fn bytes(&self, at: u32, size: u32) -> Result<Vec<u8>> {
        let memory = self.memory()?;
        let start = at as usize;
        let bytes = memory.data(&self.caller).get(start..start + size as usize);
        Ok(bytes
            .ok_or_else(|| format_err!("bytes outside the memory"))?
            .to_vec())
    }

    pub(crate) fn text(&self, at: u32, size: u32) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(at, size)?).into_owned())
    }

    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<()> {
        let memory = self.memory()?;
        Ok(memory.write(&mut self.caller, at as usize, bytes)?)
    }

    pub(crate) fn number(&mut self, at: u32, number: u32) -> Result<()> {
        self.write(at, &number.to_le_bytes())
    }

    /// Hands bytes to the VM, in memory that it allocates; or the status.
    pub(crate) async fn give(
        &mut self,
        bytes: Result<Vec<u8>, Status>,
        data: u32,
        size: u32,
    ) -> Result<u32> {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(status) => return Ok(status as u32),
        };
        let mut at = 0;
        if !bytes.is_empty() {
            let allocate = self.caller.data().allocate.clone();
            let allocate = allocate.ok_or_else(|| format_err!("no allocator"))?;
            let length = u32::try_from(bytes.len())?;
            at = allocate.call_async(&mut self.caller, length).await?;
            self.write(at, &bytes)?;
        }
        self.number(data, at)?;
        self.number(size, u32::try_from(bytes.len())?)?;
        Ok(0)
    }

    /// A place where other workers may come between.
    pub(crate) async fn cross(&self) {
        let others_first = {
            let mut world = self.world();
            let micros = world.rng.u64(..2_000);
            world.now += micros;
            let one_in = world.faults.yield_one_in;
            world.one_in(one_in)
        };
        if others_first {
            let mut yielded = false;
            std::future::poll_fn(|_| {
                if std::mem::replace(&mut yielded, true) {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
        }
    }
}
