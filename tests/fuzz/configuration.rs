//! Any bytes as the plugin configuration: taken and in range, or refused with a short message.

use std::collections::HashSet;
use std::time::Duration;

use burst_prefix_cache::config::Config;
use burst_prefix_cache::replicas::{Clusters, Source};
use proptest::prelude::*;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct};
use serde_json::{Map, Value, json};

use crate::mutate::{changed, changes};
use crate::{cases, on_a_stack_of};

const FIELDS: &[&str] = &[
    "replicas",
    "static",
    "envoyAdmin",
    "adminCluster",
    "cluster",
    "refreshMs",
    "trustSubsetHeader",
    "windowDurationMs",
    "maxPerReplica",
    "blockSizeTokens",
    "maxPrefixTokensToMatch",
    "minColocateBlocks",
    "maxBatchSize",
    "balanceBy",
    "maxBodyBytes",
    "debugResponseHeaders",
    "onBatchFull",
    "hold",
    "mode",
    "quietPeriodMs",
    "groupMemoryMs",
];

fn check(bytes: &[u8]) {
    match Config::parse(bytes) {
        Ok(config) => {
            let second = Duration::from_secs(1);
            assert!((Duration::from_millis(1)..=10 * second).contains(&config.window));
            source(&config.replicas);
            assert!(config.max_body_bytes > 0);
            let again = Config::parse(bytes).unwrap();
            assert_eq!(config.fingerprint(), again.fingerprint());
        }
        Err(error) => {
            let message = error.to_string();
            assert!((1..1000).contains(&message.len()), "{message}");
        }
    }
}

fn source(source: &Source) {
    let names = match source {
        Source::Static(names) => {
            assert!((1..=1024).contains(&names.len()));
            let distinct: HashSet<&String> = names.iter().collect();
            assert_eq!(distinct.len(), names.len());
            return;
        }
        Source::Admin(admin) => {
            let bounds = Duration::from_millis(100)..=Duration::from_secs(60);
            assert!(bounds.contains(&admin.refresh));
            match &admin.clusters {
                Clusters::Named(cluster) => vec![&admin.admin_cluster, cluster],
                Clusters::Routed => vec![&admin.admin_cluster],
            }
        }
    };
    for name in names {
        assert!((1..=256).contains(&name.len()) && !name.contains(char::is_control));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3..2000_i64).prop_map(Value::from),
        prop::sample::select(&["requests", "tokens", "work", "pass", "seal", "window", "*"][..])
            .prop_map(Value::from),
        ".{0,200}".prop_map(Value::from),
        (any::<[u8; 4]>(), any::<u16>())
            .prop_map(|([a, b, c, d], port)| json!(format!("{a}.{b}.{c}.{d}:{port}"))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_field(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_field() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(FIELDS).prop_map(str::to_owned),
        1 => ".{0,2000}",
    ]
}

/// A source that is valid before some of its fields get other values.
fn any_source() -> impl Strategy<Value = Map<String, Value>> {
    let listed = json!({"static": ["10.0.0.1:8000", "[::1]:8000"]});
    let admin = json!({"adminCluster": "admin", "cluster": "*", "refreshMs": 100});
    let others = || prop::collection::vec((any_field(), any_value()), 0..2);
    let with = |fields: &Value, others: Vec<(String, Value)>| {
        let mut fields = fields.as_object().unwrap().clone();
        fields.extend(others);
        fields
    };
    prop_oneof![
        others().prop_map(move |others| with(&listed, others)),
        (others(), others()).prop_map(move |(inner, outer)| {
            let admin = with(&admin, inner);
            with(&json!({"envoyAdmin": admin}), outer)
        }),
    ]
}

/// A configuration that is valid before some of its fields get other values.
fn any_fields() -> impl Strategy<Value = Map<String, Value>> {
    let others = prop::collection::vec((any_field(), any_value()), 0..3);
    let replicas = any_source().prop_map(Value::Object);
    (others, replicas).prop_map(|(others, replicas)| {
        let mut fields = Map::new();
        fields.insert("replicas".into(), replicas);
        fields.insert("windowDurationMs".into(), json!(50));
        fields.insert("maxBatchSize".into(), json!(-1));
        fields.extend(others);
        fields
    })
}

fn structure(fields: &Map<String, Value>) -> Struct {
    let fields = fields.iter().map(|(key, v)| (key.clone(), value(v)));
    Struct {
        fields: fields.collect(),
    }
}

fn value(json: &Value) -> prost_types::Value {
    let kind = match json {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(value).collect(),
        }),
        Value::Object(fields) => Kind::StructValue(structure(fields)),
    };
    prost_types::Value { kind: Some(kind) }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), line in any::<bool>()) {
        // What a Struct begins with.
        check(&if line { [b"\n", &bytes[..]].concat() } else { bytes });
    }

    #[test]
    fn json_text_and_what_is_nearly_so(fields in any_fields(), changes in changes()) {
        check(&changed(Value::Object(fields).to_string().into_bytes(), &changes));
    }

    #[test]
    fn a_struct_and_what_is_nearly_one(fields in any_fields(), changes in changes()) {
        check(&changed(structure(&fields).encode_to_vec(), &changes));
    }
}

#[test]
fn deep_configurations() {
    on_a_stack_of(1024, || {
        let mut text = "[".repeat(100_000);
        check(text.as_bytes());
        text.insert_str(0, "{\"replicas\":");
        check(text.as_bytes());
        check("{\"replicas\":".repeat(100_000).as_bytes());
        // Every level says how long what is inside it is: from the inside out, then.
        let mut inside: Vec<u8> = Vec::new();
        for _ in 0..10_000 {
            // Field 6 of a value, a list; field 1 of a list, a value.
            for tag in [0x32, 0x0a] {
                let mut outside = vec![tag];
                prost::encode_length_delimiter(inside.len(), &mut outside).unwrap();
                outside.extend(inside);
                inside = outside;
            }
        }
        check(&inside);
    });
}
