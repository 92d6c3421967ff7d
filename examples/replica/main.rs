//! A stand-in for a vLLM replica: the same API, metrics and prefix-cache rules, and a clock in the
//! place of a model. `--help` lists the options; `engine.rs` says how honest it is.

mod answer;
mod cache;
mod engine;
mod metrics;
mod options;
mod prompt;
mod record;
mod request;
mod server;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::engine::Engine;
use crate::options::{HELP, Options};
use crate::record::Recorder;
use crate::server::Server;

/// A burst's connections that wait to be accepted; the kernel may hold fewer.
const BACKLOG: u32 = 8192;

/// How long answers under way may take once the replica is told to stop.
const GRACE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replica: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let Some(options) = Options::parse(std::env::args_os())? else {
        std::io::stdout().write_all(HELP.as_bytes())?;
        return Ok(());
    };
    // The usual soft limit, 1024 files, is less than a burst's connections.
    if let Err(error) = rlimit::increase_nofile_limit(1 << 16) {
        eprintln!("replica: the limit of open files stays as it is: {error}");
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(serve(&options))
}

async fn serve(options: &Options) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let listener = listen(options.listen)
        .with_context(|| format!("--listen {}: is the port taken?", options.listen))?;
    let address = listener.local_addr()?;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => HeaderValue::try_from(address.to_string())?,
    };
    let replica = name.to_str().context("--name takes visible ASCII")?;
    let server = Arc::new(Server {
        engine: Engine::start(options),
        recorder: Recorder::open(options.record.as_deref(), replica.to_owned())?,
        name,
        model: options.model.clone(),
        block_tokens: options.block_tokens,
        answers: AtomicU64::new(0),
    });
    writeln!(std::io::stdout(), "listening on {address}")?;

    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            stream = accept(&listener) => {
                connections.spawn(connection(stream, Arc::clone(&server), stopped.clone()));
            }
            // Clears what has ended away.
            Some(_) = connections.join_next() => {}
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    drop(listener);
    stop.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    // What is still under way after that is cut off.
    let _ = timeout(GRACE, all).await;
    Ok(())
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                // Out of files, most likely: wait for some to be closed.
                eprintln!("replica: a connection was not accepted: {error}");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, server: Arc<Server>, mut stopped: watch::Receiver<bool>) {
    // A token goes out when it is there, however small.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| Arc::clone(&server).answer(request));
    // Without a timer hyper keeps idle connections open, as a pool of connections likes it.
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // An error here is a client that broke off.
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
