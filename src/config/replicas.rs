//! Where the replicas come from: their list and the form of each, or Envoy's admin.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value};

use super::error::ConfigError;
use super::fields::{Fields, out_of_range, truth, unknown, whole_within};
use crate::replicas::{Admin, Clusters, LONGEST_NAME, MOST_IN_POOL, Source};

const FIELD: &str = "replicas";
const KNOWN: [&str; 3] = ["static", "envoyAdmin", "trustSubsetHeader"];
const KNOWN_OF_ADMIN: [&str; 3] = ["adminCluster", "cluster", "refreshMs"];

const EXPECTED: &str = r#"{"static": ["10.0.0.1:8000", …]} or {"envoyAdmin": {"adminCluster": …, "cluster": …}}, and "trustSubsetHeader": true or false with either"#;
const EXPECTED_OF_ADMIN: &str =
    r#"{"adminCluster": "…", "cluster": "…" or "*", "refreshMs": 1000}"#;

impl Fields {
    /// `replicas`: where they come from.
    pub(super) fn replicas(&self) -> Result<Source, ConfigError> {
        let fields = self.source()?;
        match (fields.get("static"), fields.get("envoyAdmin")) {
            (Some(list), None) => Ok(Source::Static(static_replicas(list)?)),
            (None, Some(admin)) => Ok(Source::Admin(envoy_admin(admin)?)),
            (Some(_), Some(_)) => Err(ConfigError::OutOfRange {
                field: FIELD.into(),
                value: "static and envoyAdmin together".into(),
                expected: EXPECTED.into(),
            }),
            (None, None) => Err(ConfigError::Missing {
                field: "replicas.static or replicas.envoyAdmin",
                expected: EXPECTED,
            }),
        }
    }

    /// `replicas.trustSubsetHeader`: whether a request may narrow them.
    pub(super) fn trust_subset_header(&self) -> Result<bool, ConfigError> {
        match self.source()?.get("trustSubsetHeader") {
            Some(value) => truth("replicas.trustSubsetHeader", value),
            None => Ok(false),
        }
    }

    fn source(&self) -> Result<&Map<String, Value>, ConfigError> {
        let value = self.0.get(FIELD).ok_or(ConfigError::Missing {
            field: FIELD,
            expected: EXPECTED,
        })?;
        object(FIELD, value, EXPECTED, &KNOWN)
    }
}

/// The fields of an object that stands in the field `name`.
fn object<'a>(
    name: &str,
    value: &'a Value,
    expected: &str,
    known: &'static [&'static str],
) -> Result<&'a Map<String, Value>, ConfigError> {
    let fields = value
        .as_object()
        .ok_or_else(|| out_of_range(name, value, expected))?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(unknown(&format!("{name}.{key}"), known)),
        None => Ok(fields),
    }
}

fn envoy_admin(value: &Value) -> Result<Admin, ConfigError> {
    const REFRESH: &str = "replicas.envoyAdmin.refreshMs";
    let fields = object(
        "replicas.envoyAdmin",
        value,
        EXPECTED_OF_ADMIN,
        &KNOWN_OF_ADMIN,
    )?;
    let admin_cluster = cluster_name(
        fields.get("adminCluster"),
        "replicas.envoyAdmin.adminCluster",
    )?;
    let cluster = cluster_name(fields.get("cluster"), "replicas.envoyAdmin.cluster")?;
    let refresh = match fields.get("refreshMs") {
        Some(value) => whole_within(REFRESH, value, 100, 60_000)?,
        None => 1000,
    };
    Ok(Admin {
        admin_cluster,
        clusters: match cluster.as_str() {
            "*" => Clusters::Routed,
            _ => Clusters::Named(cluster),
        },
        refresh: Duration::from_millis(refresh.unsigned_abs()),
    })
}

fn cluster_name(value: Option<&Value>, field: &'static str) -> Result<String, ConfigError> {
    const EXPECTED: &str =
        "the name of a cluster: 1 to 256 bytes of text without control characters";
    let value = value.ok_or(ConfigError::Missing {
        field,
        expected: EXPECTED,
    })?;
    value
        .as_str()
        .filter(|name| (1..=LONGEST_NAME).contains(&name.len()))
        .filter(|name| !name.chars().any(char::is_control))
        .map(str::to_owned)
        .ok_or_else(|| out_of_range(field, value, EXPECTED))
}

fn static_replicas(list: &Value) -> Result<Vec<String>, ConfigError> {
    const FIELD: &str = "replicas.static";
    let expected = || format!("a list of 1 to {MOST_IN_POOL} replicas as \"ip:port\"");
    let items = list
        .as_array()
        .ok_or_else(|| out_of_range(FIELD, list, expected()))?;
    if items.is_empty() || items.len() > MOST_IN_POOL {
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
