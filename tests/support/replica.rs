//! Starts stand-in replicas and talks to them over plain sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Only there so that a hang ends; nothing is expected to take this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running replica, killed when dropped.
pub(crate) struct Replica {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Replica {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ");
        let address = address.unwrap_or_default().to_owned();
        let replica = Self { child, address };
        assert!(!replica.address.is_empty(), "it said {line:?}");
        replica
    }

    /// One whose prefill and decode take no time.
    pub(crate) fn quick() -> Self {
        Self::start(&["--prefill-us-per-token", "0", "--decode-us-per-token", "0"])
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        stream
            .write_all(request(method, path, headers, body).as_bytes())
            .unwrap();
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        Answer::read(self.send(method, path, headers, body))
    }

    pub(crate) fn complete(&self, body: &Value) -> Answer {
        self.ask("POST", "/v1/completions", "", &body.to_string())
    }

    /// A number of `/metrics`, by what stands before it with the model's label left out.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.ask("GET", "/metrics", "", "").body;
        let page = page.replace("model_name=\"stand-in\"", "");
        let value = page.lines().find_map(|line| line.strip_prefix(name));
        let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
        value.trim().parse().unwrap()
    }

    /// Waits until a number of `/metrics` is what it should become.
    pub(crate) fn await_metric(&self, name: &str, expected: f64) {
        let begin = Instant::now();
        while self.metric(name) != expected {
            assert!(begin.elapsed() < PATIENCE, "{name} never became {expected}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The example, built in the profile of this test. A plain `cargo test` has built it already and
/// this takes no time, but one that names its targets has not, or left an old one there.
pub(crate) fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap().file_name().unwrap();
        let profile = match profile.to_str().unwrap() {
            "debug" => "dev",
            named => named,
        };
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--example", "replica", "--profile", profile])
            .args(["--message-format", "json", "--quiet"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(built.status.success(), "the replica was not built");
        let messages = String::from_utf8(built.stdout).unwrap();
        let executable = messages.lines().find_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            let example = message["target"]["name"] == "replica";
            let path = message["executable"].as_str()?;
            example.then(|| PathBuf::from(path))
        });
        executable.expect("cargo tells where the replica is")
    })
}

pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: replica\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    )
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    body: String,
}

impl Answer {
    /// Reads to the end of the connection.
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut whole = String::new();
        stream.read_to_string(&mut whole).unwrap();
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }

    /// Prompt tokens and cached tokens.
    pub(crate) fn usage(&self) -> (u64, u64) {
        assert_eq!(self.status, 200, "{}", self.body);
        let usage = &self.json()["usage"];
        let cached = &usage["prompt_tokens_details"]["cached_tokens"];
        (
            usage["prompt_tokens"].as_u64().unwrap(),
            cached.as_u64().unwrap(),
        )
    }

    /// The data of a stream's events; chunk sizes stand on lines of their own and drop out.
    pub(crate) fn events(&self) -> Vec<&str> {
        let lines = self.body.lines();
        lines
            .filter_map(|line| line.strip_prefix("data: "))
            .collect()
    }
}
