//! What must hold after a schedule, whatever happened in it.

use burst_prefix_cache::config::Config;
use burst_prefix_cache::match_info::MatchInfo;
use burst_prefix_cache::placement::{self, Candidates, Replica};
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
            .and_then(|()| headers(exchange, config, schedule));
        if let Err(wrong) = told {
            wrongs.push(format!("request {number}: {wrong}"));
        }
    }
    wrongs.extend(bounded(world).err());
    if schedule.kind.whole_windows() {
        wrongs.extend(joint(world, &configs).err());
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
fn headers(exchange: &Exchange, config: &Config, schedule: &Schedule) -> Result<(), String> {
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
    if before != after {
        return Err(format!("its headers were changed: {after:?}"));
    }
    if schedule.faults.refuse_headers_one_in > 0 {
        return Ok(());
    }
    let text = |name| upstream.headers.text(name);
    let status = text(OURS[3]).ok_or("no status")?;
    let assigned = status.starts_with("assigned;");
    let endpoint = text(OURS[0]);
    if assigned != endpoint.is_some() {
        return Err(format!("{status}, and goes to {endpoint:?}"));
    }
    let matched = endpoint.and_then(|name| {
        config
            .replicas
            .known()
            .iter()
            .position(|known| *known == name)
    });
    // What was skipped was not read, except where only the window was out of reach.
    let read = !status.starts_with("skipped;") || status == "skipped;reason=shared-state";
    let prefix = prefix(exchange, config).filter(|_| read);
    let blocks = prefix.map_or(0, |prefix| prefix.blocks().len());
    let info = MatchInfo {
        candidates: config.replicas.known(),
        matched,
        total_blocks: u32::try_from(blocks).unwrap(),
        block_size_tokens: config.layout.block_size_tokens.get(),
    };
    let expected = (status != "skipped;reason=path").then(|| (info.header(), info.score_header()));
    if text(OURS[1]).zip(text(OURS[2])) != expected || assigned && matched.is_none() {
        return Err(format!("{status} and its match information do not agree"));
    }
    Ok(())
}

/// The prompts of a complete request.
fn prefix(exchange: &Exchange, config: &Config) -> Option<Prefix> {
    let method = exchange.client.headers.text(":method")?;
    let api = request::identify(&method, &exchange.client.headers.text(":path")?)?;
    let body = exchange.sent.as_ref()?;
    request::read(api, body, config.layout).ok()
}

/// What stays behind is bounded, and nobody's mail lies around.
fn bounded(world: &World) -> Result<(), String> {
    /// Resuming more in one callback has killed a VM.
    const MOST_RESUMED: usize = 64;
    /// The cells of one configuration: the window, the slots, and where the admin is asked two
    /// more.
    const CELLS: usize = 4;
    if world.witness.most_resumed > MOST_RESUMED {
        return Err(format!("{} resumed at once", world.witness.most_resumed));
    }
    let keys: Vec<&String> = world.fabric.data.keys().collect();
    if keys.len() > CELLS * world.configs.len() {
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

/// Each window is one joint assignment, in the order in which its requests joined.
fn joint(world: &World, configs: &[Config]) -> Result<(), String> {
    let mut placed = 0;
    for window in world.witness.windows.values().flatten() {
        let stayed = |request: &&usize| world.exchanges[**request].fate != Some(Fate::Left);
        let requests: Vec<usize> = window.iter().filter(stayed).copied().collect();
        let Some(first) = requests.first() else {
            continue;
        };
        placed += requests.len();
        let config = &configs[world.exchanges[*first].config];
        let replicas: Vec<Replica<'_>> = config
            .replicas
            .known()
            .iter()
            .map(|name| Replica { name, running: 0 })
            .collect();
        let members: Vec<(Vec<u64>, u32)> = requests
            .iter()
            .map(|request| prefix(&world.exchanges[*request], config).unwrap())
            .map(|prefix| (prefix.blocks(), prefix.weight))
            .collect();
        let batch: Vec<placement::Request<'_>> = members
            .iter()
            .map(|(blocks, weight)| placement::Request {
                blocks,
                candidates: Candidates::All,
                weight: *weight,
            })
            .collect();
        let placement = placement::place(&config.rules, &replicas, &batch);
        for (index, request) in requests.iter().enumerate() {
            let upstream = world.exchanges[*request].upstream.as_ref();
            let headers = &upstream.ok_or("a member of a window waits")?.headers;
            let endpoint = headers.text(OURS[0]);
            let status = headers.text(OURS[3]).unwrap_or_default();
            let assigned = placement.assigned(index);
            let token = match assigned {
                Some(_) => format!("assigned;group={};", placement.group(index)),
                None => "alone;".to_owned(),
            };
            let expected = assigned.map(|replica| config.replicas.known()[replica].clone());
            if endpoint != expected || !status.starts_with(&token) {
                return Err(format!(
                    "request {request} is {status} on {endpoint:?}, and jointly {token} on \
                     {expected:?}, in the window {requests:?}"
                ));
            }
        }
    }
    let held = |exchange: &&Exchange| {
        let headers = exchange.upstream.as_ref().map(|upstream| &upstream.headers);
        let status = headers.and_then(|headers| headers.text(OURS[3]));
        status.is_some_and(|status| status.contains(";wait="))
    };
    let waited = world.exchanges.iter().filter(held).count();
    if waited != placed {
        return Err(format!(
            "{waited} requests waited, and {placed} were placed"
        ));
    }
    Ok(())
}
