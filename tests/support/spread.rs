//! Requests that do not come all at once, and where their groups went.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use crate::http1::{Answer, Connection};

/// An answer, and how long it took from the request's first byte to the answer's last.
pub(crate) struct Timed {
    pub(crate) answer: Answer,
    pub(crate) took: Duration,
}

/// Sends each request at a moment of its own, by chance but the same with the same `seed`, within
/// the time `over`. Each goes over a connection of its own, opened before. The answers come in the
/// order of the requests.
pub(crate) async fn spread(
    requests: &[(SocketAddr, Vec<u8>)],
    over: Duration,
    seed: u64,
) -> Vec<Timed> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut connections = Vec::with_capacity(requests.len());
    for (address, _) in requests {
        connections.push(Connection::open(*address).await);
    }
    let begin = tokio::time::Instant::now();
    let sent = connections.into_iter().zip(requests);
    let waiting: Vec<_> = sent
        .map(|(mut connection, (_, request))| {
            let (at, request) = (begin + over.mul_f64(random.f64()), request.clone());
            tokio::spawn(async move {
                sleep_until(at).await;
                let begin = Instant::now();
                connection.write(request).await;
                let answer = connection.answer().await;
                let took = begin.elapsed();
                Timed { answer, took }
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(waiting.len());
    for answer in waiting {
        answers.push(answer.await.unwrap());
    }
    answers
}

/// The value in the middle.
pub(crate) fn median<T: Ord + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Where the requests of groups went.
#[derive(Default)]
pub(crate) struct Homes<'a> {
    groups: BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
    replicas: BTreeMap<&'a str, usize>,
    all: usize,
}

impl<'a> Homes<'a> {
    pub(crate) fn add(&mut self, group: &'a str, replica: &'a str) {
        *self
            .groups
            .entry(group)
            .or_default()
            .entry(replica)
            .or_default() += 1;
        *self.replicas.entry(replica).or_default() += 1;
        self.all += 1;
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The part of all requests that went where most of their group went.
    pub(crate) fn together(&self) -> f64 {
        let most = self.groups.values().map(|of| of.values().max().unwrap());
        most.sum::<usize>() as f64 / self.all as f64
    }

    /// The requests of the busiest replica of four, as a multiple of a fair share.
    pub(crate) fn busiest(&self) -> f64 {
        let most = *self.replicas.values().max().unwrap();
        4.0 * most as f64 / self.all as f64
    }
}
