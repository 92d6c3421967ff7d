//! What stays behind does not grow with what has passed.

use serde_json::json;

use crate::harness::{Client, Proxy, SECRET};
use crate::{check, config};

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
