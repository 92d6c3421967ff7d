//! Headers, bodies and properties of the stream that a call acts on, and its resume.

use wasmtime::{Linker, Result};

use crate::harness::call::{Call, Host};
use crate::harness::exchange::Headers;
use crate::harness::status::Status;
use crate::harness::world::World;

const REQUEST_HEADERS: u32 = 0;
const REQUEST_TRAILERS: u32 = 1;
const RESPONSE_HEADERS: u32 = 2;
const CALL_RESPONSE_HEADERS: u32 = 6;
const REQUEST_BODY: u32 = 0;
const CALL_RESPONSE_BODY: u32 = 4;
const PLUGIN_CONFIGURATION: u32 = 7;

pub(super) fn link(linker: &mut Linker<Host>) -> Result<()> {
    host!(
        linker,
        "proxy_get_header_map_value",
        |call, map: u32, key: u32, key_size: u32, value: u32, value_size: u32| {
            let key = call.text(key, key_size)?;
            let found = with_headers(&mut call.world(), call.vm, map, |headers| {
                headers.first(&key).ok_or(Status::NotFound)
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
    if map == CALL_RESPONSE_HEADERS {
        let answer = world.machines[vm].answer.as_mut();
        let headers = answer.and_then(|answer| answer.headers.as_mut());
        return headers.map(act).ok_or(Status::BadArgument);
    }
    let exchange = world.acts_on(vm).ok_or(Status::BadArgument)?;
    let headers = match map {
        REQUEST_HEADERS => exchange.request_headers()?,
        REQUEST_TRAILERS if exchange.trailers => &mut exchange.trailing,
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
        CALL_RESPONSE_BODY => {
            let answer = world.machines[vm].answer.as_ref();
            answer
                .map(|answer| answer.body.clone())
                .ok_or(Status::NotFound)
        }
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
        "xds\0cluster_name" => {
            let cluster = exchange.client.cluster.ok_or(Status::NotFound)?;
            Ok(cluster.as_bytes().to_vec())
        }
        "upstream\0address" => match &exchange.upstream {
            Some(upstream) => {
                let chosen = upstream.headers.get("x-gateway-destination-endpoint");
                Ok(chosen.unwrap_or_else(|| b"10.9.9.9:80".to_vec()))
            }
            None => Err(Status::NotFound),
        },
        path => {
            let name = path.strip_prefix("request\0headers\0");
            let name = name.ok_or(Status::NotFound)?;
            exchange
                .request_headers()?
                .get(name)
                .ok_or(Status::NotFound)
        }
    }
}
