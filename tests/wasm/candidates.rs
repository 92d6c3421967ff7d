//! Which replicas a request may go to: those that the admin told last, of its pool, in its subset.

use serde_json::{Value, json};

use crate::harness::{Client, Event, MILLI, Proxy, Reply, World};
use crate::{ENDPOINT, MATCH_INFO, SCORE, check, config, header, held, prompt, status};

const SUBSET: &str = "x-gateway-destination-endpoint-subset";

/// When the first VM starts and asks, in milliseconds.
const START: u64 = 1_000;
const REFRESH: u64 = 100;

/// A healthy host, with other fields on top.
fn host(number: u8, more: Value) -> Value {
    let address = json!({"address": format!("10.0.0.{number}"), "port_value": 8000});
    let mut host = json!({"address": {"socket_address": address}, "weight": 1});
    let more = more.as_object().unwrap().clone();
    host.as_object_mut().unwrap().extend(more);
    host
}

fn hosts(numbers: &[u8]) -> Vec<Value> {
    let hosts = numbers.iter().map(|number| host(*number, json!({})));
    hosts.collect()
}

/// The admin's answer, after two milliseconds.
fn answer(clusters: &[(&str, Vec<Value>)]) -> Reply {
    let cluster =
        |(name, hosts): &(&str, Vec<Value>)| json!({"name": name, "host_statuses": hosts});
    let clusters: Vec<Value> = clusters.iter().map(cluster).collect();
    let answer = json!({"cluster_statuses": clusters}).to_string();
    Reply::Answer(200, answer.into_bytes(), 2)
}

/// Runs clients under an admin that gives these answers, the last one for ever.
fn play(cluster: &str, trust: bool, mut answers: Vec<Reply>, clients: Vec<Client>) -> Proxy {
    let admin = json!({"adminCluster": "admin", "cluster": cluster, "refreshMs": REFRESH});
    let replicas = json!({"envoyAdmin": admin, "trustSubsetHeader": trust});
    let threads = clients.iter().map(|client| client.thread + 1).max();
    let configs = vec![config(json!({"replicas": replicas}))];
    let mut proxy = Proxy::new(1, threads.unwrap_or(1), configs, clients);
    {
        let mut world = proxy.world();
        world.admin.otherwise = answers.pop().unwrap();
        world.admin.next = answers.into();
        world.plan(START * MILLI, Event::Start { thread: 0 });
    }
    proxy.run_until((START + 3_000) * MILLI);
    check(&proxy.world());
    proxy
}

/// Two requests with one prompt, on two workers, so long after the start.
fn pair(millis: u64, name: char) -> Vec<Client> {
    let request = |thread| Client::completion(thread, START + millis, &prompt(name));
    vec![request(0), request(1)]
}

/// The last parts of the addresses that the match info lists.
fn listed(world: &World, request: usize) -> Vec<String> {
    let info = header(world, request, MATCH_INFO).unwrap_or_default();
    let members = info.split(", ").filter(|member| !member.is_empty());
    let name = |member: &str| member.split('"').nth(1).unwrap().to_owned();
    members.map(name).map(short).collect()
}

fn short(name: String) -> String {
    let number = name.strip_prefix("10.0.0.");
    let number = number.and_then(|name| name.strip_suffix(":8000"));
    number.map_or(name.clone(), str::to_owned)
}

fn endpoint(world: &World, request: usize) -> Option<String> {
    header(world, request, ENDPOINT).map(short)
}

/// It went on at once, and nothing is said of a match.
fn assert_nobody(world: &World, request: usize) {
    assert_eq!(status(world, request), "no-replicas", "request {request}");
    assert_eq!(held(world, request), 0, "request {request}");
    for name in [ENDPOINT, MATCH_INFO, SCORE] {
        assert_eq!(header(world, request, name), None, "{name} of {request}");
    }
}

#[test]
fn while_no_list_is_known_or_nobody_is_on_it_requests_pass_at_once() {
    let bad = || Reply::Answer(503, Vec::new(), 2);
    let elsewhere = || answer(&[("another", hosts(&[1, 2]))]);
    let drained = || answer(&[("pool", vec![host(1, json!({"weight": 0}))])]);
    for cluster in ["pool", "*"] {
        for reply in [bad(), elsewhere(), drained(), Reply::Refused, Reply::Lost] {
            let told = format!("{cluster}: {reply:?}");
            let mut clients = pair(0, 'a');
            clients.extend(pair(500, 'b'));
            clients = clients
                .into_iter()
                .map(|client| client.to("pool"))
                .collect();
            let proxy = play(cluster, false, vec![reply], clients);
            let world = proxy.world();
            (0..4).for_each(|request| assert_nobody(&world, request));
            let windows = world.witness.count("burst_prefix_cache.windows_total");
            assert_eq!(windows, 0, "{told}");
        }
    }
}

#[test]
fn hosts_that_vanish_while_a_window_is_open_are_not_placed_on() {
    let list = |numbers: &[u8]| answer(&[("pool", hosts(numbers))]);
    // Who is there when they come, at 150 ms, and who when the window closes, 100 ms later.
    for (before, after, expected) in [
        (&[1, 2, 3][..], &[2, 3][..], Some("2")),
        (&[1, 2], &[3], Some("3")),
        (&[1], &[1, 2], Some("1")),
        (&[1, 2], &[], None),
    ] {
        let answers = vec![list(before), list(before), list(after)];
        let proxy = play("pool", false, answers, pair(150, 'a'));
        let world = proxy.world();
        for request in 0..2 {
            assert_eq!(endpoint(&world, request).as_deref(), expected, "{after:?}");
            let after: Vec<String> = after.iter().map(u8::to_string).collect();
            assert_eq!(listed(&world, request), after);
            let token = expected.map_or("no-replicas", |_| "assigned;group=2");
            assert_eq!(status(&world, request), token, "{after:?}");
            assert_eq!(held(&world, request), 100, "{after:?}");
        }
    }
}

#[test]
fn hosts_that_cannot_be_used_are_never_chosen() {
    let health = |field: &str| json!({"health_status": {field: true}});
    let eds = |word: &str| json!({"health_status": {"eds_health_status": word}});
    for ill in [
        health("failed_active_health_check"),
        health("failed_outlier_check"),
        health("failed_active_degraded_check"),
        health("pending_dynamic_removal"),
        health("pending_active_hc"),
        health("excluded_via_immediate_hc_fail"),
        health("active_hc_timeout"),
        eds("UNHEALTHY"),
        eds("DRAINING"),
        eds("TIMEOUT"),
        eds("DEGRADED"),
        json!({"weight": 0}),
        json!({"priority": 1}),
    ] {
        // It would be the first by its name.
        let hosts = vec![host(1, ill.clone()), host(2, json!({})), host(3, json!({}))];
        let proxy = play(
            "pool",
            false,
            vec![answer(&[("pool", hosts)])],
            pair(150, 'a'),
        );
        let world = proxy.world();
        for request in 0..2 {
            assert_eq!(listed(&world, request), ["2", "3"], "{ill}");
            assert_eq!(endpoint(&world, request).as_deref(), Some("2"), "{ill}");
        }
    }
}

#[test]
fn the_host_with_the_fewest_running_requests_is_chosen() {
    let busy = |requests: Value| json!({"stats": [{"name": "rq_active", "value": requests}]});
    for (counts, expected) in [
        ([json!("1"), json!("1"), json!("1")], "1"),
        ([json!("2"), json!("1"), json!("1")], "2"),
        ([json!(3), json!(2), json!(0)], "3"),
        (
            [json!("99999999999999999999"), json!("9"), json!("10")],
            "2",
        ),
    ] {
        let hosts = (1..)
            .zip(counts.clone())
            .map(|(n, count)| host(n, busy(count)));
        let answers = vec![answer(&[("pool", hosts.collect())])];
        let proxy = play("pool", false, answers, pair(150, 'a'));
        let chosen = endpoint(&proxy.world(), 1);
        assert_eq!(chosen.as_deref(), Some(expected), "{counts:?}");
    }
}

#[test]
fn a_subset_narrows_where_it_is_trusted() {
    let name = |number: u8| format!("10.0.0.{number}:8000");
    let long = format!("{},{},{}", name(3), name(3), name(2));
    let spaced = format!("  {} ,, {}\t", name(2), name(4));
    let odd = format!("10.0.0.1,:8000,{}:1,\",{},nobody", name(1), name(3));
    // The lines of the header, and who is left where it is trusted.
    for (lines, left) in [
        (vec![name(2)], &["2"][..]),
        (vec![long], &["2", "3"]),
        (vec![spaced], &["2", "4"]),
        (vec![odd], &["3"]),
        (vec![name(4), name(2)], &["2", "4"]),
        (vec![String::new(), name(4)], &["4"]),
        (vec!["10.0.0.9:8000".to_owned()], &[]),
        (vec!["nonsense".to_owned()], &[]),
        (vec![String::new()], &[]),
    ] {
        for trust in [true, false] {
            let with_lines = |client: Client| {
                let lines = lines.iter();
                lines.fold(client, |client, line| client.with(SUBSET, line.as_bytes()))
            };
            let clients = pair(150, 'a').into_iter().map(with_lines).collect();
            let list = vec![answer(&[("pool", hosts(&[1, 2, 3, 4]))])];
            let proxy = play("pool", trust, list, clients);
            let world = proxy.world();
            let left = if trust { left } else { &["1", "2", "3", "4"] };
            for request in 0..2 {
                if left.is_empty() {
                    assert_nobody(&world, request);
                    continue;
                }
                assert_eq!(listed(&world, request), left, "{lines:?}");
                let chosen = endpoint(&world, request);
                assert_eq!(chosen.as_deref(), Some(left[0]), "{lines:?}");
                assert_eq!(status(&world, request), "assigned;group=2");
            }
        }
    }
}

#[test]
fn the_route_says_which_pool_a_request_is_for() {
    let request = |thread, cluster: Option<&'static str>| {
        let client = Client::completion(thread, START + 150, &prompt('a'));
        match cluster {
            Some(cluster) => client.to(cluster),
            None => client,
        }
    };
    let routes = [
        Some("a"),
        Some("b"),
        Some("a"),
        Some("b"),
        Some("b"),
        Some("empty"),
        Some("unknown"),
        None,
    ];
    let clients = routes.iter().enumerate();
    let clients = clients
        .map(|(place, route)| request(place % 3, *route))
        .collect();
    let pools = [
        ("a", hosts(&[1, 2])),
        ("b", hosts(&[3, 4])),
        ("empty", Vec::new()),
        ("", hosts(&[9])),
    ];
    let proxy = play("*", false, vec![answer(&pools)], clients);
    let world = proxy.world();
    for (request, route) in routes.iter().enumerate() {
        let (size, left) = match route {
            Some("a") => (2, ["1", "2"]),
            Some("b") => (3, ["3", "4"]),
            None => {
                // The pool without a name, which no cluster of Envoy has.
                assert_eq!(listed(&world, request), ["9"]);
                continue;
            }
            _ => {
                assert_nobody(&world, request);
                continue;
            }
        };
        assert_eq!(status(&world, request), format!("assigned;group={size}"));
        assert_eq!(listed(&world, request), left);
        assert_eq!(endpoint(&world, request).as_deref(), Some(left[0]));
    }
}

#[test]
fn a_body_that_never_reaches_the_filter_is_told_the_candidates_of_its_pool() {
    for (cluster, route, left) in [("b", "a", ["3", "4"]), ("*", "a", ["1", "2"])] {
        let admin = json!({"adminCluster": "admin", "cluster": cluster, "refreshMs": REFRESH});
        let configs = vec![config(json!({"replicas": {"envoyAdmin": admin}}))];
        let client = Client::completion(0, START + 150, &prompt('a')).to(route);
        let mut proxy = Proxy::new(1, 1, configs, vec![client]);
        {
            let mut world = proxy.world();
            world.headers_stop = false;
            world.admin.otherwise = answer(&[("a", hosts(&[1, 2])), ("b", hosts(&[3, 4]))]);
            world.plan(START * MILLI, Event::Start { thread: 0 });
        }
        proxy.run_until((START + 3_000) * MILLI);
        let world = proxy.world();
        assert_eq!(status(&world, 0), "skipped;reason=header-stop");
        assert_eq!(listed(&world, 0), left, "{cluster}");
    }
}
