//! A file that Envoy watches.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// What an Envoy that watches files must be told: it wants to know who asks.
pub(crate) const NODE: [&str; 4] = ["--service-node", "test", "--service-cluster", "test"];

/// The endpoints of a cluster, each with its health.
pub(crate) fn endpoints(cluster: &str, hosts: &[(&str, &str)]) -> String {
    let host = |(address, health): &(&str, &str)| {
        let (ip, port) = address.rsplit_once(':').unwrap();
        let port: u16 = port.parse().unwrap();
        let address = json!({"address": ip, "port_value": port});
        json!({
            "endpoint": {"address": {"socket_address": address}},
            "health_status": health,
        })
    };
    let hosts: Vec<Value> = hosts.iter().map(host).collect();
    let assignment = json!({
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster,
        "endpoints": [{"lb_endpoints": hosts}],
    });
    json!({"resources": [assignment]}).to_string()
}

/// A file of resources; Envoy sees what is moved into place. Removed when dropped.
pub(crate) struct Watched(PathBuf);

impl Watched {
    pub(crate) fn create(name: &str, text: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let watched = Self(directory);
        watched.put(text);
        watched
    }

    pub(crate) fn put(&self, text: &str) {
        let new = self.0.join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path()).unwrap();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.join("resources.yaml")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
