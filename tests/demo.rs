//! The demo as a user runs it: what it shows, and that it leaves nothing behind however it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

#[path = "support/replica.rs"]
#[allow(dead_code, reason = "of the replicas only the binary is needed here")]
mod support;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const WASM: &str = "target/wasm32-wasip1/release/burst_prefix_cache.wasm";

/// Only there so that a hang ends; a busy machine may take its time.
const PATIENCE: Duration = Duration::from_secs(180);

/// A demo with a directory for temporary files of its own, by whose name its processes are known.
struct Demo {
    child: Child,
    home: PathBuf,
}

impl Demo {
    fn start(options: &[&str]) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(root.join(WASM).is_file(), "run `make build tools` first");
        let number = STARTED.fetch_add(1, Relaxed);
        let home = format!("demo-test-{}-{number}", std::process::id());
        let home = std::env::temp_dir().join(home);
        std::fs::create_dir_all(&home).unwrap();
        let child = Command::new("python3")
            .arg("examples/demo")
            .arg("--replica-bin")
            .arg(support::binary())
            .args(options)
            .current_dir(root)
            .env("TMPDIR", &home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, home }
    }

    /// Waits until it has said so, in this line or another.
    fn await_text(&mut self, text: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut said = Vec::new();
        let mut byte = [0];
        while !said.ends_with(text.as_bytes()) {
            let read = stdout.read(&mut byte).unwrap();
            let so_far = || String::from_utf8_lossy(&said).into_owned();
            assert_eq!(read, 1, "it ended without {text:?}: {}", so_far());
            said.extend(byte);
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let kill = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(kill.unwrap().success());
    }

    /// Waits for its end, and checks that nothing of it is left.
    fn end(mut self) -> Ended {
        // What it says fits into the pipes, so that it never waits for a reader.
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it never ended");
            thread::sleep(Duration::from_millis(20));
        };
        let left = processes(&self.home);
        let files: Vec<_> = std::fs::read_dir(&self.home).unwrap().collect();
        assert!(left.is_empty(), "processes are left: {left:?}");
        assert!(files.is_empty(), "files are left: {files:?}");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let pipe = self.child.stdout.as_mut().unwrap();
        pipe.read_to_string(&mut stdout).unwrap();
        let pipe = self.child.stderr.as_mut().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        Ended {
            code: status.code(),
            stdout,
            stderr,
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The command lines of the processes that inherited this directory for temporary files.
fn processes(home: &Path) -> Vec<String> {
    let mark = format!("TMPDIR={}", home.display()).into_bytes();
    // Where there is no /proc, the files tell.
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let marked = paths.filter(|path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|var| var == mark)
    });
    marked
        .map(|path| std::fs::read_to_string(path.join("cmdline")).unwrap_or_default())
        .collect()
}

#[test]
fn every_group_lands_on_one_replica_and_the_difference_is_told() {
    let ended = Demo::start(&[]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = "8 of 8 groups on one replica; ";
    let verdict = ended.stdout.lines().find(|line| line.starts_with(told));
    let verdict = verdict.unwrap_or_else(|| panic!("{ended:?}"));
    assert!(verdict.contains("x fewer tokens prefilled"), "{verdict}");
    for row in ["group 8 ", "8 lone ", "hit rate ", "r4 ", "held by filter "] {
        let rows = ended.stdout.lines().filter(|line| line.starts_with(row));
        assert_eq!(rows.count(), 1, "{row}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\x1b'), "no colours in a pipe");
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_signal_ends_it_at_any_time_and_nothing_is_left() {
    for (said, signal, code) in [
        ("starting", "INT", 130),
        ("firing", "INT", 130),
        ("with the filter", "TERM", 143),
        (
            "window 100 ms: starting 4 replicas and Envoy ... ",
            "INT",
            130,
        ),
        (
            "window 100 ms: starting 4 replicas and Envoy ... firing",
            "TERM",
            143,
        ),
    ] {
        let mut demo = Demo::start(&[]);
        demo.await_text(said);
        demo.signal(signal);
        let ended = demo.end();
        assert_eq!(ended.code, Some(code), "{said}: {ended:?}");
        assert_eq!(ended.stderr, format!("demo: stopped by SIG{signal}\n"));
    }
}

#[test]
fn a_wrong_option_is_named_with_what_it_takes() {
    for (options, told) in [
        (["--groups", "0"], "--groups: takes 1 to 100, not 0"),
        (
            ["--window-ms", "soon"],
            "--window-ms: takes 1 to 10000, not soon",
        ),
        (["--group", "4"], "unrecognized arguments: --group 4"),
        (
            ["--groups=100", "--samples=100"],
            "makes 10008 requests, at most 1000",
        ),
    ] {
        let ended = Demo::start(&options).end();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(told), "{ended:?}");
    }
}

#[test]
fn what_does_not_start_is_told_with_the_end_of_its_log() {
    for (options, told) in [
        (
            ["--wasm", "Cargo.toml"],
            "Plugin burst-prefix-cache failed to load",
        ),
        (["--envoy", "Cargo.toml"], "Envoy did not start: "),
        (
            ["--envoy", "target/none"],
            "`make demo` builds and installs",
        ),
    ] {
        let ended = Demo::start(&options).end();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(told), "{ended:?}");
        assert!(!ended.stderr.contains("Traceback"), "{ended:?}");
    }
}
