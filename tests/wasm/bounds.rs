//! What stays behind does not grow with what has passed.

use serde_json::json;

use crate::harness::{Client, Event, Fate, MILLI, Proxy, SECRET};
use crate::{check, config, prompt, status};

/// Windows of different prompts over two workers, from a first one on.
fn windows(proxy: &Proxy, numbers: std::ops::Range<u64>) {
    const REQUESTS: u64 = 50;
    for window in numbers {
        for request in 0..REQUESTS {
            let prompt = format!("{SECRET}{:016}", window * REQUESTS + request).repeat(10);
            let thread = usize::from(request % 3 == 0);
            let client = Client::completion(thread, 1_000 + 200 * window, &prompt);
            proxy.world().add(client);
        }
    }
}

#[test]
fn neither_memory_nor_shared_state_grows_with_new_prompts() {
    let mut proxy = Proxy::new(1, 2, vec![config(json!({}))], Vec::new());
    let mut sizes = Vec::new();
    for round in 0..4 {
        windows(&proxy, round * 20..round * 20 + 20);
        proxy.run();
        let world = proxy.world();
        check(&world);
        let shared = world.fabric.data.values();
        let bytes = shared.map(|(value, _)| value.len().next_power_of_two());
        sizes.push((
            [proxy.memory_bytes(0), proxy.memory_bytes(1)],
            (world.fabric.data.len(), bytes.sum::<usize>()),
            world.fabric.queues.len(),
            world.machines[0].metrics.len(),
        ));
    }
    assert_eq!(sizes[1], sizes[3], "{sizes:?}");
}

/// A lease is renewed after ten seconds, and one that was not for a minute is given away.
#[test]
fn the_queue_of_a_dead_worker_is_used_again() {
    const ROUNDS: usize = 6;
    let mut clients = Vec::new();
    for round in 0..ROUNDS as u64 {
        let at = 1_000 + 70_000 * round;
        // The first opens the window and owns it. In the last pair it dies before it closes, and
        // the other's message lies in a queue that nobody reads.
        for (thread, millis) in [(0, at), (1, at + 10), (0, at + 15_000), (1, at + 15_010)] {
            clients.push(Client::completion(thread, millis, &prompt('a')));
        }
    }
    let mut proxy = Proxy::new(1, 2, vec![config(json!({}))], clients);
    for round in 0..ROUNDS as u64 {
        let at = (1_000 + 70_000 * round + 15_050) * MILLI;
        let trap = Event::Trap {
            thread: 0,
            calls: 0,
        };
        proxy.world().plan(at, trap);
    }
    proxy.run();
    let world = proxy.world();
    check(&world);
    for round in 0..ROUNDS {
        for request in [4 * round, 4 * round + 1] {
            assert_eq!(status(&world, request), "assigned;group=2");
        }
        assert_eq!(world.exchanges[4 * round + 2].fate, Some(Fate::Lost));
        assert_eq!(status(&world, 4 * round + 3), "alone");
    }
    // A dead worker's lease holds until the next round, and has run out in the one after it.
    let keys = world.fabric.data.keys();
    let loads = keys.clone().filter(|key| key.contains("/load-")).count();
    let others = keys.len() - loads;
    assert_eq!((others, loads, world.fabric.queues.len()), (2, 3, 3));
}
