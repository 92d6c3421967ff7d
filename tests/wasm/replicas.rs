//! Asking Envoy's admin for the replicas, over several workers.

use serde_json::{Value, json};

use crate::harness::{Client, Event, MILLI, Proxy, Reply, World};
use crate::{check, config, prompt};

const AGE: &str = "burst_prefix_cache.replicas_age_ms";
const REPLICAS: &str = "burst_prefix_cache.replicas";

/// When the VMs start, in milliseconds.
const START: u64 = 1_000;

/// `refreshMs` is 1000.
fn asking() -> Vec<u8> {
    let admin = json!({"adminCluster": "admin", "cluster": "pool"});
    config(json!({"replicas": {"envoyAdmin": admin}}))
}

/// What the admin says of so many hosts.
fn clusters(hosts: usize) -> Vec<u8> {
    let host = |number: usize| {
        let address = format!("10.0.{}.{}", number / 256, number % 256);
        json!({
            "address": {"socket_address": {"address": address, "port_value": 8000}},
            "stats": [{"type": "GAUGE", "name": "rq_active"}],
            "health_status": {"eds_health_status": "HEALTHY"},
            "weight": 1,
        })
    };
    let hosts: Vec<Value> = (0..hosts).map(host).collect();
    let pool = json!({"name": "pool", "host_statuses": hosts});
    json!({"cluster_statuses": [pool]}).to_string().into_bytes()
}

fn good(hosts: usize) -> Reply {
    Reply::Answer(200, clusters(hosts), 2)
}

/// Workers that start one after the other, and an admin that answers so.
fn workers(threads: usize, next: Vec<Reply>, otherwise: Reply) -> Proxy {
    let proxy = Proxy::new(1, threads, vec![asking()], Vec::new());
    {
        let mut world = proxy.world();
        world.admin.next = next.into();
        world.admin.otherwise = otherwise;
        for thread in 0..threads {
            let at = START * MILLI + 300_000 * thread as u64;
            world.plan(at, Event::Start { thread });
        }
    }
    proxy
}

/// Runs up to a moment, in milliseconds after the start.
fn run(proxy: &mut Proxy, millis: u64) {
    proxy.run_until((START + millis) * MILLI);
    check(&proxy.world());
}

/// When the admin was asked, in milliseconds after the start.
fn asked(world: &World) -> Vec<u64> {
    let asked = world.admin.asked.iter();
    asked.map(|asked| asked.at / MILLI - START).collect()
}

fn failures(world: &World, cause: &str) -> u64 {
    let metric = format!("burst_prefix_cache.poll.cause.{cause}.failures_total");
    world.witness.count(&metric)
}

fn all_failures(world: &World) -> u64 {
    let causes = [
        "cluster", "call", "timeout", "status", "json", "size", "limit",
    ];
    causes.iter().map(|cause| failures(world, cause)).sum()
}

#[test]
fn one_worker_at_a_time_asks_once_a_refresh() {
    let mut proxy = workers(4, Vec::new(), good(3));
    run(&mut proxy, 10_500);
    let world = proxy.world();
    let asked = asked(&world);
    assert_eq!(asked.len(), 11, "{asked:?}");
    assert_eq!(asked[0], 1, "at once");
    for pair in asked.windows(2) {
        assert!((1000..1010).contains(&(pair[1] - pair[0])), "{asked:?}");
    }
    assert_eq!(world.witness.count(REPLICAS), 3);
    assert_eq!(all_failures(&world), 0);
    assert_eq!(world.fabric.data.len(), 2, "{:?}", world.fabric.data.keys());
    assert!(world.fabric.queues.is_empty());
}

#[test]
fn the_age_grows_while_nobody_answers_and_starts_anew_with_the_next_list() {
    let silent = || Reply::Answer(200, clusters(9), 100_000);
    let next = vec![good(3), silent(), silent(), silent(), good(5)];
    let mut proxy = workers(3, next, silent());
    run(&mut proxy, 900);
    assert_eq!(proxy.world().witness.count(AGE), 0);
    // Asked at 1 s, and once more when the time of that call is up, and so on.
    let mut before = 0;
    for millis in [1_500, 2_500, 3_500] {
        run(&mut proxy, millis);
        let world = proxy.world();
        let age = world.witness.count(AGE);
        assert!(
            (millis - 700..millis).contains(&age),
            "{age} after {millis}"
        );
        assert!(age > before);
        before = age;
        assert_eq!(world.witness.count(REPLICAS), 3);
    }
    run(&mut proxy, 4_500);
    let world = proxy.world();
    assert_eq!(world.witness.count(REPLICAS), 5);
    assert!(world.witness.count(AGE) < 500);
    assert_eq!(failures(&world, "timeout"), 3);
    assert_eq!(all_failures(&world), 3);
}

#[test]
fn each_failure_is_counted_by_its_cause_and_the_last_good_list_stays() {
    let answer = |status, body: &[u8]| Reply::Answer(status, body.to_vec(), 1);
    let rows = [
        (Reply::Refused, "call"),
        (Reply::Broken(3), "call"),
        (answer(503, b"no healthy upstream"), "status"),
        (answer(404, &clusters(2)), "status"),
        (answer(99, &clusters(2)), "status"),
        (answer(200, b""), "json"),
        (answer(200, b"<html>"), "json"),
        (answer(200, &[0xff; 100]), "json"),
        (answer(200, "[".repeat(100_000).as_bytes()), "json"),
        (answer(200, &clusters(1025)), "limit"),
        (answer(200, &vec![b' '; (16 << 20) + 1]), "size"),
    ];
    for (reply, cause) in rows {
        let told = format!("{reply:?}").chars().take(60).collect::<String>();
        let mut proxy = workers(2, vec![good(3), reply.clone(), reply], good(4));
        run(&mut proxy, 2_500);
        {
            let world = proxy.world();
            assert_eq!(failures(&world, cause), 2, "{told}");
            assert_eq!(all_failures(&world), 2, "{told}");
            assert_eq!(world.witness.count(REPLICAS), 3, "{told}");
            // Told once, whoever asked.
            assert_eq!(world.witness.log.len(), 1, "{:?}", world.witness.log);
        }
        run(&mut proxy, 3_500);
        assert_eq!(proxy.world().witness.count(REPLICAS), 4, "{told}");
    }
}

#[test]
fn a_cluster_that_envoy_does_not_know_is_named_in_the_log_once() {
    let mut proxy = workers(3, Vec::new(), good(3));
    proxy.world().admin.cluster = "another";
    run(&mut proxy, 5_500);
    {
        let world = proxy.world();
        assert_eq!(failures(&world, "cluster"), 6);
        let [(_, line)] = world.witness.log.as_slice() else {
            panic!("{:?}", world.witness.log);
        };
        assert!(line.contains("no cluster \"admin\""), "{line}");
        assert!(world.witness.count(AGE) >= 4_000);
    }
    // It comes, by an update.
    proxy.world().admin.cluster = "admin";
    run(&mut proxy, 6_500);
    assert_eq!(proxy.world().witness.count(REPLICAS), 3);
}

#[test]
fn another_worker_takes_over_when_the_one_that_asked_dies() {
    let slow = Reply::Answer(200, clusters(9), 500);
    let mut proxy = workers(3, vec![good(3), slow], good(4));
    run(&mut proxy, 1_200);
    let victim = {
        let mut world = proxy.world();
        let vm = world.admin.asked[1].vm;
        let thread = world.machines[vm].thread;
        let at = (START + 1_250) * MILLI;
        world.plan(at, Event::Trap { thread, calls: 0 });
        vm
    };
    // Its claim runs out a second after its call would have.
    run(&mut proxy, 2_900);
    assert_eq!(proxy.world().admin.asked.len(), 2);
    run(&mut proxy, 6_500);
    let world = proxy.world();
    let later = &world.admin.asked[2..];
    assert!(later.len() >= 3 && later.iter().all(|asked| asked.vm != victim));
    assert!(asked(&world)[2] < 3_100, "{:?}", asked(&world));
    assert_eq!(world.witness.count(REPLICAS), 4);
}

#[test]
fn a_call_of_which_nobody_hears_again_is_given_up() {
    let mut proxy = workers(1, vec![Reply::Lost], good(3));
    run(&mut proxy, 4_500);
    let world = proxy.world();
    assert_eq!(world.witness.count(REPLICAS), 3);
    let asked = asked(&world);
    assert!((2_000..2_100).contains(&(asked[1] - asked[0])), "{asked:?}");
}

/// Whatever the workers do at the same time, and whatever dies.
#[test]
fn workers_that_come_between_each_other_ask_one_at_a_time() {
    for seed in 0..40 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let threads = rng.usize(2..6);
        let clients = (0..20).map(|_| {
            let millis = START + rng.u64(1..9_000);
            Client::completion(rng.usize(..threads), millis, &prompt('a'))
        });
        let clients = clients.collect();
        let mut proxy = Proxy::new(seed, threads, vec![asking()], clients);
        {
            let mut world = proxy.world();
            world.faults.yield_one_in = [2, 8][rng.usize(..2)];
            world.faults.late_ticks = rng.u64(..20 * MILLI);
            world.admin.otherwise = good(4);
            world.admin.next = (0..20)
                .map(|_| match rng.u32(..6) {
                    0 => Reply::Answer(200, clusters(2), rng.u64(..2_000)),
                    1 => Reply::Broken(rng.u64(..1_000)),
                    2 => Reply::Answer(500, Vec::new(), rng.u64(..100)),
                    3 => Reply::Refused,
                    _ => good(rng.usize(1..10)),
                })
                .collect();
            for thread in 0..threads {
                world.plan(START * MILLI, Event::Start { thread });
                let at = (START + rng.u64(..9_000)) * MILLI;
                let calls = rng.u32(..20);
                // One of them lives.
                if thread > 0 {
                    world.plan(at, Event::Trap { thread, calls });
                }
            }
        }
        proxy.run_until((START + 40_000) * MILLI);
        let world = proxy.world();
        let wrong = &world.witness.wrong;
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        assert_eq!(world.witness.count(REPLICAS), 4, "seed {seed}");
        assert!(world.witness.count(AGE) <= 1_100, "seed {seed}");
        assert!(asked(&world).len() >= 20, "seed {seed}");
    }
}
