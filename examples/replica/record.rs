//! `--record`: what arrived, a JSON line for each request.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use hyper::header::HeaderMap;
use serde_json::{Map, Value, json};

/// Where the lines go, if anywhere.
#[derive(Clone)]
pub(crate) struct Recorder {
    file: Option<Arc<File>>,
    replica: String,
}

impl Recorder {
    pub(crate) fn open(path: Option<&Path>, replica: String) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("--record {}", path.display()))?;
            anyhow::Ok(Arc::new(file))
        };
        let file = path.map(open).transpose()?;
        Ok(Self { file, replica })
    }

    /// Notes an arrival, before its body is read.
    pub(crate) fn arrived(&self, method: &str, path: &str, headers: &HeaderMap) -> Record {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let arrived = since_epoch.unwrap_or_default().as_micros();
        let arrived = u64::try_from(arrived).unwrap_or(u64::MAX);
        Record {
            file: self.file.clone(),
            line: json!({
                "replica": self.replica,
                "method": method,
                "path": path,
                "arrived_us": arrived,
                "headers": x_headers(headers),
                "body_bytes": null,
                "body_xxh64": null,
                "prompt_tokens": null,
                "cached_tokens": null,
                "outcome": "gone",
            }),
        }
    }
}

/// Headers that start with `x-`; several of one name are joined by `, `.
fn x_headers(headers: &HeaderMap) -> Map<String, Value> {
    let names = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-"));
    names
        .map(|name| {
            let values = headers.get_all(name).iter();
            let values: Vec<_> = values
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            (name.to_string(), Value::from(values.join(", ")))
        })
        .collect()
}

/// A line that grows while its request is served. It is written once: by [`end`](Self::end), or
/// when dropped, with the outcome `gone`, since then the client left early.
pub(crate) struct Record {
    file: Option<Arc<File>>,
    line: Value,
}

impl Record {
    pub(crate) fn body(&mut self, bytes: usize, xxh64: &str) {
        self.set("body_bytes", bytes.into());
        self.set("body_xxh64", xxh64.into());
    }

    pub(crate) fn tokens(&mut self, prompt: usize, cached: usize) {
        self.set("prompt_tokens", prompt.into());
        self.set("cached_tokens", cached.into());
    }

    /// `outcome` is the status of the answer.
    pub(crate) fn end(&mut self, outcome: u16) {
        self.set("outcome", outcome.into());
        self.write();
    }

    fn set(&mut self, field: &str, value: Value) {
        if let Some(line) = self.line.as_object_mut() {
            line.insert(field.to_owned(), value);
        }
    }

    fn write(&mut self) {
        let Some(file) = self.file.take() else {
            return;
        };
        // One write a line, so that several replicas can share a file.
        let line = format!("{}\n", self.line);
        if let Err(error) = (&*file).write_all(line.as_bytes()) {
            eprintln!("replica: a record was not written: {error}");
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.write();
    }
}
