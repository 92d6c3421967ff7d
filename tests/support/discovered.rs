//! A fleet whose filter is told the replicas by Envoy's admin, through a relay.

use std::net::TcpListener;
use std::time::Duration;

use tokio::time::sleep;

use crate::admin::{Admin, Reply};
use crate::config::Config;
use crate::fleet::{Fleet, QUICK};
use crate::http1::{Answer, post};
use crate::prompts::{TEXT, sample};
use crate::watched::NODE;
use crate::wire::Wire;

pub(crate) const REFRESH_MS: u64 = 200;

/// The gauge of the replicas that are known.
pub(crate) const REPLICAS: &str = "burst_prefix_cache.replicas";

/// A fleet, and what stands between its Envoy and the admin.
pub(crate) struct Discovered {
    pub(crate) fleet: Fleet,
    pub(crate) admin: Admin,
}

impl Discovered {
    /// Asks for the hosts of a cluster, or of all. Nobody answers yet.
    pub(crate) async fn unanswered(
        cluster: &str,
        replica_options: &[&str],
        change: impl FnOnce(Config) -> Config,
    ) -> Self {
        let admin = Admin::start(Reply::Broken).await;
        let change = |config: Config| change(config.asking(admin.address, cluster, REFRESH_MS));
        let fleet = Fleet::with(replica_options, &NODE, change).await;
        Self { fleet, admin }
    }

    /// In front of replicas that say what they got, with an admin that answers.
    pub(crate) async fn of_wires(
        cluster: &str,
        change: impl FnOnce(Config) -> Config,
    ) -> (Self, Vec<Wire>) {
        let admin = Admin::start(Reply::Broken).await;
        let change = |config: Config| change(config.asking(admin.address, cluster, REFRESH_MS));
        let (fleet, wires) = Wire::fleet(change).await;
        let started = Self { fleet, admin };
        started.answer();
        (started, wires)
    }

    /// As [`Discovered::unanswered`], with an admin that answers.
    pub(crate) async fn start(cluster: &str, change: impl FnOnce(Config) -> Config) -> Self {
        let started = Self::unanswered(cluster, &QUICK, change).await;
        started.answer();
        started
    }

    /// From now on the admin answers.
    pub(crate) fn answer(&self) {
        self.admin
            .set(Reply::Of(self.fleet.envoy.admin), Duration::ZERO);
    }

    /// Waits until so many replicas are known.
    pub(crate) async fn known(&self, count: u64) {
        let envoy = &self.fleet.envoy;
        envoy.await_value(REPLICAS, |known| known == count).await;
    }

    /// Waits for two refreshes: what the filter knows then is not older than this call.
    pub(crate) async fn refreshed(&self) {
        // One may be on its way, two are asked for and answered, and the next one shows that.
        let until = self.admin.asked() + 3;
        while self.admin.asked() < until {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// What the log tells of faults, but for the admin that did not answer at first.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.fleet.envoy.faults();
        faults.retain(|fault| !fault.contains("the replicas stay as they were last known"));
        faults
    }

    /// A burst of so many groups of four, all placed among these candidates, each on one replica:
    /// where.
    pub(crate) async fn homes(
        &self,
        name: &str,
        groups: usize,
        candidates: &[String],
    ) -> Vec<String> {
        let answers = self.fleet.burst(&burst(TEXT, name, groups)).await;
        homes(&answers, groups, candidates)
    }
}

/// Members of a group.
const SIZE: usize = 4;

/// The requests of so many groups of four, one of each group after the other.
pub(crate) fn burst(path: &str, name: &str, groups: usize) -> Vec<Vec<u8>> {
    let body = |place| sample(TEXT, &format!("{name}-{}", place % groups), place / groups);
    (0..groups * SIZE)
        .map(|place| post(path, body(place)))
        .collect()
}

/// Where the groups of a [`burst`] landed: each on one of these candidates, which are just those
/// that its headers list.
pub(crate) fn homes(answers: &[Answer], groups: usize, candidates: &[String]) -> Vec<String> {
    let mut candidates = candidates.to_vec();
    candidates.sort();
    for answer in answers {
        assert_eq!(answer.status, 200, "{answer:?}");
        let placed = answer.decision().starts_with("assigned;group=4;wait=");
        assert!(placed, "{answer:?}");
        let endpoint = answer.seen("x-gateway-destination-endpoint");
        assert_eq!(endpoint, Some(answer.served_by()), "{answer:?}");
        let mut listed = listed(answer);
        listed.sort();
        assert_eq!(listed, candidates, "{answer:?}");
    }
    let home = |group: usize| {
        let home = answers[group].served_by();
        for answer in answers.iter().skip(group).step_by(groups) {
            assert_eq!(answer.served_by(), home, "group {group}");
        }
        home.to_owned()
    };
    (0..groups).map(home).collect()
}

/// The candidates that a request's match info lists.
pub(crate) fn listed(answer: &Answer) -> Vec<String> {
    let info = answer.seen("x-prefix-cache-match-info").unwrap_or_default();
    let members = info.split(", ").filter(|member| !member.is_empty());
    members
        .map(|member| member.split('"').nth(1).unwrap().to_owned())
        .collect()
}

/// A port that nobody has, and that the kernel gives to nobody who asks for any.
pub(crate) fn free_port() -> u16 {
    let from = 20_000 + u16::try_from(std::process::id() % 5_000).unwrap();
    let mut ports = from..30_000;
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port")
}
