//! Tables of good and bad configurations.

use super::*;
use crate::replicas::{Admin, Clusters};
use std::num::NonZeroU32;

const REPLICAS: &str = r#""replicas":{"static":["10.0.0.1:8000","10.0.0.2:8000"]}"#;

fn with(field: &str) -> Result<Config, ConfigError> {
    Config::parse(format!("{{{REPLICAS}{field}}}").as_bytes())
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = with("").unwrap();
    assert_eq!(config.window, Duration::from_millis(100));
    assert_eq!(config.max_batch.map(NonZeroU32::get), Some(1000));
    assert_eq!(config.rules.max_per_replica, None);
    assert_eq!(config.rules.min_colocate_blocks, 0);
    assert_eq!(config.rules.balance_by, BalanceBy::Requests);
    assert_eq!(config.layout.block_size_tokens.get(), 64);
    assert_eq!(config.layout.max_blocks, 2048);
    assert_eq!(config.max_body_bytes, 1_048_576);
    assert!(!config.debug_response_headers);
    assert_eq!(config.replicas.known(), ["10.0.0.1:8000", "10.0.0.2:8000"]);
    assert!(!config.trust_subset_header);
}

#[test]
fn good_values_are_taken() {
    type Holds = fn(&Config) -> bool;
    let cases: &[(&str, Holds)] = &[
        (r#""windowDurationMs":1"#, |c| c.window.as_millis() == 1),
        (r#""windowDurationMs":1e4"#, |c| {
            c.window.as_millis() == 10_000
        }),
        (r#""windowDurationMs":250.0"#, |c| {
            c.window.as_millis() == 250
        }),
        (r#""maxPerReplica":-1"#, |c| {
            c.rules.max_per_replica.is_none()
        }),
        (r#""maxPerReplica":2"#, |c| {
            c.rules.max_per_replica == NonZeroU32::new(2)
        }),
        (r#""maxBatchSize":-1"#, |c| c.max_batch.is_none()),
        (r#""blockSizeTokens":16,"maxPrefixTokensToMatch":40"#, |c| {
            c.layout.max_blocks == 2 && c.layout.block_size_tokens.get() == 16
        }),
        (r#""minColocateBlocks":7"#, |c| {
            c.rules.min_colocate_blocks == 7
        }),
        (r#""balanceBy":"tokens""#, |c| {
            c.rules.balance_by == BalanceBy::Tokens
        }),
        (
            r#""onBatchFull":"pass","hold":"window","mode":"route","quietPeriodMs":0,"groupMemoryMs":0"#,
            |_| true,
        ),
        (r#""debugResponseHeaders":true"#, |c| {
            c.debug_response_headers
        }),
        (r#""maxBodyBytes":16777216"#, |c| {
            c.max_body_bytes == 16 << 20
        }),
        (r#""quietPeriodMs":5"#, |c| {
            c.quiet == Some(Duration::from_millis(5))
        }),
        (r#""quietPeriodMs":0"#, |c| c.quiet.is_none()),
        (r#""groupMemoryMs":60000"#, |c| {
            c.memory == Duration::from_secs(60)
        }),
        (r#""hold":"none","groupMemoryMs":1"#, |c| !c.hold),
        (r#""hold":"window""#, |c| c.hold && c.memory.is_zero()),
        (r#""onBatchFull":"seal""#, |c| c.seal),
        (r#""onBatchFull":"pass""#, |c| !c.seal),
    ];
    for (field, holds) in cases {
        let config = with(&format!(",{field}")).unwrap_or_else(|e| panic!("{field}: {e}"));
        assert!(holds(&config), "{field}");
    }
}

#[test]
fn bad_values_are_refused_by_name_value_and_range() {
    let cases: &[(&str, [&str; 3])] = &[
        (
            r#""windowDurationMs":0"#,
            ["windowDurationMs", "0", "1 to 10000"],
        ),
        (
            r#""windowDurationMs":10001"#,
            ["windowDurationMs", "10001", "1 to 10000"],
        ),
        (
            r#""windowDurationMs":1.5"#,
            ["windowDurationMs", "1.5", "1 to 10000"],
        ),
        (
            r#""windowDurationMs":"100""#,
            ["windowDurationMs", "\"100\"", "1 to 10000"],
        ),
        (
            r#""windowDurationMs":null"#,
            ["windowDurationMs", "null", "1 to 10000"],
        ),
        (
            r#""windowDurationMs":1e300"#,
            ["windowDurationMs", "1e+300", "1 to 10000"],
        ),
        (r#""maxPerReplica":0"#, ["maxPerReplica", "0", "-1"]),
        (r#""maxPerReplica":-2"#, ["maxPerReplica", "-2", "-1"]),
        (r#""maxBatchSize":0"#, ["maxBatchSize", "0", "-1"]),
        (
            r#""blockSizeTokens":0"#,
            ["blockSizeTokens", "0", "1 to 4294967295"],
        ),
        (
            r#""maxPrefixTokensToMatch":63"#,
            ["maxPrefixTokensToMatch", "63", "blockSizeTokens, 64"],
        ),
        (
            r#""minColocateBlocks":-1"#,
            ["minColocateBlocks", "-1", "0 to"],
        ),
        (
            r#""maxBodyBytes":0"#,
            ["maxBodyBytes", "0", "1 to 4294967295"],
        ),
        (
            r#""balanceBy":"load""#,
            ["balanceBy", "\"load\"", "requests or tokens"],
        ),
        (
            r#""debugResponseHeaders":1"#,
            ["debugResponseHeaders", "1", "true or false"],
        ),
        (
            r#""windowMs":5"#,
            ["windowMs", "unknown", "windowDurationMs"],
        ),
        (
            r#""quietPeriodMs":10001"#,
            ["quietPeriodMs", "10001", "0 to 10000"],
        ),
        (
            r#""groupMemoryMs":-1"#,
            ["groupMemoryMs", "-1", "0 to 86400000"],
        ),
        (
            r#""hold":"none""#,
            ["hold", "none", "groupMemoryMs above 0"],
        ),
        (
            r#""onBatchFull":"drop""#,
            ["onBatchFull", "\"drop\"", "pass or seal"],
        ),
    ];
    for (field, parts) in cases {
        let message = with(&format!(",{field}")).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{field}: {message}");
        }
    }
}

#[test]
fn what_is_planned_is_refused_as_not_available_yet() {
    for field in [r#""balanceBy":"work""#, r#""mode":"shadow""#] {
        let error = with(&format!(",{field}")).unwrap_err();
        let name = field.split('"').nth(1).unwrap();
        assert!(
            matches!(error, ConfigError::NotAvailable { .. }),
            "{field}: {error}"
        );
        assert!(error.to_string().contains(name), "{field}: {error}");
    }
}

#[test]
fn replicas_are_addresses_each_once() {
    for (replicas, part) in [
        (r"{}", "replicas: missing"),
        ("", "replicas: missing"),
        (r#"{"replicas":[]}"#, "replicas"),
        (
            r#"{"replicas":{}}"#,
            "replicas.static or replicas.envoyAdmin: missing",
        ),
        (
            r#"{"replicas":{"static":[]}}"#,
            "replicas.static: a list of 0",
        ),
        (
            r#"{"replicas":{"static":["pod-1:8000"]}}"#,
            "replicas.static[0]",
        ),
        (
            r#"{"replicas":{"static":["10.0.0.1"]}}"#,
            "replicas.static[0]",
        ),
        (
            r#"{"replicas":{"static":["10.0.0.1:0"]}}"#,
            "replicas.static[0]",
        ),
        (
            r#"{"replicas":{"static":["10.0.0.1:80\r\nx: y"]}}"#,
            "replicas.static[0]",
        ),
        (
            r#"{"replicas":{"static":["[::1]:80","10.0.0.1:70000"]}}"#,
            "replicas.static[1]",
        ),
        (
            r#"{"replicas":{"static":["[::1]:80","[0:0::1]:80"]}}"#,
            "twice",
        ),
        (
            r#"{"replicas":{"static":["10.0.0.1:80"],"dns":"x"}}"#,
            "replicas.dns: unknown field; known are static, envoyAdmin, trustSubsetHeader",
        ),
    ] {
        let message = Config::parse(replicas.as_bytes()).unwrap_err().to_string();
        assert!(message.contains(part), "{replicas}: {message}");
    }
    let long: Vec<String> = (0..1025)
        .map(|i| format!("\"10.0.0.1:{}\"", i + 1))
        .collect();
    let json = format!(r#"{{"replicas":{{"static":[{}]}}}}"#, long.join(","));
    assert!(Config::parse(json.as_bytes()).is_err());
}

fn replicas(json: &str) -> Result<Config, ConfigError> {
    Config::parse(format!(r#"{{"replicas":{json}}}"#).as_bytes())
}

#[test]
fn the_admin_is_named_with_the_clusters_whose_hosts_are_replicas() {
    let longest = "x".repeat(256);
    for (json, clusters, refresh_ms) in [
        (
            r#""cluster":"pool""#.to_owned(),
            Clusters::Named("pool".to_owned()),
            1000,
        ),
        (
            r#""cluster":"*","refreshMs":100"#.to_owned(),
            Clusters::Routed,
            100,
        ),
        (
            format!(r#""cluster":"{longest}","refreshMs":6e4"#),
            Clusters::Named(longest.clone()),
            60_000,
        ),
        (
            r#""cluster":"ünï","refreshMs":250.0"#.to_owned(),
            Clusters::Named("ünï".to_owned()),
            250,
        ),
    ] {
        let json = format!(r#"{{"envoyAdmin":{{"adminCluster":"admin",{json}}}}}"#);
        let config = replicas(&json).unwrap_or_else(|e| panic!("{json}: {e}"));
        let admin = Admin {
            admin_cluster: "admin".to_owned(),
            clusters,
            refresh: Duration::from_millis(refresh_ms),
        };
        assert_eq!(config.replicas, Source::Admin(admin), "{json}");
    }
}

#[test]
fn the_subset_header_is_trusted_where_that_is_said_of_either_source() {
    for source in [
        r#""static":["10.0.0.1:80"]"#,
        r#""envoyAdmin":{"adminCluster":"a","cluster":"*"}"#,
    ] {
        for (field, trusted) in [
            ("", false),
            (r#","trustSubsetHeader":false"#, false),
            (r#","trustSubsetHeader":true"#, true),
        ] {
            let config = replicas(&format!("{{{source}{field}}}")).unwrap();
            assert_eq!(config.trust_subset_header, trusted, "{source}{field}");
        }
    }
}

#[test]
fn a_bad_source_is_refused_by_name_value_and_range() {
    let too_long = format!(
        r#"{{"envoyAdmin":{{"adminCluster":"a","cluster":"{}"}}}}"#,
        "x".repeat(257)
    );
    let cases: &[(&str, [&str; 3])] = &[
        (
            r#"{"static":["10.0.0.1:80"],"envoyAdmin":{"adminCluster":"a","cluster":"b"}}"#,
            ["replicas: ", "static and envoyAdmin together", "or"],
        ),
        (
            r#"{"trustSubsetHeader":true}"#,
            [
                "replicas.static or replicas.envoyAdmin",
                "missing",
                "envoyAdmin",
            ],
        ),
        (
            r#"{"envoyAdmin":"admin"}"#,
            ["replicas.envoyAdmin: ", "\"admin\"", "adminCluster"],
        ),
        (
            r#"{"envoyAdmin":{}}"#,
            ["replicas.envoyAdmin.adminCluster", "missing", "256 bytes"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"a"}}"#,
            ["replicas.envoyAdmin.cluster", "missing", "256 bytes"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"","cluster":"b"}}"#,
            ["replicas.envoyAdmin.adminCluster", "\"\"", "256 bytes"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"a","cluster":7}}"#,
            ["replicas.envoyAdmin.cluster", "7", "256 bytes"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"a\nb","cluster":"b"}}"#,
            ["replicas.envoyAdmin.adminCluster", r"a\nb", "control"],
        ),
        (
            &too_long,
            ["replicas.envoyAdmin.cluster", "xxx…", "256 bytes"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"a","cluster":"b","refreshMs":99}}"#,
            ["replicas.envoyAdmin.refreshMs", "99", "100 to 60000"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"a","cluster":"b","refreshMs":60001}}"#,
            ["replicas.envoyAdmin.refreshMs", "60001", "100 to 60000"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"a","cluster":"b","refreshMs":1000.5}}"#,
            ["replicas.envoyAdmin.refreshMs", "1000.5", "100 to 60000"],
        ),
        (
            r#"{"envoyAdmin":{"adminCluster":"a","cluster":"b","port":1}}"#,
            ["replicas.envoyAdmin.port", "unknown", "refreshMs"],
        ),
        (
            r#"{"static":["10.0.0.1:80"],"trustSubsetHeader":1}"#,
            ["replicas.trustSubsetHeader", "1", "true or false"],
        ),
    ];
    for (json, parts) in cases {
        let message = replicas(json).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{json}: {message}");
        }
    }
}

#[test]
fn what_is_no_object_is_refused() {
    for json in ["null", "[]", "{", "\"x\"", "1", "\u{feff}{}"] {
        assert!(
            matches!(
                Config::parse(json.as_bytes()),
                Err(ConfigError::NotAnObject(_))
            ),
            "{json}"
        );
    }
}

#[test]
fn an_unknown_name_does_not_flood_the_log() {
    let name = "line\\nend".repeat(100);
    let json = format!(r#"{{"{name}":0}}"#);
    let message = Config::parse(json.as_bytes()).unwrap_err().to_string();
    assert!(message.starts_with(r"line\nend"), "{message}");
    assert!(message.len() < 500, "{message}");
}

#[test]
fn equal_configurations_share_a_fingerprint_and_others_do_not() {
    let a = with(r#","maxBatchSize":5,"windowDurationMs":7"#).unwrap();
    let b = with(r#","windowDurationMs":7.0,"maxBatchSize":5"#).unwrap();
    let c = with(r#","windowDurationMs":8,"maxBatchSize":5"#).unwrap();
    assert_eq!(a.fingerprint(), b.fingerprint());
    assert_ne!(a.fingerprint(), c.fingerprint());
}
