//! Connections to each of Envoy's workers.

use crate::envoy::Envoy;
use crate::http1::Connection;

/// As many as every Envoy of the tests has.
pub(crate) const WORKERS: usize = 4;

/// Connections to one worker.
pub(crate) type Connections = Vec<Connection>;

/// `count` connections to each worker. Which one accepts a connection is not for the client to
/// say, but Envoy's statistics tell.
pub(crate) async fn connect_each(envoy: &Envoy, count: usize) -> [Connections; WORKERS] {
    let mut connections: [Connections; WORKERS] = Default::default();
    let mut before = accepted(envoy).await;
    while connections.iter().any(|of_worker| of_worker.len() < count) {
        let connection = envoy.connect().await;
        let worker = loop {
            let now = accepted(envoy).await;
            if let Some(worker) = (0..WORKERS).find(|worker| now[*worker] > before[*worker]) {
                before = now;
                break worker;
            }
        };
        if connections[worker].len() < count {
            connections[worker].push(connection);
        }
    }
    connections
}

/// Connections that each worker has accepted so far.
async fn accepted(envoy: &Envoy) -> [u64; WORKERS] {
    let page = envoy.page("/stats?filter=downstream_cx_total").await;
    std::array::from_fn(|worker| {
        let name = format!(".worker_{worker}.downstream_cx_total: ");
        let mut values = page.lines().filter_map(|line| line.split_once(&name));
        values.next().map_or(0, |(_, value)| value.parse().unwrap())
    })
}
