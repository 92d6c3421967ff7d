//! The host functions of proxy-wasm 0.2.1, as Envoy does them.

use wasmtime::{Linker, Result};

use super::call::{Call, Host};
use super::exchange::{Fate, Headers};
use super::fabric::Listener;
use super::status::Status;
use super::world::{Callback, Event, World};

/// A host function that takes numbers and answers with a status.
macro_rules! host {
    ($linker:ident, $name:literal, |$call:ident, $($arg:ident: $kind:ty),*| $body:block) => {
        $linker.func_wrap_async("env", $name, |caller, ($($arg,)*): ($($kind,)*)| {
            Box::new(async move {
                #[allow(unused_mut, reason = "not every call writes")]
                let mut $call = Call::new(caller)?;
                let status: Result<u32> = $body;
                status
            })
        })?;
    };
}

const REQUEST_HEADERS: u32 = 0;
const RESPONSE_HEADERS: u32 = 2;
const REQUEST_BODY: u32 = 0;
const PLUGIN_CONFIGURATION: u32 = 7;

pub(super) fn link(linker: &mut Linker<Host>) -> Result<()> {
    link_shared(linker)?;
    link_streams(linker)?;
    link_rest(linker)
}

fn link_shared(linker: &mut Linker<Host>) -> Result<()> {
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
    world.fabric.set(key, value, cas)?;
    if key.ends_with("/window") {
        let machine = &world.machines[vm];
        let request = machine.streams.get(&machine.current).copied();
        match (machine.callback, request) {
            (Callback::Request, Some(request)) => joined(world, key, request),
            (Callback::Root, _) => world.witness.closed(key),
            _ => {}
        }
    }
    world.trace(format!("vm {vm} wrote {}", tail(key)));
    Ok(())
}

/// A request took a seat in the window: there must have been one.
fn joined(world: &mut World, key: &str, request: usize) {
    let window = world.witness.joined(key, request);
    let exchanges = &world.exchanges;
    let stays = |request: &&usize| exchanges[**request].fate != Some(Fate::Left);
    let members = window.iter().filter(stays).count();
    let most = most_members(&world.configs[exchanges[request].config]);
    if world.whole_windows && most.is_some_and(|most| members > most) {
        let wrong = format!("request {request} joined as number {members} of {most:?}");
        world.witness.wrong(wrong);
    }
}

/// `maxBatchSize` of a configuration.
fn most_members(config: &[u8]) -> Option<usize> {
    let config = burst_prefix_cache::config::Config::parse(config).ok()?;
    config.max_batch.map(|most| most.get() as usize)
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

fn link_streams(linker: &mut Linker<Host>) -> Result<()> {
    host!(
        linker,
        "proxy_get_header_map_value",
        |call, map: u32, key: u32, key_size: u32, value: u32, value_size: u32| {
            let key = call.text(key, key_size)?;
            let found = with_headers(&mut call.world(), call.vm, map, |headers| {
                headers.get(&key).ok_or(Status::NotFound)
            });
            call.give(found.and_then(|found| found), value, value_size)
                .await
        }
    );
    host!(
        linker,
        "proxy_replace_header_map_value",
        |call, map: u32, key: u32, key_size: u32, value: u32, value_size: u32| {
            let key = call.text(key, key_size)?;
            let value = call.bytes(value, value_size)?;
            let world = &mut *call.world();
            world.witness.no_prompt("a header", &value);
            if value.iter().any(|byte| !(b' '..=b'~').contains(byte)) {
                world
                    .witness
                    .wrong(format!("{key} has a control character"));
            }
            let one_in = world.faults.refuse_headers_one_in;
            if world.one_in(one_in) {
                return Ok(Status::BadArgument as u32);
            }
            let written = with_headers(world, call.vm, map, |headers| headers.replace(&key, value));
            Ok(Status::number(written))
        }
    );
    host!(
        linker,
        "proxy_remove_header_map_value",
        |call, map: u32, key: u32, key_size: u32| {
            let key = call.text(key, key_size)?;
            let removed = with_headers(&mut call.world(), call.vm, map, |headers| {
                headers.remove(&key);
            });
            Ok(Status::number(removed))
        }
    );
    host!(
        linker,
        "proxy_get_buffer_bytes",
        |call, buffer: u32, start: u32, size: u32, data: u32, data_size: u32| {
            let found = buffer_of(&mut call.world(), call.vm, buffer);
            let found = found.map(|bytes| {
                let start = (start as usize).min(bytes.len());
                let end = (start + size as usize).min(bytes.len());
                bytes[start..end].to_vec()
            });
            call.give(found, data, data_size).await
        }
    );
    host!(
        linker,
        "proxy_get_property",
        |call, path: u32, path_size: u32, value: u32, value_size: u32| {
            let path = call.text(path, path_size)?;
            let found = property(&mut call.world(), call.vm, &path);
            call.give(found, value, value_size).await
        }
    );
    host!(
        linker,
        "proxy_set_effective_context",
        |call, context: u32| {
            let mut world = call.world();
            let machine = &mut world.machines[call.vm];
            if machine.streams.contains_key(&context) || machine.roots.contains_key(&context) {
                machine.effective = context;
                Ok(0)
            } else {
                Ok(Status::BadArgument as u32)
            }
        }
    );
    host!(linker, "proxy_continue_stream", |call, stream: u32| {
        let mut world = call.world();
        let machine = &world.machines[call.vm];
        let context = match machine.effective {
            0 => machine.current,
            effective => effective,
        };
        match machine.streams.get(&context).copied() {
            Some(request) if stream == 0 => {
                world.machines[call.vm].resumed.push_back(request);
                Ok(0)
            }
            _ => Ok(Status::BadArgument as u32),
        }
    });
    Ok(())
}

fn with_headers<T>(
    world: &mut World,
    vm: usize,
    map: u32,
    act: impl FnOnce(&mut Headers) -> T,
) -> Result<T, Status> {
    let exchange = world.acts_on(vm).ok_or(Status::BadArgument)?;
    let headers = match map {
        REQUEST_HEADERS => exchange.request_headers()?,
        RESPONSE_HEADERS => exchange.response.as_mut().ok_or(Status::BadArgument)?,
        _ => return Err(Status::BadArgument),
    };
    Ok(act(headers))
}

fn buffer_of(world: &mut World, vm: usize, buffer: u32) -> Result<Vec<u8>, Status> {
    match buffer {
        REQUEST_BODY => world
            .acts_on(vm)
            .map(|exchange| exchange.buffer.clone())
            .ok_or(Status::NotFound),
        PLUGIN_CONFIGURATION => {
            let root = world.acts_on_root(vm);
            let config = world.machines[vm].roots.get(&root).map(|root| root.config);
            config
                .and_then(|config| world.configs.get(config).cloned())
                .ok_or(Status::NotFound)
        }
        _ => Err(Status::NotFound),
    }
}

fn property(world: &mut World, vm: usize, path: &str) -> Result<Vec<u8>, Status> {
    let exchange = world.acts_on(vm).ok_or(Status::NotFound)?;
    match path {
        "request\0total_size" => {
            let size = exchange.client.headers.bytes() + exchange.received;
            Ok(i64::try_from(size).unwrap().to_le_bytes().to_vec())
        }
        "upstream\0address" => match &exchange.upstream {
            Some(upstream) => {
                let chosen = upstream.headers.get("x-gateway-destination-endpoint");
                Ok(chosen.unwrap_or_else(|| b"10.9.9.9:80".to_vec()))
            }
            None => Err(Status::NotFound),
        },
        _ => Err(Status::NotFound),
    }
}

fn link_rest(linker: &mut Linker<Host>) -> Result<()> {
    host!(
        linker,
        "proxy_log",
        |call, level: u32, text: u32, size: u32| {
            let text = call.text(text, size)?;
            let vm = call.vm;
            let world = &mut *call.world();
            world.witness.no_prompt("the log", text.as_bytes());
            world.trace(format!("vm {vm} logs: {text}"));
            world.witness.log.push((level, text));
            Ok(0)
        }
    );
    host!(
        linker,
        "proxy_set_tick_period_milliseconds",
        |call, millis: u32| {
            let mut world = call.world();
            let root = world.acts_on_root(call.vm);
            world.set_tick(call.vm, root, millis);
            Ok(0)
        }
    );
    host!(
        linker,
        "proxy_get_current_time_nanoseconds",
        |call, at: u32| {
            let now = 1_800_000_000_000_000_000 + call.world().now;
            call.write(at, &now.to_le_bytes())?;
            Ok(0)
        }
    );
    host!(
        linker,
        "proxy_define_metric",
        |call, kind: u32, name: u32, name_size: u32, id: u32| {
            let name = call.text(name, name_size)?;
            let number = {
                let world = &mut *call.world();
                world.witness.no_prompt("a metric", name.as_bytes());
                world.witness.metrics.entry(name.clone()).or_default().kind = kind;
                let metrics = &mut world.machines[call.vm].metrics;
                metrics.push(name);
                u32::try_from(metrics.len() - 1)?
            };
            call.number(id, number)?;
            Ok(0)
        }
    );
    host!(
        linker,
        "proxy_increment_metric",
        |call, id: u32, by: u64| { Ok(Status::number(record(&mut call.world(), call.vm, id, by))) }
    );
    host!(
        linker,
        "proxy_record_metric",
        |call, id: u32, value: u64| {
            Ok(Status::number(record(
                &mut call.world(),
                call.vm,
                id,
                value,
            )))
        }
    );
    Ok(())
}

fn record(world: &mut World, vm: usize, id: u32, by: u64) -> Result<(), Status> {
    let name = world.machines[vm].metrics.get(id as usize);
    let metric = name.and_then(|name| world.witness.metrics.get_mut(name));
    let metric = metric.ok_or(Status::NotFound)?;
    metric.sum += by;
    metric.times += 1;
    Ok(())
}
