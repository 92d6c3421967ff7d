//! What the filter takes of WASI: a clock, randomness, and an output that nobody reads.

use wasmtime::{Linker, Result, bail};

use super::call::{Call, Host};

const WASI: &str = "wasi_snapshot_preview1";

pub(super) fn link(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap_async(
        WASI,
        "clock_time_get",
        |caller, (_clock, _precision, at): (u32, u64, u32)| {
            Box::new(async move {
                let mut call = Call::new(caller)?;
                let now = call.world().now;
                call.write(at, &now.to_le_bytes())?;
                Ok(0_u32)
            })
        },
    )?;
    linker.func_wrap_async(WASI, "random_get", |caller, (at, size): (u32, u32)| {
        Box::new(async move {
            let mut call = Call::new(caller)?;
            let mut bytes = vec![0; size as usize];
            call.world().rng.fill(&mut bytes);
            call.write(at, &bytes)?;
            Ok(0_u32)
        })
    })?;
    linker.func_wrap_async(
        WASI,
        "environ_sizes_get",
        |caller, (count, size): (u32, u32)| {
            Box::new(async move {
                let mut call = Call::new(caller)?;
                call.number(count, 0)?;
                call.number(size, 0)?;
                Ok(0_u32)
            })
        },
    )?;
    linker.func_wrap(WASI, "environ_get", |_: u32, _: u32| 0_u32)?;
    linker.func_wrap_async(
        WASI,
        "fd_write",
        |caller, (_file, vectors, count, written): (u32, u32, u32, u32)| {
            Box::new(async move {
                let mut call = Call::new(caller)?;
                let mut output = Vec::new();
                for vector in 0..count {
                    let pair = call.bytes(vectors + 8 * vector, 8)?;
                    let number =
                        |at: usize| u32::from_le_bytes(pair[at..at + 4].try_into().unwrap());
                    output.extend(call.bytes(number(0), number(4))?);
                }
                call.number(written, u32::try_from(output.len())?)?;
                let text = String::from_utf8_lossy(&output).into_owned();
                let world = &mut *call.world();
                world.witness.no_prompt("the output", &output);
                world.witness.log.push((u32::MAX, text));
                Ok(0_u32)
            })
        },
    )?;
    linker.func_wrap(WASI, "proc_exit", |code: u32| -> Result<()> {
        bail!("the filter left with {code}")
    })?;
    Ok(())
}
