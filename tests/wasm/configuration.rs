//! Configurations that are taken, refused and replaced.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::json;

use crate::harness::{Client, Event, MILLI, Proxy};
use crate::{STATUS, check, config, header, held, play, prompt, status};

#[test]
fn a_bad_configuration_is_refused_by_field_value_and_range() {
    let replicas = r#""replicas":{"static":["10.0.0.1:8000"]}"#;
    let cases = [
        (
            format!(r#"{{"windowDurationMs":0,{replicas}}}"#),
            "windowDurationMs: 0 is refused; it takes a whole number from 1 to 10000",
        ),
        (
            format!(r#"{{"windowMs":5,{replicas}}}"#),
            "windowMs: unknown field",
        ),
        ("{}".to_owned(), "replicas"),
        (String::new(), "replicas"),
        ("[1]".to_owned(), "object"),
        ("\u{0}".to_owned(), "object"),
    ];
    for (config, message) in cases {
        let client = Client::completion(0, 1_000, &prompt('a')).with(STATUS, "forged");
        let proxy = play(config.clone().into_bytes(), vec![client]);
        let world = proxy.world();
        assert_eq!(world.witness.refused, 1, "{config}");
        let log = format!("{:?}", world.witness.log);
        assert!(log.contains(message), "{config}: {log}");
        // Envoy sends no request to it; should one come all the same, it passes.
        assert_eq!(header(&world, 0, STATUS), None);
        assert_eq!(held(&world, 0), 0);
    }
}

#[test]
fn a_struct_is_taken_as_its_bytes() {
    let value = |kind| Value { kind: Some(kind) };
    let list = |values| value(Kind::ListValue(ListValue { values }));
    let structure = |name: &str, value| Struct {
        fields: BTreeMap::from([(name.to_owned(), value)]),
    };
    let replica = value(Kind::StringValue("10.0.0.7:80".to_owned()));
    let replicas = structure("static", list(vec![replica]));
    let mut config = structure("replicas", value(Kind::StructValue(replicas)));
    let millis = value(Kind::NumberValue(20.0));
    config.fields.insert("windowDurationMs".to_owned(), millis);
    let size = value(Kind::NumberValue(4.0));
    config.fields.insert("blockSizeTokens".to_owned(), size);
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(0, 1_000, &prompt('a')),
    ];
    let proxy = play(config.encode_to_vec(), clients);
    let world = proxy.world();
    assert_eq!(status(&world, 0), "assigned;group=2");
    assert_eq!(held(&world, 0), 20);
    let endpoint = header(&world, 0, crate::ENDPOINT);
    assert_eq!(endpoint.as_deref(), Some("10.0.0.7:80"));
}

#[test]
fn who_waits_under_the_old_configuration_is_released_by_it() {
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(1, 1_010, &prompt('a')),
        Client::completion(0, 1_030, &prompt('a')),
        Client::completion(1, 1_040, &prompt('a')),
    ];
    let old = config(json!({}));
    let new = config(json!({"windowDurationMs": 30, "replicas": {"static": ["10.0.0.9:80"]}}));
    let mut proxy = Proxy::new(1, 2, vec![old, new], clients);
    for thread in 0..2 {
        let event = Event::Configure { thread, config: 1 };
        proxy.world().plan(1_020 * MILLI, event);
    }
    proxy.run();
    let world = proxy.world();
    check(&world);
    let told: Vec<(String, u64)> = (0..4)
        .map(|request| {
            let endpoint = header(&world, request, crate::ENDPOINT).unwrap();
            (endpoint, held(&world, request))
        })
        .collect();
    let told: Vec<(&str, u64)> = told.iter().map(|(e, held)| (e.as_str(), *held)).collect();
    assert_eq!(
        told,
        [
            ("10.0.0.1:8000", 100),
            ("10.0.0.1:8000", 90),
            ("10.0.0.9:80", 30),
            ("10.0.0.9:80", 20),
        ]
    );
    // The old root contexts are gone with their last streams.
    assert!(
        world
            .machines
            .iter()
            .all(|machine| machine.roots.len() == 1)
    );
}

#[test]
fn nothing_is_taken_before_the_first_request() {
    let client = Client::post(0, 1_000, "/v1/models", b"x");
    let proxy = play(config(json!({})), vec![client]);
    let world = proxy.world();
    assert!(world.fabric.queues.is_empty() && world.fabric.data.is_empty());
}
