//! Shared data and shared queues: the calls at which workers meet.

use wasmtime::{Linker, Result};

use crate::harness::call::{Call, Host};
use crate::harness::exchange::Fate;
use crate::harness::fabric::Listener;
use crate::harness::status::Status;
use crate::harness::world::{Callback, Event, World, most_members};

pub(super) fn link(linker: &mut Linker<Host>) -> Result<()> {
    host!(
        linker,
        "proxy_get_shared_data",
        |call, key: u32, key_size: u32, value: u32, value_size: u32, cas: u32| {
            let key = call.text(key, key_size)?;
            call.cross().await;
            let found = call.world().fabric.get(&key);
            if let Ok((_, version)) = found {
                call.number(cas, version)?;
            }
            call.give(found.map(|(bytes, _)| bytes), value, value_size)
                .await
        }
    );
    host!(
        linker,
        "proxy_set_shared_data",
        |call, key: u32, key_size: u32, value: u32, value_size: u32, cas: u32| {
            let key = call.text(key, key_size)?;
            let value = call.bytes(value, value_size)?;
            call.cross().await;
            let vm = call.vm;
            Ok(Status::number(set(&mut call.world(), vm, &key, value, cas)))
        }
    );
    host!(
        linker,
        "proxy_register_shared_queue",
        |call, name: u32, name_size: u32, token: u32| {
            let name = call.text(name, name_size)?;
            let token_of = {
                let mut world = call.world();
                let root = world.acts_on_root(call.vm);
                let (thread, vm) = (world.machines[call.vm].thread, call.vm);
                world.fabric.register(&name, Listener { thread, vm, root })
            };
            call.number(token, token_of)?;
            Ok(0)
        }
    );
    host!(
        linker,
        "proxy_resolve_shared_queue",
        |call, _vm: u32, vm_size: u32, name: u32, name_size: u32, token: u32| {
            let name = call.text(name, name_size)?;
            if vm_size > 0 {
                return Ok(Status::NotFound as u32);
            }
            let found = call.world().fabric.resolve(&name);
            if let Ok(found) = found {
                call.number(token, found)?;
            }
            Ok(Status::number(found.map(drop)))
        }
    );
    host!(
        linker,
        "proxy_enqueue_shared_queue",
        |call, token: u32, data: u32, size: u32| {
            let message = call.bytes(data, size)?;
            let result = enqueue(&mut call.world(), token, message);
            call.cross().await;
            Ok(Status::number(result))
        }
    );
    host!(
        linker,
        "proxy_dequeue_shared_queue",
        |call, token: u32, data: u32, size: u32| {
            call.cross().await;
            let message = call.world().fabric.dequeue(token);
            call.give(message, data, size).await
        }
    );
    Ok(())
}

fn set(world: &mut World, vm: usize, key: &str, value: Vec<u8>, cas: u32) -> Result<(), Status> {
    world.witness.no_prompt("shared data", &value);
    let (now, one_in) = (world.now, world.faults.refuse_data_one_in);
    let between = world.faults.refuse_data_between;
    if between.is_some_and(|(from, to)| (from..to).contains(&now)) || world.one_in(one_in) {
        return Err(Status::CasMismatch);
    }
    let before = world.fabric.get(key).ok();
    world.fabric.set(key, value.clone(), cas)?;
    if tail(key).starts_with("window-") {
        let machine = &world.machines[vm];
        let request = machine.streams.get(&machine.current).copied();
        let before = before.and_then(|(bytes, _)| WindowRecord::read(&bytes));
        if let (Callback::Request, Some(request), Some(record)) =
            (machine.callback, request, WindowRecord::read(&value))
        {
            // A worker may close its window in the same callback, which nobody joins by.
            let is_new = before.is_none_or(|before| before.id != record.id);
            if is_new || before.is_some_and(|before| before.joined < record.joined) {
                joined(world, key, record.id, request);
            }
        }
    }
    world.trace(format!("vm {vm} wrote {}", tail(key)));
    Ok(())
}

/// What is read of a window's record.
#[derive(Debug, Clone, Copy)]
struct WindowRecord {
    id: u64,
    joined: u32,
}

impl WindowRecord {
    fn read(bytes: &[u8]) -> Option<Self> {
        /// Id, open, owner, when it closes, joined.
        type Beginning = (u64, bool, (u16, u64), u64, u32);
        let (beginning, _) = postcard::take_from_bytes::<Beginning>(bytes).ok()?;
        let (id, _, _, _, joined) = beginning;
        Some(Self { id, joined })
    }
}

/// A request took a seat in the window: there must have been one.
fn joined(world: &mut World, key: &str, window: u64, request: usize) {
    let window = world.witness.joined(key, window, request);
    let exchanges = &world.exchanges;
    let stays = |request: &&usize| exchanges[**request].fate != Some(Fate::Left);
    let members = window.iter().filter(stays).count();
    let most = most_members(&world.configs[exchanges[request].config]);
    if world.whole_windows && most.is_some_and(|most| members > most) {
        let wrong = format!("request {request} joined as number {members} of {most:?}");
        world.witness.wrong(wrong);
    }
}

/// The part of a key that tells it from the others.
fn tail(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn enqueue(world: &mut World, token: u32, message: Vec<u8>) -> Result<(), Status> {
    world.witness.no_prompt("a message", &message);
    let Listener { thread, root, .. } = world.fabric.enqueue(token, message)?;
    let late = world.rng.u64(..=world.faults.late_messages);
    let at = world.now + late;
    world.plan(
        at,
        Event::Notify {
            thread,
            root,
            token,
        },
    );
    Ok(())
}
