//! Envoy's configuration for a test: the shipped file with other ports and plugin fields.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Map, Value, json};

pub(crate) const SHIPPED: &str = include_str!("../../envoy/envoy.yaml");
pub(crate) const RL: &str = include_str!("../../envoy/rl.yaml");
pub(crate) const SERVING: &str = include_str!("../../envoy/serving.yaml");
const WASM: &str = "target/wasm32-wasip1/release/burst_prefix_cache.wasm";
/// The filter that traps on a request with the header `x-test-trap`.
const TRAPPING: &str = "target/test-trap/wasm32-wasip1/release/burst_prefix_cache.wasm";
/// The address of the shipped file's admin, at the top and in its cluster.
const ADMIN: &str = "address: { socket_address: { address: 127.0.0.1, port_value: 9901 } }";
const KNOB: &str = "allow_on_headers_stop_iteration: true";

/// A copy of the shipped file that is being changed.
pub(crate) struct Config(String);

impl Config {
    /// The shipped file, on free ports, with the built filter and these replicas in the places of
    /// its own. The filter is given them as a list: the port of an admin that takes a free one
    /// cannot be told beforehand.
    pub(crate) fn shipped(replicas: &[String]) -> Self {
        Self::of(SHIPPED, replicas)
    }

    /// The same of another of the shipped files.
    pub(crate) fn of(file_text: &str, replicas: &[String]) -> Self {
        let mut config = Self::discovering(file_text, replicas);
        let own = format!(
            "  {ADMIN}
"
        );
        config.replace(&own, &own.replace("9901", "0"));
        config.replicas(&json!({"static": replicas}))
    }

    /// As the shipped file, with an admin on this port, which tells the filter the replicas.
    pub(crate) fn with_admin(port: u16, replicas: &[String]) -> Self {
        let mut config = Self::discovering(SHIPPED, replicas);
        let own = format!(
            "  {ADMIN}
"
        );
        config.replace(&own, &own.replace("9901", &port.to_string()));
        config.admin_cluster(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// A shipped file with the built filter and these replicas, but for the admin.
    fn discovering(file_text: &str, replicas: &[String]) -> Self {
        let mut config = Self(file_text.to_owned());
        config.replace("port_value: 10000", "port_value: 0");
        config.replace(&file(WASM), &file(&built(WASM)));
        assert_eq!(replicas.len(), 4, "the shipped file has four");
        for (number, replica) in (8001..).zip(replicas) {
            let (_, port) = replica.rsplit_once(':').unwrap();
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

    /// With replicas from elsewhere; the plugin's other fields stay.
    pub(crate) fn replicas(mut self, value: &Value) -> Self {
        let begin = self.0.find("                    replicas:").unwrap();
        let end = begin + self.0[begin..].find("          # <<<").unwrap();
        let line = format!("                    replicas: {value}\n");
        self.0.replace_range(begin..end, &line);
        self
    }

    /// With the replicas as the admin at this address tells them of a cluster.
    pub(crate) fn asking(self, admin: SocketAddr, cluster: &str, refresh_ms: u64) -> Self {
        self.asking_and(admin, cluster, refresh_ms, false)
    }

    /// As [`Config::asking`], where requests may narrow them or not.
    pub(crate) fn asking_and(
        self,
        admin: SocketAddr,
        cluster: &str,
        refresh_ms: u64,
        trust_subset: bool,
    ) -> Self {
        let source = json!({
            "adminCluster": "envoy-admin",
            "cluster": cluster,
            "refreshMs": refresh_ms,
        });
        let source = json!({"envoyAdmin": source, "trustSubsetHeader": trust_subset});
        self.replicas(&source).admin_cluster(admin)
    }

    /// With another address of the cluster that leads to the admin.
    fn admin_cluster(mut self, admin: SocketAddr) -> Self {
        let shipped = format!("{{ {ADMIN} }}");
        let port = format!("port_value: {}", admin.port());
        self.replace(&shipped, &shipped.replace("port_value: 9901", &port));
        self
    }

    /// With more fields of the cluster of the replicas.
    pub(crate) fn of_replicas(mut self, fields: &Value) -> Self {
        let begin = "  - name: replicas\n";
        let mut lines = begin.to_owned();
        for (name, value) in fields.as_object().unwrap() {
            lines.push_str(&format!("    {name}: {value}\n"));
        }
        self.replace(begin, &lines);
        self
    }

    /// The hosts of the replicas' cluster, as `ip:port`.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let (_, hosts) = self.host_lines();
        let ports = hosts.lines().filter_map(|line| {
            let (_, port) = line.split_once("port_value: ")?;
            port.split(' ').next()
        });
        ports.map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// With these of them only.
    pub(crate) fn with_hosts(mut self, hosts: &[String]) -> Self {
        let (at, lines) = self.host_lines();
        let range = at..at + lines.len();
        let kept: Vec<&str> = lines
            .lines()
            .filter(|line| {
                let named = |host: &String| host.rsplit_once(':').unwrap().1.to_owned();
                let port = |host| format!("port_value: {} ", named(host));
                hosts.iter().any(|host| line.contains(&port(host)))
            })
            .collect();
        self.0
            .replace_range(range, &format!("{}\n", kept.join("\n")));
        self
    }

    /// Where the hosts of the replicas' cluster begin, and their lines.
    fn host_lines(&self) -> (usize, &str) {
        let cluster = self.0.find("      cluster_name: replicas\n").unwrap();
        let begin = "      - lb_endpoints:\n";
        let at = cluster + self.0[cluster..].find(begin).unwrap() + begin.len();
        let end = at + self.0[at..].find("  # >>>").unwrap();
        (at, &self.0[at..end])
    }

    /// With the hosts of the replicas' cluster from a file that Envoy watches.
    pub(crate) fn hosts_from(mut self, file: &Path) -> Self {
        let begin = "  - name: replicas\n";
        let kind = "    type: STATIC\n";
        self.replace(&format!("{begin}{kind}"), begin);
        let list = self.0.find("    load_assignment:\n").unwrap();
        let end = list + self.0[list..].find("  # >>>").unwrap();
        self.0.replace_range(list..end, "");
        let source = json!({"resource_api_version": "V3", "path_config_source": {"path": file}});
        self.of_replicas(&json!({
            "type": "EDS",
            "eds_cluster_config": {"eds_config": source, "service_name": "replicas"},
        }))
    }

    /// With another policy of retries.
    pub(crate) fn retry_on(mut self, conditions: &str) -> Self {
        let shipped = "retry_on: \"connect-failure,refused-stream\"";
        self.replace(shipped, &format!("retry_on: \"{conditions}\""));
        self
    }

    /// With routes before the one that takes all.
    pub(crate) fn routes(mut self, routes: &[Value]) -> Self {
        let last = "              - match: { prefix: \"/\" }\n";
        let mut lines = String::new();
        for route in routes {
            lines.push_str(&format!("              - {route}\n"));
        }
        self.replace(last, &format!("{lines}{last}"));
        self
    }

    /// With trailers of HTTP/1, from clients and to the replicas.
    pub(crate) fn with_trailers(mut self) -> Self {
        let options = json!({"enable_trailers": true});
        let codec = "          codec_type: AUTO\n";
        let line = format!("          http_protocol_options: {options}\n");
        self.replace(codec, &format!("{codec}{line}"));
        let kind = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        self.of_replicas(&json!({"typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": kind,
                "explicit_http_config": {"http_protocol_options": options},
            },
        }}))
    }

    /// With a second listener, `plain`, which is as the first one but for the filter.
    pub(crate) fn and_plain(mut self) -> Self {
        let (at, listeners) = self.halves();
        let (before, filter) = listeners
            .split_once("          # >>> the filter\n")
            .unwrap();
        let (_, after) = filter.split_once("          # <<<\n").unwrap();
        let plain = format!("{before}{after}\n");
        let plain = plain.replacen("- name: llm\n", "- name: plain\n", 1);
        let plain = plain.replacen("stat_prefix: llm\n", "stat_prefix: plain\n", 1);
        let end = at + listeners.len() + 1;
        self.0.insert_str(end, &plain);
        self
    }

    /// With another cluster.
    pub(crate) fn cluster(mut self, cluster: &Value) -> Self {
        self.0.push_str(&format!("  - {cluster}\n"));
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
