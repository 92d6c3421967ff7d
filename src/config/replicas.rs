//! The list of replicas: where it comes from, and the form of each.

use std::net::SocketAddr;

use serde_json::Value;

use super::error::ConfigError;
use super::fields::{Fields, not_available, out_of_range, unknown};

/// The largest number of replicas in one list.
const MAX_REPLICAS: usize = 1024;

impl Fields {
    /// `replicas`: the addresses, in the form Envoy gives its hosts.
    pub(super) fn replicas(&self) -> Result<Vec<String>, ConfigError> {
        const EXPECTED: &str = r#"{"static": ["10.0.0.1:8000", …]}"#;
        let value = self.0.get("replicas").ok_or(ConfigError::Missing {
            field: "replicas",
            expected: EXPECTED,
        })?;
        let Value::Object(source) = value else {
            return Err(out_of_range("replicas", value, EXPECTED));
        };
        for (key, value) in source {
            match (key.as_str(), value) {
                ("static", _) | ("trustSubsetHeader", Value::Bool(false)) => {}
                ("envoyAdmin", _) => {
                    return Err(not_available("replicas.envoyAdmin", value, EXPECTED));
                }
                ("trustSubsetHeader", Value::Bool(true)) => {
                    return Err(not_available("replicas.trustSubsetHeader", value, "false"));
                }
                ("trustSubsetHeader", _) => {
                    return Err(out_of_range(
                        "replicas.trustSubsetHeader",
                        value,
                        "true or false",
                    ));
                }
                _ => return Err(unknown(&format!("replicas.{key}"))),
            }
        }
        static_replicas(source.get("static").ok_or(ConfigError::Missing {
            field: "replicas.static",
            expected: EXPECTED,
        })?)
    }
}

fn static_replicas(list: &Value) -> Result<Vec<String>, ConfigError> {
    const FIELD: &str = "replicas.static";
    let expected = || format!("a list of 1 to {MAX_REPLICAS} replicas as \"ip:port\"");
    let items = list
        .as_array()
        .ok_or_else(|| out_of_range(FIELD, list, expected()))?;
    if items.is_empty() || items.len() > MAX_REPLICAS {
        return Err(ConfigError::OutOfRange {
            field: FIELD.into(),
            value: format!("a list of {}", items.len()),
            expected: expected(),
        });
    }
    let mut replicas: Vec<String> = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let refused =
            |expected: &str| out_of_range(&format!("{FIELD}[{position}]"), item, expected);
        let address: SocketAddr = item
            .as_str()
            .and_then(|text| text.parse().ok())
            .filter(|address: &SocketAddr| address.port() != 0)
            .ok_or_else(|| {
                refused("an address as Envoy routes to it, \"ip:port\" with a port from 1 to 65535")
            })?;
        replicas.push(address.to_string());
    }
    let mut sorted: Vec<&String> = replicas.iter().collect();
    sorted.sort_unstable();
    if let Some(twice) = sorted
        .iter()
        .zip(sorted.iter().skip(1))
        .find_map(|(a, b)| (a == b).then_some(a))
    {
        return Err(ConfigError::OutOfRange {
            field: FIELD.into(),
            value: format!("{twice:?} twice"),
            expected: "each replica once".into(),
        });
    }
    Ok(replicas)
}
