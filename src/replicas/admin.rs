//! Envoy's answer to `/clusters?format=json`.
//!
//! It is the JSON form of `envoy.admin.v3.Clusters`: fields that are zero, false or empty are left
//! out, and 64-bit numbers are decimal strings. Of each host the address, its health, its weight
//! and priority, and the gauge of its running requests are read; the rest is skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::failure::Failure;
use super::{Clusters, LONGEST_NAME, MOST_IN_ALL, MOST_IN_POOL, MOST_POOLS, Pool, Pools, Replica};

/// The largest answer that is read, in bytes.
pub const MOST_BYTES: usize = 16 << 20;

/// The gauge of the requests that run on a host.
const RUNNING: &str = "rq_active";

// Lists are read item by item, so that no list of nothing takes many times its size in memory.

#[derive(serde::Deserialize)]
struct Answer<'a> {
    // Not optional: the cluster by which the admin was asked is always there.
    #[serde(borrow)]
    cluster_statuses: &'a RawValue,
}

#[derive(serde::Deserialize)]
struct Cluster<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    host_statuses: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Host<'a> {
    #[serde(borrow)]
    address: Address<'a>,
    #[serde(borrow, default)]
    stats: Option<&'a RawValue>,
    #[serde(borrow, default)]
    health_status: Health<'a>,
    #[serde(default)]
    weight: Number,
    #[serde(default)]
    priority: Number,
}

#[derive(serde::Deserialize)]
struct Address<'a> {
    #[serde(borrow)]
    socket_address: Socket<'a>,
}

#[derive(serde::Deserialize)]
struct Socket<'a> {
    #[serde(borrow)]
    address: Cow<'a, str>,
    #[serde(default)]
    port_value: Number,
}

#[derive(serde::Deserialize)]
struct Stat<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    value: Number,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Health<'a> {
    failed_active_health_check: bool,
    failed_outlier_check: bool,
    failed_active_degraded_check: bool,
    pending_dynamic_removal: bool,
    pending_active_hc: bool,
    excluded_via_immediate_hc_fail: bool,
    active_hc_timeout: bool,
    #[serde(borrow)]
    eds_health_status: Cow<'a, str>,
}

/// A whole number, as a JSON number or in decimal digits; what is too large is the largest.
#[derive(Clone, Copy, Default)]
struct Number(u32);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyForm;

        impl Visitor<'_> for AnyForm {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or its decimal digits")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(u32::try_from(number).unwrap_or(u32::MAX)))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                self.visit_u64(u64::try_from(number).unwrap_or(0))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
                // The cast saturates.
                Ok(Number(number as u32))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let number: f64 = text.parse().map_err(E::custom)?;
                if number.is_nan() {
                    return Err(E::custom("not a number"));
                }
                self.visit_f64(number)
            }
        }

        deserializer.deserialize_any(AnyForm)
    }
}

/// When a host is used: the least of a pool are. A degraded one comes after all others, whatever
/// their priorities, as Envoy has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    degraded: bool,
    priority: u32,
}

impl Host<'_> {
    /// As Envoy names it; none for what is no address of IP.
    fn name(&self) -> Option<String> {
        let socket = &self.address.socket_address;
        let ip: IpAddr = socket.address.parse().ok()?;
        let port = u16::try_from(socket.port_value.0).ok()?;
        (port != 0).then(|| SocketAddr::new(ip, port).to_string())
    }

    fn running(&self) -> serde_json::Result<u32> {
        let mut running = 0;
        if let Some(stats) = self.stats {
            each(stats, |stat: Stat<'_>| {
                if stat.name == RUNNING {
                    running = stat.value.0;
                }
            })?;
        }
        Ok(running)
    }

    /// None where it cannot be used.
    fn rank(&self) -> Option<Rank> {
        let health = &self.health_status;
        let eds = &*health.eds_health_status;
        let out = health.failed_active_health_check
            || health.failed_outlier_check
            || health.pending_dynamic_removal
            || health.pending_active_hc
            || health.excluded_via_immediate_hc_fail
            || health.active_hc_timeout
            || matches!(eds, "UNHEALTHY" | "DRAINING" | "TIMEOUT")
            || self.weight.0 == 0;
        (!out).then(|| Rank {
            degraded: health.failed_active_degraded_check || eds == "DEGRADED",
            priority: self.priority.0,
        })
    }
}

/// What is known of one address.
#[derive(Default)]
struct Known {
    rank: Option<Rank>,
    running: u32,
}

/// The hosts of one cluster, by their names.
type Hosts = BTreeMap<String, Known>;

/// Reads the answer to `/clusters?format=json`: the pools of the wanted clusters.
///
/// A host that cannot be read, or is no address of IP, is left out; one that is unhealthy, drained
/// or without weight is so too. Degraded hosts are used where a pool has no others, and of several
/// priorities the lowest that has hosts to use. Two hosts of one address are one replica.
///
/// # Errors
/// The answer is larger than [`MOST_BYTES`], or cannot be read, or has more clusters, replicas or
/// longer names than are kept: it is refused as a whole.
pub fn read(answer: &[u8], clusters: &Clusters) -> Result<Pools, Failure> {
    if answer.len() > MOST_BYTES {
        return Err(Failure::TooLarge {
            found: answer.len(),
            most: MOST_BYTES,
        });
    }
    let unreadable = |error: serde_json::Error| Failure::Unreadable(shortened(&error.to_string()));
    let answer: Answer<'_> = serde_json::from_slice(answer).map_err(unreadable)?;
    let mut found: BTreeMap<Cow<'_, str>, Hosts> = BTreeMap::new();
    let mut lists = Ok(());
    each(answer.cluster_statuses, |cluster: Cluster<'_>| {
        if clusters.want(&cluster.name) && lists.is_ok() {
            let hosts = found.entry(cluster.name).or_default();
            lists = cluster.host_statuses.map_or(Ok(()), |list| {
                // Each is read by itself, so that an odd one costs none but itself.
                each(list, |host: &RawValue| gather(host, hosts))
            });
        }
    })
    .and(lists)
    .map_err(unreadable)?;
    at_most("clusters", found.len(), MOST_POOLS)?;
    let longest = found.keys().map(|name| name.len()).max();
    at_most(
        "bytes in a cluster's name",
        longest.unwrap_or(0),
        LONGEST_NAME,
    )?;
    let mut pools = BTreeMap::new();
    for (cluster, hosts) in found {
        let pool = usable(hosts);
        at_most("replicas in a cluster", pool.replicas.len(), MOST_IN_POOL)?;
        pools.insert(cluster.into_owned(), pool);
    }
    let pools = Pools(pools);
    at_most("replicas", pools.usable(), MOST_IN_ALL)?;
    Ok(pools)
}

/// What goes into the log: a value that stands in the wrong place may be the whole answer.
fn shortened(why: &str) -> String {
    /// In bytes; where it stands comes last.
    const MOST: usize = 200;
    if why.len() <= MOST {
        return why.to_owned();
    }
    let begin = why.floor_char_boundary(MOST / 2);
    let end = why.ceil_char_boundary(why.len() - MOST / 2);
    let part = |range: std::ops::Range<usize>| why.get(range).unwrap_or_default();
    format!("{} … {}", part(0..begin), part(end..why.len()))
}

fn at_most(what: &'static str, found: usize, most: usize) -> Result<(), Failure> {
    if found > most {
        return Err(Failure::TooMany { what, found, most });
    }
    Ok(())
}

fn gather(status: &RawValue, hosts: &mut Hosts) {
    let Ok(host) = serde_json::from_str::<Host<'_>>(status.get()) else {
        return;
    };
    if let (Some(name), Ok(running)) = (host.name(), host.running()) {
        let known = hosts.entry(name).or_default();
        known.running = known.running.max(running);
        known.rank = match (known.rank, host.rank()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// Reads a list and keeps nothing of it.
fn each<'a, T: Deserialize<'a>>(list: &'a RawValue, act: impl FnMut(T)) -> serde_json::Result<()> {
    struct Each<T, F>(F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(item) = list.next_element()? {
                (self.0)(item);
            }
            Ok(())
        }
    }

    let mut reader = serde_json::Deserializer::from_str(list.get());
    reader.deserialize_seq(Each(act, PhantomData))
}

fn usable(hosts: Hosts) -> Pool {
    let first = hosts.values().filter_map(|known| known.rank).min();
    let replicas = hosts
        .into_iter()
        .filter(|(_, known)| known.rank.is_some() && known.rank == first)
        .map(|(name, known)| Replica {
            name,
            running: known.running,
        });
    Pool {
        replicas: replicas.collect(),
    }
}
