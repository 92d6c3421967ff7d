//! Starts the real Envoy with a configuration, and asks its admin.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use crate::http1::{self, Answer, Connection};

/// Only there so that a hang ends; nothing is expected to take this long.
const PATIENCE: Duration = Duration::from_secs(120);

const CONCURRENCY: &str = "--concurrency";
const WORKERS: &str = "4";

/// A running Envoy, killed when dropped. Its log is shown when the test has failed.
pub(crate) struct Envoy {
    process: Process,
    admin: SocketAddr,
    /// Where requests go.
    pub(crate) address: SocketAddr,
}

impl Envoy {
    /// Starts with a configuration whose ports are 0, and waits until it serves. `options` come
    /// on top; the number of workers is 4 where they do not say it.
    pub(crate) async fn start(config: &str, options: &[&str]) -> Self {
        let mut process = Process::start(config, options);
        let admin = process.admin().await;
        while !http1::get(admin, "/ready").await.text().contains("LIVE") {
            process.look().await;
        }
        let address = listener(admin, "llm").await;
        Self {
            process,
            admin,
            address,
        }
    }

    /// Where another listener listens.
    pub(crate) async fn listener(&self, name: &str) -> SocketAddr {
        listener(self.admin, name).await
    }

    /// Starts with a configuration that is to be refused: how Envoy ended, and its log.
    pub(crate) async fn refuse(config: &str) -> (ExitStatus, String) {
        let mut process = Process::start(config, &[]);
        loop {
            if let Some(status) = process.child.try_wait().unwrap() {
                return (status, process.log());
            }
            assert!(process.begin.elapsed() < PATIENCE, "Envoy did not end");
            assert!(!process.live().await, "Envoy took the configuration");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the log says so far.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Lines of the log that tell of a fault in the filter or its VM.
    pub(crate) fn faults(&self) -> Vec<String> {
        let log = self.log();
        let faults = log.lines().filter(|line| {
            let bad = ["[warning]", "[error]", "[critical]"];
            let levelled = bad.iter().any(|level| line.contains(level));
            (levelled && line.contains("wasm")) || line.contains("Proxy-Wasm plugin in-VM")
        });
        faults.map(str::to_owned).collect()
    }

    /// A page of the admin.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = http1::get(self.admin, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// The sum of all counters and gauges whose name has `part`; there must be one.
    pub(crate) async fn stat(&self, part: &str) -> u64 {
        let page = self.page("/stats").await;
        let of = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            let value = value.parse::<u64>().ok()?;
            name.contains(part).then_some(value)
        };
        let values: Vec<u64> = page.lines().filter_map(of).collect();
        assert!(!values.is_empty(), "no {part} in {page}");
        values.iter().sum()
    }

    /// Waits until a sum is what it should become.
    pub(crate) async fn await_stat(&self, part: &str, expected: u64) {
        let begin = Instant::now();
        loop {
            let value = self.stat(part).await;
            if value == expected {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{part} is {value}, never became {expected}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Memory of the process that is in use, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.process.child.id());
        let status = fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kibibytes.parse::<u64>().unwrap() << 10
    }

    /// For how long, in all, a request may have been kept waiting because a worker was ready to
    /// run and not let: the window's owner, and the request's own. 0 where Linux does not say.
    pub(crate) fn starved_ms(&self) -> u64 {
        let tasks = format!("/proc/{}/task", self.process.child.id());
        let tasks = fs::read_dir(tasks).unwrap().filter_map(Result::ok);
        let waited = tasks.filter_map(|task| {
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let nanos: u64 = times.split(' ').nth(1)?.parse().ok()?;
            name.starts_with("wrk:worker").then_some(nanos / 1_000_000)
        });
        2 * waited.max().unwrap_or_default()
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Sends a whole request over a connection of its own.
    pub(crate) async fn ask(&self, request: &[u8]) -> Answer {
        let mut connection = self.connect().await;
        connection.write(request).await;
        connection.answer().await
    }
}

/// The process, and the directory with its configuration and log.
struct Process {
    child: Child,
    directory: PathBuf,
    begin: Instant,
}

impl Process {
    fn start(config: &str, options: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // A burst of a thousand needs more than the usual 1024 files, here and in Envoy.
        let _ = rlimit::increase_nofile_limit(1 << 16);
        let number = NUMBER.fetch_add(1, Relaxed);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("envoy-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("envoy.yaml"), config).unwrap();
        let log = File::create(directory.join("log")).unwrap();
        let workers = match options.contains(&CONCURRENCY) {
            true => &[][..],
            false => &[CONCURRENCY, WORKERS],
        };
        let child = Command::new(binary())
            .current_dir(&directory)
            .args(["-c", "envoy.yaml"])
            .args(workers)
            .args(["--admin-address-path", "admin", "--disable-hot-restart"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            directory,
            begin: Instant::now(),
        }
    }

    fn log(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn told_admin(&self) -> Option<SocketAddr> {
        let told = fs::read_to_string(self.directory.join("admin")).ok()?;
        told.trim().parse().ok()
    }

    /// The admin's address, as soon as Envoy tells it.
    async fn admin(&mut self) -> SocketAddr {
        loop {
            if let Some(address) = self.told_admin() {
                return address;
            }
            self.look().await;
        }
    }

    async fn live(&self) -> bool {
        match self.told_admin() {
            Some(admin) => match http1::try_get(admin, "/ready").await {
                Ok(answer) => answer.text().contains("LIVE"),
                // It ends, and its admin with it.
                Err(_) => false,
            },
            None => false,
        }
    }

    /// Waits a moment for an Envoy that must not end.
    async fn look(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("Envoy ended with {status}");
        }
        assert!(self.begin.elapsed() < PATIENCE, "Envoy does not serve");
        sleep(Duration::from_millis(20)).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(20_000);
            let shown = log.get(log.ceil_char_boundary(from)..).unwrap_or_default();
            eprintln!("--- Envoy's log ({})\n{shown}", self.directory.display());
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

async fn listener(admin: SocketAddr, name: &str) -> SocketAddr {
    let page = http1::get(admin, "/listeners?format=json").await.text();
    let page: Value = serde_json::from_str(&page).unwrap();
    let mut listeners = page["listener_statuses"].as_array().unwrap().iter();
    let found = listeners.find(|listener| listener["name"] == name);
    let address = &found.unwrap()["local_address"]["socket_address"];
    let port = u16::try_from(address["port_value"].as_u64().unwrap()).unwrap();
    SocketAddr::new(admin.ip(), port)
}

/// Envoy as `make test` names it, or where `make tools` put it.
fn binary() -> PathBuf {
    let named = std::env::var_os("ENVOY").map(PathBuf::from);
    let found = named.or_else(|| {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools");
        let tools = fs::read_dir(tools).ok()?.filter_map(Result::ok);
        let binaries = tools.map(|tool| tool.path().join("envoy/_bin/envoy"));
        binaries.filter(|binary| binary.exists()).max()
    });
    let found = found.expect("Envoy is not installed: run `make test`");
    assert!(found.exists(), "no {}: run `make test`", found.display());
    found
}
