//! Envoy's configuration for a test: the shipped file with other ports and plugin fields.

use std::path::Path;

use serde_json::{Map, Value, json};

const SHIPPED: &str = include_str!("../../envoy/envoy.yaml");
const WASM: &str = "target/wasm32-wasip1/release/burst_prefix_cache.wasm";
/// The filter that traps on a request with the header `x-test-trap`.
const TRAPPING: &str = "target/test-trap/wasm32-wasip1/release/burst_prefix_cache.wasm";
const KNOB: &str = "allow_on_headers_stop_iteration: true";

/// A copy of the shipped file that is being changed.
pub(crate) struct Config(String);

impl Config {
    /// The shipped file, on free ports, with the built filter and these replicas in the places of
    /// its own.
    pub(crate) fn shipped(replicas: &[String]) -> Self {
        let mut config = Self(SHIPPED.to_owned());
        config.replace("port_value: 9901", "port_value: 0");
        config.replace("port_value: 10000", "port_value: 0");
        config.replace(&file(WASM), &file(&built(WASM)));
        assert_eq!(replicas.len(), 4, "the shipped file has four");
        for (number, replica) in (8001..).zip(replicas) {
            let (_, port) = replica.rsplit_once(':').unwrap();
            config.replace(&format!("127.0.0.1:{number}"), replica);
            config.replace(
                &format!("port_value: {number}"),
                &format!("port_value: {port}"),
            );
        }
        config
    }

    /// With this window, and fields that the shipped file leaves at their defaults.
    pub(crate) fn plugin(mut self, window_ms: u32, fields: &[(&str, Value)]) -> Self {
        let shipped = "windowDurationMs: 100\n";
        let indent = " ".repeat(20);
        let mut lines = format!("windowDurationMs: {window_ms}\n");
        for (field, value) in fields {
            lines.push_str(&format!("{indent}{field}: {value}\n"));
        }
        self.replace(shipped, &lines);
        self
    }

    /// With another plugin configuration altogether, as a protobuf `Struct`.
    pub(crate) fn plugin_struct(self, fields: &Map<String, Value>) -> Self {
        self.plugin_config("google.protobuf.Struct", &json!(fields))
    }

    /// With another plugin configuration altogether, as JSON text.
    pub(crate) fn plugin_text(self, text: &str) -> Self {
        self.plugin_config("google.protobuf.StringValue", &json!(text))
    }

    fn plugin_config(mut self, kind: &str, value: &Value) -> Self {
        let begin = self.0.find("configuration:\n").unwrap();
        let end = begin + self.0[begin..].find("          # <<<").unwrap();
        let any = json!({"@type": format!("type.googleapis.com/{kind}"), "value": value});
        self.0
            .replace_range(begin..end, &format!("configuration: {any}\n"));
        self
    }

    /// Without the setting that lets bodies reach a filter that has stopped the headers.
    pub(crate) fn without_knob(mut self) -> Self {
        self.replace(KNOB, "allow_on_headers_stop_iteration: false");
        self
    }

    /// With the filter that can be made to trap.
    pub(crate) fn trapping(mut self) -> Self {
        self.replace(&file(&built(WASM)), &file(&built(TRAPPING)));
        self
    }

    /// With another bound of what Envoy buffers of a connection, in bytes.
    pub(crate) fn buffer_limit(mut self, bytes: usize) -> Self {
        let shipped = "per_connection_buffer_limit_bytes: 4194304";
        let limit = format!("per_connection_buffer_limit_bytes: {bytes}");
        self.replace(shipped, &limit);
        self
    }

    /// With another time after which Envoy gives up on a connection to a replica.
    pub(crate) fn connect_timeout(mut self, seconds: u32) -> Self {
        let shipped = "connect_timeout: 2s";
        self.replace(shipped, &format!("connect_timeout: {seconds}s"));
        self
    }

    /// With another time after which Envoy ends a stream that hears nothing.
    pub(crate) fn idle_timeout(mut self, seconds: u32) -> Self {
        let shipped = "stream_idle_timeout: 300s";
        self.replace(shipped, &format!("stream_idle_timeout: {seconds}s"));
        self
    }

    /// With a second listener, `plain`, that is as the first but for the filter.
    pub(crate) fn with_plain_listener(mut self) -> Self {
        let (at, listeners) = self.halves();
        let end = at + listeners.len();
        let mut plain = listeners.replace("- name: llm\n", "- name: plain\n");
        plain = plain.replace("stat_prefix: llm\n", "stat_prefix: plain\n");
        let begin = plain.find("          # >>> the filter").unwrap();
        let stop = "          # <<<\n";
        let length = plain[begin..].find(stop).unwrap() + stop.len();
        plain.replace_range(begin..begin + length, "");
        self.0.insert_str(end, &format!("\n{plain}"));
        self
    }

    /// The listener, as a file of its own that Envoy is told to watch.
    pub(crate) fn listeners_file(&self) -> String {
        let (_, listeners) = self.halves();
        // Two columns less, and the type that a file of resources asks for.
        let lines = listeners.lines().map(|line| line.get(2..).unwrap_or(line));
        let lines: Vec<&str> = lines.collect();
        let kind = "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener";
        let resource = lines.join("\n");
        let resource = resource.strip_prefix("- ").unwrap();
        format!("resources:\n- {kind}\n  {resource}\n")
    }

    /// Without its listener, which stands in a file that Envoy watches.
    pub(crate) fn watching(mut self, file: &Path) -> Self {
        let (at, listeners) = self.halves();
        let range = at..at + listeners.len();
        let begin = "  listeners:\n";
        self.0
            .replace_range(range.start - begin.len()..range.end, "");
        let source = json!({"resource_api_version": "V3", "path_config_source": {"path": file}});
        let dynamic = json!({"lds_config": source});
        self.0.push_str(&format!("dynamic_resources: {dynamic}\n"));
        self
    }

    /// Where the listeners begin, and what they are.
    fn halves(&self) -> (usize, &str) {
        let begin = self.0.find("  listeners:\n").unwrap() + "  listeners:\n".len();
        let end = begin + self.0[begin..].find("\n  clusters:\n").unwrap();
        (begin, &self.0[begin..end])
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    fn replace(&mut self, shipped: &str, by: &str) {
        let times = self.0.matches(shipped).count();
        assert_eq!(times, 1, "`{shipped}` in envoy/envoy.yaml");
        self.0 = self.0.replace(shipped, by);
    }
}

/// The path of a built filter, as a YAML text.
fn built(path: &str) -> String {
    let wasm = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert!(wasm.exists(), "no {}: run `make test`", wasm.display());
    json!(wasm).to_string()
}

fn file(path: &str) -> String {
    format!("filename: {path} }}")
}
