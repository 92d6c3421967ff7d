//! Envoy with the filter in front of four replicas.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpSocket;
use tokio::time::sleep;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::http1::{Answer, Connection};
use crate::replica::Replica;

/// Longer than any test takes to send what shall come together, however slow the machine; so long
/// that what was held and what was not cannot be mistaken for each other.
pub(crate) const LONG_MS: u32 = 3000;

/// Replicas that take no time.
pub(crate) const QUICK: [&str; 4] = ["--prefill-us-per-token", "0", "--decode-us-per-token", "0"];

/// Envoy and its replicas, all killed when dropped.
pub(crate) struct Fleet {
    pub(crate) envoy: Envoy,
    pub(crate) replicas: Vec<Replica>,
}

impl Fleet {
    /// With the shipped configuration, but for the window and these fields.
    pub(crate) async fn start(window_ms: u32, fields: &[(&str, Value)]) -> Self {
        Self::with(&QUICK, &[], |config| config.plugin(window_ms, fields)).await
    }

    /// With options of the replicas and of Envoy, and changes to the shipped configuration.
    pub(crate) async fn with(
        replica_options: &[&str],
        envoy_options: &[&str],
        change: impl FnOnce(Config) -> Config,
    ) -> Self {
        let replicas: Vec<Replica> = (0..4).map(|_| Replica::start(replica_options)).collect();
        let config = change(Config::shipped(&addresses(&replicas)));
        let envoy = Envoy::start(config.text(), envoy_options).await;
        Self { envoy, replicas }
    }

    /// The replicas' addresses, as the filter names them.
    pub(crate) fn names(&self) -> Vec<String> {
        addresses(&self.replicas)
    }

    /// Sends all requests at once, each over a connection of its own; the answers come in the
    /// order of the requests.
    pub(crate) async fn burst(&self, requests: &[Vec<u8>]) -> Vec<Answer> {
        burst(self.envoy.address, requests).await
    }
}

/// As [`Fleet::burst`], to any listener.
pub(crate) async fn burst(to: SocketAddr, requests: &[Vec<u8>]) -> Vec<Answer> {
    let mut connections = Vec::with_capacity(requests.len());
    for _ in requests {
        connections.push(Connection::open(to).await);
    }
    for (connection, request) in connections.iter_mut().zip(requests) {
        connection.write(request).await;
    }
    let waiting: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::spawn(connection.answer()))
        .collect();
    let mut answers = Vec::with_capacity(waiting.len());
    for answer in waiting {
        answers.push(answer.await.unwrap());
    }
    answers
}

/// Keeps the port of a replica that is no more from everybody else: nobody listens there as long as
/// this is kept.
pub(crate) async fn keep_silent(address: &str) -> TcpSocket {
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        // Until the process has ended.
        if socket.bind(address.parse().unwrap()).is_ok() {
            return socket;
        }
        sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn addresses(replicas: &[Replica]) -> Vec<String> {
    let addresses = replicas.iter().map(|replica| replica.address.clone());
    addresses.collect()
}
