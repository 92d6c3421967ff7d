//! What must hold after a schedule, whatever happened in it.

use std::collections::{BTreeMap, BTreeSet};

use burst_prefix_cache::config::Config;
use burst_prefix_cache::match_info::MatchInfo;
use burst_prefix_cache::picker::Listed;
use burst_prefix_cache::placement::{self, Replica};
use burst_prefix_cache::replicas::Source;
use burst_prefix_cache::request::{self, Prefix};

use super::exchange::{Exchange, Fate};
use super::schedule::Schedule;
use super::world::World;

/// The headers that only the filter writes.
const OURS: [&str; 4] = [
    "x-gateway-destination-endpoint",
    "x-prefix-cache-match-info",
    "x-prefix-cache-score",
    "x-burst-prefix-cache",
];

/// What clients say of their groups; for the filter alone.
const HINTS: [&str; 2] = ["x-burst-group-id", "x-burst-group-size"];

/// All that is wrong with the end of a schedule.
pub(crate) fn wrongs(schedule: &Schedule, world: &World) -> Vec<String> {
    let mut wrongs = world.witness.wrong.clone();
    let configs: Vec<Config> = schedule
        .configs
        .iter()
        .map(|json| Config::parse(json.as_bytes()).unwrap())
        .collect();
    for (number, exchange) in world.exchanges.iter().enumerate() {
        let config = &configs[exchange.config];
        let told = once(exchange)
            .and_then(|()| in_time(exchange, schedule.longest_wait()))
            .and_then(|()| headers(exchange, config, schedule, world));
        if let Err(wrong) = told {
            wrongs.push(format!("request {number}: {wrong}"));
        }
    }
    wrongs.extend(bounded(world).err());
    wrongs.extend(nothing_in_flight(world).err());
    if schedule.kind.whole_windows() {
        wrongs.extend(joint(world, &configs).err());
        wrongs.extend(together(world, &configs).err());
    }
    wrongs
}

/// Each request goes on exactly once, with the body it came with.
fn once(exchange: &Exchange) -> Result<(), String> {
    if exchange.resumes > 1 {
        return Err(format!("resumed {} times", exchange.resumes));
    }
    match (exchange.fate, &exchange.sent, &exchange.upstream) {
        (Some(Fate::Refused(status)), ..) => Err(format!("answered with {status}")),
        (None, Some(_), None) => Err("waits for ever".to_owned()),
        (None, Some(_), Some(upstream)) if !upstream.ended => {
            Err("its body never ends for the replica".to_owned())
        }
        (_, Some(sent), Some(upstream)) if upstream.ended && *sent != upstream.body => {
            Err("its body was changed".to_owned())
        }
        _ => Ok(()),
    }
}

fn in_time(exchange: &Exchange, longest: u64) -> Result<(), String> {
    let (Some(complete), Some(upstream)) = (exchange.complete_at, &exchange.upstream) else {
        return Ok(());
    };
    let waited = upstream.at.saturating_sub(complete);
    if waited > longest {
        return Err(format!("waited {} ms", waited as f64 / 1e6));
    }
    Ok(())
}

/// The filter's headers tell one decision, and the others are as they were.
fn headers(
    exchange: &Exchange,
    config: &Config,
    schedule: &Schedule,
    world: &World,
) -> Result<(), String> {
    let Some(upstream) = &exchange.upstream else {
        return Ok(());
    };
    for name in OURS {
        let known = &upstream.headers.0;
        let values = known.iter().filter(|(known, _)| known == name);
        let values: Vec<&[u8]> = values.map(|(_, value)| value.as_slice()).collect();
        if values.len() > 1 || values.contains(&&b"forged"[..]) {
            return Err(format!("{name}: {values:?}"));
        }
    }
    let (mut before, mut after) = (exchange.client.headers.clone(), upstream.headers.clone());
    for name in OURS {
        before.remove(name);
        after.remove(name);
    }
    for name in HINTS {
        before.remove(name);
    }
    if before != after {
        return Err(format!("its headers were changed: {after:?}"));
    }
    if schedule.faults.refuse_headers_one_in > 0 {
        return Ok(());
    }
    let text = |name| upstream.headers.text(name);
    let status = text(OURS[3]).ok_or("no status")?;
    let assigned = status.starts_with("assigned;") || status.starts_with("remembered;");
    if !config.hold && assigned && !status.ends_with(";wait=0") {
        return Err(format!("{status}, and nobody is to be held"));
    }
    let endpoint = text(OURS[0]);
    if assigned != endpoint.is_some() {
        return Err(format!("{status}, and goes to {endpoint:?}"));
    }
    let names = candidates(exchange, config);
    if matches!(config.replicas, Source::Admin(_)) && status != "skipped;reason=path" {
        let pool = config.replicas.pool_name(exchange.client.cluster);
        if !world.was_current(pool, exchange, &names) {
            return Err(format!("{names:?} are not the hosts of {pool} then"));
        }
        let nobody = status.starts_with("no-replicas;");
        let decided = ["assigned;", "remembered;", "alone;"];
        let somebody = decided.iter().any(|token| status.starts_with(token));
        if nobody && !names.is_empty() || somebody && names.is_empty() {
            return Err(format!("{status} among {names:?}"));
        }
    }
    let matched = endpoint.and_then(|name| names.iter().position(|known| *known == name));
    // What was skipped was not read, except where only the window was out of reach.
    let read = !status.starts_with("skipped;") || status == "skipped;reason=shared-state";
    let prefix = prefix(exchange, config).filter(|_| read);
    let blocks = prefix.map_or(0, |prefix| prefix.blocks().len());
    let info = MatchInfo {
        candidates: &Listed {
            names: names.clone(),
            all: true,
        },
        matched,
        total_blocks: u32::try_from(blocks).unwrap(),
        block_size_tokens: config.layout.block_size_tokens.get(),
    };
    let expected = status != "skipped;reason=path" && !names.is_empty();
    let expected = expected.then(|| (info.header(), info.score_header()));
    if text(OURS[1]).zip(text(OURS[2])) != expected || assigned && matched.is_none() {
        return Err(format!("{status} and its match information do not agree"));
    }
    Ok(())
}

/// The replicas that its match info must list: those of the configuration, or else those that it
/// does list, which are looked at elsewhere.
fn candidates(exchange: &Exchange, config: &Config) -> Vec<String> {
    if let Source::Static(names) = &config.replicas {
        return names.clone();
    }
    let upstream = exchange.upstream.as_ref();
    let info = upstream.and_then(|upstream| upstream.headers.text(OURS[1]));
    let info = info.unwrap_or_default();
    let names = info
        .split(", ")
        .filter_map(|member| member.split('"').nth(1));
    names.map(str::to_owned).collect()
}

/// The prompts of a complete request.
fn prefix(exchange: &Exchange, config: &Config) -> Option<Prefix> {
    let method = exchange.client.headers.text(":method")?;
    let api = request::identify(&method, &exchange.client.headers.text(":path")?)?;
    let body = exchange.sent.as_ref()?;
    request::read(api, body, config.layout).ok()
}

/// The group that its client names, as far as it makes sense.
fn group(exchange: &Exchange) -> Option<u64> {
    let name = exchange.client.headers.get(HINTS[0])?;
    let makes_sense = (1..=256).contains(&name.len()) && name.iter().all(|b| (32..127).contains(b));
    makes_sense.then(|| xxhash_rust::xxh3::xxh3_64(&name))
}

/// What stays behind is bounded, and nobody's mail lies around.
fn bounded(world: &World) -> Result<(), String> {
    /// Resuming more in one callback has killed a VM.
    const MOST_RESUMED: usize = 64;
    /// The cells of one configuration beside those of lanes, loads and memory: the slots, and two
    /// where the admin is asked.
    const CELLS: usize = 3;
    if world.witness.most_resumed > MOST_RESUMED {
        return Err(format!("{} resumed at once", world.witness.most_resumed));
    }
    // A lane for each pool, a load for each worker, and of the memory's cells those that are used:
    // their number has a bound of its own.
    let routed = world
        .exchanges
        .iter()
        .map(|exchange| exchange.client.cluster);
    let pools = routed.collect::<BTreeSet<_>>().len();
    let used = |key: &&String| !key.contains("/memory-");
    let keys: Vec<&String> = world.fabric.data.keys().filter(used).collect();
    if keys.len() > (CELLS + pools + world.machines.len()) * world.configs.len() {
        return Err(format!("more and more shared data: {keys:?}"));
    }
    let queues = &world.fabric.queues;
    if queues.len() > world.machines.len() * world.configs.len() {
        return Err(format!("more and more queues: {}", queues.len()));
    }
    for queue in queues {
        let machine = &world.machines[queue.listener.vm];
        let listens = machine.alive && machine.roots.contains_key(&queue.listener.root);
        if listens && !queue.messages.is_empty() {
            let left = queue.messages.len();
            return Err(format!("{left} messages were not read in {}", queue.name));
        }
    }
    Ok(())
}

/// When all is over, no worker that lives believes that a replica still has something of it.
fn nothing_in_flight(world: &World) -> Result<(), String> {
    /// Incarnation, when it was written, requests and load of replicas.
    type Sheet = (u64, u64, Vec<(u64, u32, u64)>);
    for queue in &world.fabric.queues {
        let machine = &world.machines[queue.listener.vm];
        if !machine.alive || !machine.roots.contains_key(&queue.listener.root) {
            continue;
        }
        let cell = queue.name.replace("/queue-", "/load-");
        let Ok((bytes, _)) = world.fabric.get(&cell) else {
            continue;
        };
        let (sheet, _) = postcard::take_from_bytes::<Sheet>(&bytes).map_err(|e| e.to_string())?;
        if !sheet.2.is_empty() {
            return Err(format!("{:?} is in flight for ever in {cell}", sheet.2));
        }
    }
    Ok(())
}

/// Where placed units are remembered and replicas take all of one, each unit is on one replica,
/// whatever windows its members were in.
fn together(world: &World, configs: &[Config]) -> Result<(), String> {
    let mut replicas = BTreeMap::new();
    for (number, exchange) in world.exchanges.iter().enumerate() {
        let config = &configs[exchange.config];
        // A unit whose replica has gone begins anew elsewhere.
        let stays = matches!(config.replicas, Source::Static(_));
        if config.memory.is_zero() || config.rules.max_per_replica.is_some() || !stays {
            continue;
        }
        let upstream = exchange.upstream.as_ref();
        let endpoint = upstream.and_then(|upstream| upstream.headers.text(OURS[0]));
        let (Some(endpoint), Some(prefix)) = (endpoint, prefix(exchange, config)) else {
            continue;
        };
        let unit = match group(exchange) {
            Some(group) => (config.fingerprint(), Some(group), Vec::new()),
            None => (config.fingerprint(), None, prefix.blocks()),
        };
        let first = replicas.entry(unit).or_insert((endpoint.clone(), number));
        if first.0 != endpoint {
            return Err(format!("request {number} is on {endpoint}, and {first:?}"));
        }
    }
    Ok(())
}

/// Each window is one joint assignment, in the order in which its requests joined; but for the
/// names of the replicas, since of equally loaded ones the one with the fewest requests in flight
/// comes first. Where units are remembered it also goes by what was before.
fn joint(world: &World, configs: &[Config]) -> Result<(), String> {
    let mut placed = 0;
    for window in world.witness.windows.values() {
        let stayed = |request: &&usize| world.exchanges[**request].fate != Some(Fate::Left);
        let requests: Vec<usize> = window.iter().filter(stayed).copied().collect();
        let Some(first) = requests.first() else {
            continue;
        };
        let config = &configs[world.exchanges[*first].config];
        if !config.memory.is_zero() {
            continue;
        }
        placed += requests.len();
        let known = candidates(&world.exchanges[*first], config);
        let pool = world.exchanges[*first].client.cluster;
        for request in &requests {
            let exchange = &world.exchanges[*request];
            let is_routed = config.replicas.is_routed();
            if candidates(exchange, config) != known || is_routed && exchange.client.cluster != pool
            {
                return Err(format!("{requests:?} have different candidates"));
            }
        }
        let replicas: Vec<Replica<'_>> = known.iter().map(|name| Replica::new(name)).collect();
        let members: Vec<(Vec<u64>, u32, Option<u64>)> = requests
            .iter()
            .map(|request| {
                let exchange = &world.exchanges[*request];
                let prefix = prefix(exchange, config).unwrap();
                (prefix.blocks(), prefix.weight, group(exchange))
            })
            .collect();
        let batch: Vec<placement::Request<'_>> = members
            .iter()
            .map(|(blocks, weight, group)| placement::Request {
                weight: *weight,
                group: *group,
                ..placement::Request::new(blocks)
            })
            .collect();
        let placement = placement::place(&config.rules, &replicas, &batch);
        let mut names = Bijection::default();
        for (index, request) in requests.iter().enumerate() {
            let upstream = world.exchanges[*request].upstream.as_ref();
            let headers = &upstream.ok_or("a member of a window waits")?.headers;
            let endpoint = headers.text(OURS[0]);
            let status = headers.text(OURS[3]).unwrap_or_default();
            let assigned = placement.assigned(index);
            let token = match assigned {
                Some(_) => format!("assigned;group={};", placement.group(index)),
                None if known.is_empty() => "no-replicas;".to_owned(),
                None => "alone;".to_owned(),
            };
            let agree = match (&endpoint, assigned) {
                (Some(endpoint), Some(assigned)) => names.pair(endpoint, assigned),
                (None, None) => true,
                _ => false,
            };
            if !agree || !status.starts_with(&token) {
                return Err(format!(
                    "request {request} is {status} on {endpoint:?}, and jointly {token} on \
                     {assigned:?}, in the window {requests:?} ({names:?})"
                ));
            }
        }
    }
    let members = world.witness.windows.values().flatten();
    let members: BTreeSet<usize> = members.copied().collect();
    let held = |(number, exchange): &(usize, &Exchange)| {
        let headers = exchange.upstream.as_ref().map(|upstream| &upstream.headers);
        let status = headers.and_then(|headers| headers.text(OURS[3]));
        configs[exchange.config].memory.is_zero()
            && status.is_some_and(|status| {
                // Those who find nobody there do not wait, and say so.
                let nobody = status == "no-replicas;wait=0" && !members.contains(number);
                status.contains(";wait=") && !nobody
            })
    };
    let waited = world.exchanges.iter().enumerate().filter(held).count();
    if waited != placed {
        return Err(format!(
            "{waited} requests waited, and {placed} were placed"
        ));
    }
    Ok(())
}

/// Names that stand for the same replica in two assignments.
#[derive(Debug, Default)]
struct Bijection {
    there: BTreeMap<String, usize>,
    back: BTreeMap<usize, String>,
}

impl Bijection {
    /// Whether these two can stand for the same, after all before.
    fn pair(&mut self, name: &str, place: usize) -> bool {
        let there = self.there.entry(name.to_owned()).or_insert(place);
        let back = self.back.entry(place).or_insert_with(|| name.to_owned());
        *there == place && back == name
    }
}
