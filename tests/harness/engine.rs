//! The built filter, compiled once, and VMs of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use wasmtime::{
    Config, Engine, InstancePre, Linker, Module, PoolingAllocationConfig, Result, Store, TypedFunc,
    format_err,
};

use super::call::Host;
use super::world::World;
use super::{abi, wasi};

/// Where `make build` leaves the filter; `FILTER_WASM` names another.
fn artefact() -> PathBuf {
    std::env::var_os("FILTER_WASM").map_or_else(
        || {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("target/wasm32-wasip1/release/burst_prefix_cache.wasm")
        },
        PathBuf::from,
    )
}

fn filter() -> &'static InstancePre<Host> {
    static FILTER: OnceLock<InstancePre<Host>> = OnceLock::new();
    FILTER.get_or_init(|| compile().expect("the filter compiles"))
}

fn compile() -> Result<InstancePre<Host>> {
    let path = artefact();
    let bytes = std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; `make test` builds the filter first",
            path.display()
        )
    });
    let mut pool = PoolingAllocationConfig::default();
    // A callback takes a stack, and so does the filter's allocator, called from within a host call.
    pool.total_core_instances(64)
        .total_memories(64)
        .total_tables(64)
        .total_stacks(256)
        .max_memory_size(256 << 20)
        .linear_memory_keep_resident(256 << 10)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(64 << 10);
    let mut config = Config::new();
    config
        .allocation_strategy(pool)
        .cranelift_debug_verifier(false)
        .async_stack_zeroing(false);
    let engine = Engine::new(&config)?;
    let module = Module::new(&engine, bytes)?;
    let mut linker = Linker::new(&engine);
    abi::link(&mut linker)?;
    wasi::link(&mut linker)?;
    // The SDK imports more than the filter calls.
    linker.define_unknown_imports_as_traps(&module)?;
    linker.instantiate_pre(&module)
}

/// A VM of the filter.
pub(crate) struct Vm {
    pub(crate) number: usize,
    store: Store<Host>,
    exports: Exports,
}

struct Exports {
    context_create: TypedFunc<(u32, u32), ()>,
    vm_start: TypedFunc<(u32, u32), u32>,
    configure: TypedFunc<(u32, u32), u32>,
    tick: TypedFunc<u32, ()>,
    queue_ready: TypedFunc<(u32, u32), ()>,
    request_headers: TypedFunc<(u32, u32, u32), u32>,
    request_body: TypedFunc<(u32, u32, u32), u32>,
    request_trailers: TypedFunc<(u32, u32), u32>,
    response_headers: TypedFunc<(u32, u32, u32), u32>,
    call_response: TypedFunc<(u32, u32, u32, u32, u32), ()>,
    log: TypedFunc<u32, ()>,
    done: TypedFunc<u32, u32>,
    delete: TypedFunc<u32, ()>,
}

/// A call into a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    ContextCreate {
        context: u32,
        root: u32,
    },
    VmStart,
    Configure {
        size: u32,
    },
    Tick,
    QueueReady {
        token: u32,
    },
    CallResponse {
        token: u32,
        headers: usize,
        body: usize,
    },
    RequestHeaders {
        count: u32,
        end: bool,
    },
    RequestBody {
        size: u32,
        end: bool,
    },
    RequestTrailers,
    ResponseHeaders,
    Log,
    Done,
    Delete,
}

impl Vm {
    /// A VM that has started, and has no context yet.
    pub(crate) async fn start(world: Arc<Mutex<World>>, number: usize) -> Result<Self> {
        let filter = filter();
        let host = Host {
            world,
            vm: number,
            memory: None,
            allocate: None,
        };
        let mut store = Store::new(filter.module().engine(), host);
        let instance = filter.instantiate_async(&mut store).await?;
        let memory = instance.get_memory(&mut store, "memory");
        store.data_mut().memory = Some(memory.ok_or_else(|| format_err!("no memory"))?);
        let allocate = instance.get_typed_func(&mut store, "proxy_on_memory_allocate")?;
        store.data_mut().allocate = Some(allocate);
        let mut export = |name: &str| {
            let found = instance.get_func(&mut store, name);
            found.ok_or_else(|| format_err!("the filter does not export {name}"))
        };
        let functions = [
            "proxy_on_context_create",
            "proxy_on_vm_start",
            "proxy_on_configure",
            "proxy_on_tick",
            "proxy_on_queue_ready",
            "proxy_on_request_headers",
            "proxy_on_request_body",
            "proxy_on_request_trailers",
            "proxy_on_response_headers",
            "proxy_on_http_call_response",
            "proxy_on_log",
            "proxy_on_done",
            "proxy_on_delete",
            "_initialize",
        ]
        .map(&mut export);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, initialize] = functions;
        let exports = Exports {
            context_create: a?.typed(&store)?,
            vm_start: b?.typed(&store)?,
            configure: c?.typed(&store)?,
            tick: d?.typed(&store)?,
            queue_ready: e?.typed(&store)?,
            request_headers: f?.typed(&store)?,
            request_body: g?.typed(&store)?,
            request_trailers: h?.typed(&store)?,
            response_headers: i?.typed(&store)?,
            call_response: j?.typed(&store)?,
            log: k?.typed(&store)?,
            done: l?.typed(&store)?,
            delete: m?.typed(&store)?,
        };
        let initialize = initialize?.typed::<(), ()>(&store)?;
        initialize.call_async(&mut store, ()).await?;
        Ok(Self {
            number,
            store,
            exports,
        })
    }

    /// The size of the VM's memory, which never shrinks.
    pub(crate) fn memory_bytes(&self) -> usize {
        let memory = self.store.data().memory;
        memory.map_or(0, |memory| memory.data_size(&self.store))
    }

    /// Calls the filter; what has no answer answers 0.
    pub(crate) async fn call(&mut self, context: u32, into: Into) -> Result<u32> {
        let store = &mut self.store;
        let exports = &self.exports;
        match into {
            Into::ContextCreate { context, root } => {
                let create = &exports.context_create;
                create.call_async(store, (context, root)).await?;
            }
            Into::VmStart => return exports.vm_start.call_async(store, (context, 0)).await,
            Into::Configure { size } => {
                let configure = &exports.configure;
                return configure.call_async(store, (context, size)).await;
            }
            Into::Tick => exports.tick.call_async(store, context).await?,
            Into::QueueReady { token } => {
                let ready = &exports.queue_ready;
                ready.call_async(store, (context, token)).await?;
            }
            Into::CallResponse {
                token,
                headers,
                body,
            } => {
                let response = &exports.call_response;
                let (headers, body) = (u32::try_from(headers)?, u32::try_from(body)?);
                let arguments = (context, token, headers, body, 0);
                response.call_async(store, arguments).await?;
            }
            Into::RequestHeaders { count, end } => {
                let headers = &exports.request_headers;
                let arguments = (context, count, u32::from(end));
                return headers.call_async(store, arguments).await;
            }
            Into::RequestBody { size, end } => {
                let body = &exports.request_body;
                return body
                    .call_async(store, (context, size, u32::from(end)))
                    .await;
            }
            Into::RequestTrailers => {
                let trailers = &exports.request_trailers;
                return trailers.call_async(store, (context, 1)).await;
            }
            Into::ResponseHeaders => {
                let headers = &exports.response_headers;
                return headers.call_async(store, (context, 1, 0)).await;
            }
            Into::Log => exports.log.call_async(store, context).await?,
            Into::Done => return exports.done.call_async(store, context).await,
            Into::Delete => exports.delete.call_async(store, context).await?,
        }
        Ok(0)
    }
}
