//! The rows as WebAssembly: `benches/guest`, run by wasmtime.

use std::path::Path;

use anyhow::{anyhow, ensure};
use wasmtime::{Config, Engine, Linker, Module, OptLevel, Store, TypedFunc};

/// The guest in its sandbox.
pub(crate) struct Guest {
    store: Store<()>,
    prepare: TypedFunc<u32, u32>,
    run: TypedFunc<u32, ()>,
}

impl Guest {
    /// Compiles the guest. It gets nothing from the host: whatever it imports, calls of the proxy
    /// among them, answers zero.
    pub(crate) fn load(file: &Path) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.cranelift_opt_level(OptLevel::Speed);
        let engine = Engine::new(&config)?;
        let module = Module::from_file(&engine, file)?;
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_default_values(&mut store, &module)?;
        let instance = linker.instantiate(&mut store, &module)?;
        instance
            .get_typed_func::<(), ()>(&mut store, "_initialize")?
            .call(&mut store, ())?;
        Ok(Self {
            prepare: instance.get_typed_func(&mut store, "prepare")?,
            run: instance.get_typed_func(&mut store, "run")?,
            store,
        })
    }

    /// Makes the input of this row.
    pub(crate) fn prepare(&mut self, row: usize) -> anyhow::Result<()> {
        let known = self.prepare.call(&mut self.store, u32::try_from(row)?);
        ensure!(
            known.map_err(trap)? == 1,
            "the guest has no row {row}: it is older than the bench"
        );
        Ok(())
    }

    /// Does the work of the row this many times.
    pub(crate) fn run(&mut self, times: u64) -> anyhow::Result<()> {
        let times = u32::try_from(times)?;
        self.run.call(&mut self.store, times).map_err(trap)
    }
}

/// Wasmtime's errors are of a type of its own.
pub(crate) fn trap(error: wasmtime::Error) -> anyhow::Error {
    anyhow!("{error:#}")
}
