//! The replicas: which there are, whether they can be used, and how busy they are.
//!
//! They come from a [`Source`]: a list in the configuration, or Envoy's own view of its clusters,
//! which its admin tells. That answer is read by [`admin::read`]; one worker at a time asks for
//! it ([`Poller`]), and all of them find the result in cells that they share ([`Directory`]).

pub mod admin;
mod directory;
mod failure;
mod poll;

pub use directory::Directory;
pub use failure::{Cause, Failure};
pub use poll::Poller;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The most replicas of one pool.
pub const MOST_IN_POOL: usize = 1024;
/// The most replicas of all pools together.
pub const MOST_IN_ALL: usize = 4096;
/// The most pools.
pub const MOST_POOLS: usize = 256;
/// The longest name of a cluster, in bytes.
pub const LONGEST_NAME: usize = 256;

/// A replica that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// `ip:port`, in the form that Envoy gives its hosts; IPv6 in brackets.
    pub name: String,
    /// Requests that run there and did not come through the filter's choice: as Envoy counted all,
    /// when it was last asked, without those; 0 where nobody says. What the filter chose is known
    /// at any time, and Envoy's count of it would be old.
    pub running: u32,
}

/// The replicas that requests of one pool may go to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Each name once. In the order of the configuration where it lists them, else by name.
    pub replicas: Vec<Replica>,
}

/// The pools of an answer, by the names of their clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools(BTreeMap<String, Pool>);

impl Pools {
    /// The pool of a cluster; empty where no host can be used, none where there is no such
    /// cluster.
    #[must_use]
    pub fn get(&self, cluster: &str) -> Option<&Pool> {
        self.0.get(cluster)
    }

    /// All pools, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Pool)> {
        self.0.iter().map(|(name, pool)| (name.as_str(), pool))
    }

    /// Leaves out the requests that the filter itself has in flight, of each replica by its name.
    pub fn without(&mut self, own: impl Fn(&str) -> u32) {
        let replicas = self.0.values_mut().flat_map(|pool| &mut pool.replicas);
        for replica in replicas {
            replica.running = replica.running.saturating_sub(own(&replica.name));
        }
    }

    /// The number of replicas over all pools.
    #[must_use]
    pub fn usable(&self) -> usize {
        self.0.values().map(|pool| pool.replicas.len()).sum()
    }
}

/// Where the replicas come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// They are listed: 1 to [`MOST_IN_POOL`], all different.
    Static(Vec<String>),
    /// Envoy's admin tells them.
    Admin(Admin),
}

/// How Envoy's admin is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The cluster that leads to the admin.
    pub admin_cluster: String,
    /// The clusters whose hosts are the replicas.
    pub clusters: Clusters,
    /// How long after one question the next one is asked, 100 ms to 60 s.
    pub refresh: Duration,
}

/// The clusters whose hosts are replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clusters {
    /// The one of this name.
    Named(String),
    /// The one that a request's route names, whichever that is.
    Routed,
}

impl Clusters {
    /// Whether the hosts of a cluster are replicas.
    #[must_use]
    pub fn want(&self, cluster: &str) -> bool {
        match self {
            Self::Named(name) => name == cluster,
            Self::Routed => true,
        }
    }
}

impl Source {
    /// The replicas that are known without asking anybody.
    #[must_use]
    pub fn known(&self) -> &[String] {
        match self {
            Self::Static(names) => names,
            Self::Admin(_) => &[],
        }
    }

    /// Whether the pool of a request is the cluster that its route names.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        matches!(self, Self::Admin(admin) if admin.clusters == Clusters::Routed)
    }

    /// The pool of a request, by the cluster that its route names: requests of different pools
    /// never meet. A listed pool has the empty name.
    #[must_use]
    pub fn pool_name<'a>(&'a self, routed: Option<&'a str>) -> &'a str {
        match self {
            Self::Static(_) => "",
            Self::Admin(admin) => match &admin.clusters {
                Clusters::Named(cluster) => cluster,
                Clusters::Routed => routed.unwrap_or_default(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_of_a_request_is_the_listed_the_named_or_the_routed_one() {
        let admin = |clusters| {
            Source::Admin(Admin {
                admin_cluster: "admin".to_owned(),
                clusters,
                refresh: Duration::from_secs(1),
            })
        };
        let listed = Source::Static(vec!["10.0.0.1:80".to_owned()]);
        let named = admin(Clusters::Named("a".to_owned()));
        let routed = admin(Clusters::Routed);
        for (source, route, pool) in [
            (&listed, Some("x"), ""),
            (&listed, None, ""),
            (&named, Some("x"), "a"),
            (&named, None, "a"),
            (&routed, Some("x"), "x"),
            (&routed, None, ""),
        ] {
            assert_eq!(source.pool_name(route), pool, "{source:?} {route:?}");
        }
        assert_eq!(listed.known(), ["10.0.0.1:80"]);
        assert!(routed.known().is_empty());
    }
}
