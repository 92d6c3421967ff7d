//! Any bytes as the answer of Envoy's admin: read, or refused with a short message.

use std::sync::OnceLock;

use burst_prefix_cache::replicas::{Clusters, admin};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::mutate::{changed, changes};
use crate::{cases, on_a_stack_of};

/// A real answer.
const REAL: &[u8] = include_bytes!("../discovery/clusters-1.40.json");

/// The same without white space, so that a change is more likely to hit something.
fn real() -> &'static [u8] {
    static DENSE: OnceLock<Vec<u8>> = OnceLock::new();
    DENSE.get_or_init(|| {
        let real: Value = serde_json::from_slice(REAL).unwrap();
        real.to_string().into_bytes()
    })
}

fn check(answer: &[u8]) {
    for clusters in [Clusters::Routed, Clusters::Named("pool".to_owned())] {
        match admin::read(answer, &clusters) {
            Ok(pools) => {
                assert!(pools.iter().count() <= 256);
                assert!(pools.usable() <= 4096);
                for (name, pool) in pools.iter() {
                    assert!(name.len() <= 256 && clusters.want(name));
                    let names = pool.replicas.iter().map(|replica| &replica.name);
                    assert!(names.clone().is_sorted_by(|a, b| a < b));
                    for name in names {
                        let address: std::net::SocketAddr = name.parse().unwrap();
                        assert!(address.port() != 0 && address.to_string() == *name);
                    }
                }
            }
            Err(failure) => {
                let message = failure.to_string();
                assert!((1..500).contains(&message.len()), "{message}");
            }
        }
    }
}

/// One of the values of Envoy's answer, or another.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(|number| json!(number.to_string())),
        prop::sample::select(&["rq_active", "DEGRADED", "HEALTHY", "10.0.0.1", "::1", "-1"][..])
            .prop_map(Value::from),
        ".{0,30}".prop_map(Value::from),
    ];
    let field = prop::sample::select(
        &[
            "address",
            "socket_address",
            "port_value",
            "stats",
            "name",
            "value",
            "health_status",
            "eds_health_status",
            "failed_outlier_check",
            "weight",
            "priority",
        ][..],
    );
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((field.clone(), inner), 0..5).prop_map(|fields| {
                let fields = fields.into_iter();
                Value::Object(fields.map(|(name, v)| (name.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn an_answer_and_what_is_nearly_one(changes in changes()) {
        check(&changed(real().to_vec(), &changes));
    }

    #[test]
    fn any_hosts(hosts in prop::collection::vec(any_value(), 0..5), name in ".{0,10}") {
        let cluster = json!({"name": name, "host_statuses": hosts});
        check(json!({"cluster_statuses": [cluster]}).to_string().as_bytes());
    }
}

#[test]
fn deep_and_long_answers() {
    on_a_stack_of(1024, || {
        let many = 1_000_000;
        for host in [
            "[",
            "{\"address\":",
            "{\"x\":[",
            "1,",
            "{},",
            "\"",
            "{\"stats\":[1,",
        ] {
            let hosts = host.repeat(many / host.len());
            check(hosts.as_bytes());
            let begin = r#"{"cluster_statuses":[{"name":"pool","host_statuses":["#;
            check(format!("{begin}{hosts}").as_bytes());
            check(format!("{begin}{hosts}0]}}]}}").as_bytes());
            check(format!("{{\"other\":{hosts}").as_bytes());
        }
    });
}
