//! The host functions of proxy-wasm 0.2.1, as Envoy does them.

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

mod calls;
mod shared;
mod streams;

use wasmtime::{Linker, Result};

use super::call::{Call, Host};
use super::status::Status;
use super::world::World;

pub(super) fn link(linker: &mut Linker<Host>) -> Result<()> {
    calls::link(linker)?;
    shared::link(linker)?;
    streams::link(linker)?;
    link_rest(linker)
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

const GAUGE: u32 = 1;

fn record(world: &mut World, vm: usize, id: u32, by: u64) -> Result<(), Status> {
    let name = world.machines[vm].metrics.get(id as usize);
    let metric = name.and_then(|name| world.witness.metrics.get_mut(name));
    let metric = metric.ok_or(Status::NotFound)?;
    metric.sum = match metric.kind {
        GAUGE => by,
        _ => metric.sum + by,
    };
    metric.times += 1;
    Ok(())
}
