//! All members of a window together: each pool by itself, jointly.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::lists::{Lists, Member};
use super::one::prefix;
use super::view::Listed;
use super::{Decision, Pick, Picker, Request, reserves};
use crate::load::{ReplicaHash, replica_hash};
use crate::memory::{Change, Key};
use crate::placement::{self, Before, Candidates, HeldPrefix, place_after};
use crate::replicas::Pool;
use crate::workers::{Moment, Shared, WorkerId};

/// The picks for the members of a window, and the lists that their replicas are indexes into.
#[derive(Debug, Default)]
pub struct Together {
    /// Each member's pick, and the number of its list.
    pub picks: Vec<(Pick, u32)>,
    /// One for each different set of candidates.
    pub lists: Vec<Listed>,
}

impl Picker {
    /// Places the members of a window, in their order of arrival. Those of different pools never
    /// meet.
    pub fn together(
        &mut self,
        now: Moment,
        members: &[&Request],
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) -> Together {
        let mut together = Together {
            picks: vec![(Pick::nowhere(Decision::NoReplicas), 0); members.len()],
            lists: Vec::new(),
        };
        let mut pools: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, request) in members.iter().enumerate() {
            pools.entry(&request.pool).or_default().push(place);
        }
        for (name, places) in pools {
            let pool = self.directory.pool(name, shared);
            let mut lists = Lists::new(pool, &mut together.lists);
            let mut batch = Vec::with_capacity(places.len());
            for place in places {
                if let Some(request) = members.get(place) {
                    let list = lists.of(request.subset.as_deref());
                    // Without a memory nobody asks for it.
                    let unit = self.memory.is_some().then(|| request.unit());
                    batch.push(Member {
                        place,
                        request,
                        unit,
                        list,
                    });
                }
            }
            let picks = &mut together.picks;
            self.place_followers(now, &mut batch, &mut lists, picks, me, shared);
            self.place_pool(now, &batch, &mut lists, picks, me, shared);
            let placed_before = self.remember(now, &batch, picks, shared);
            if !placed_before.is_empty() {
                batch.retain(|member| {
                    member
                        .unit
                        .is_some_and(|unit| placed_before.contains(&unit))
                });
                self.place_followers(now, &mut batch, &mut lists, picks, me, shared);
            }
        }
        together
    }

    /// Those whose unit was placed before, while they were on their way into this window. They
    /// are taken out of the batch. What they were picked for until now is forgotten.
    fn place_followers(
        &mut self,
        now: Moment,
        batch: &mut Vec<Member<'_>>,
        lists: &mut Lists<'_>,
        picks: &mut [(Pick, u32)],
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) {
        let Some(memory) = self.memory else {
            return;
        };
        let asked: Vec<(Key, Key)> = batch
            .iter()
            .filter_map(|member| member.unit.map(|unit| (unit, unit)))
            .collect();
        let mut known = HashSet::new();
        // Nothing is written, so nothing can be refused.
        let _looked = memory.change_many(now, &asked, shared, |key, unit| {
            if unit.is_some() {
                known.insert(*key);
            }
            Change::Keep(())
        });
        batch.retain(|member| {
            let view = lists.views.get(member.list as usize).map(Rc::clone);
            let unit = member.unit.filter(|unit| known.contains(unit));
            let (Some(view), Some(unit)) = (view, unit) else {
                return true;
            };
            let Some(pick) = self.follow(now, unit, member.request, &view, me, shared) else {
                return true;
            };
            if let Decision::Remembered { replica, group } = pick.decision {
                lists.pick(member, replica, group, pick.charge, picks);
            }
            if let Some((told, _)) = picks.get_mut(member.place) {
                (told.place, told.reserves) = (pick.place, pick.reserves);
            }
            false
        });
    }

    fn place_pool(
        &mut self,
        now: Moment,
        batch: &[Member<'_>],
        lists: &mut Lists<'_>,
        picks: &mut [(Pick, u32)],
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) {
        let total = self.total(now, me, shared);
        let remembers = self.memory.is_some();
        let expected = if remembers { self.expected } else { 0 };
        let pool = Rc::clone(&lists.pool);
        let replicas: Vec<placement::Replica<'_>> = pool
            .replicas
            .iter()
            .map(|replica| {
                let hash = replica_hash(&replica.name);
                placement::Replica {
                    name: &replica.name,
                    running: replica
                        .running
                        .saturating_add(total.of(hash).requests)
                        .into(),
                    load: if remembers { total.load(hash) } else { 0 },
                }
            })
            .collect();
        let views = lists.views.clone();
        let requests: Vec<placement::Request<'_>> = batch
            .iter()
            .map(|member| placement::Request {
                blocks: &member.request.blocks,
                candidates: views
                    .get(member.list as usize)
                    .and_then(|view| view.only.as_deref())
                    .map_or(Candidates::All, Candidates::Only),
                weight: member.request.weight,
                group: member.request.group,
                chained: member.request.chained,
            })
            .collect();
        let held = self.held_prefixes(now, batch, &pool, shared);
        let held: Vec<HeldPrefix<'_>> = held
            .iter()
            .map(|(blocks, replicas, chained)| HeldPrefix {
                blocks,
                replicas,
                chained: *chained,
            })
            .collect();
        let before = Before {
            place_all: remembers,
            expected,
            held: &held,
        };
        let placement = place_after(&self.rules, &replicas, &requests, &before);
        let mut placed: HashMap<Key, HashMap<ReplicaHash, u64>> = HashMap::new();
        for (index, member) in batch.iter().enumerate() {
            match placement.assigned(index) {
                Some(replica) => {
                    let replica = u32::try_from(replica).unwrap_or(u32::MAX);
                    let group = placement.group(index);
                    let charge = placement.charge(index);
                    lists.pick(member, replica, group, charge, picks);
                    if let Some(unit) = member.unit
                        && let Some((pick, _)) = picks.get_mut(member.place)
                        && let Some(replica) = pick.replica
                    {
                        let unit = placed.entry(unit).or_default();
                        let weight = u64::from(member.request.weight.max(1));
                        let there = unit.get(&replica).copied().unwrap_or(0);
                        let elsewhere = unit.values().sum::<u64>() - there;
                        pick.begins = unit.is_empty();
                        pick.place = there + elsewhere + weight;
                        pick.reserves = reserves(&self.rules, expected, there, elsewhere, weight);
                        unit.insert(replica, there + weight);
                    }
                }
                None => {
                    let nobody = views
                        .get(member.list as usize)
                        .is_none_or(|view| view.len() == 0);
                    let decision = if nobody {
                        Decision::NoReplicas
                    } else {
                        Decision::Alone
                    };
                    if let Some(pick) = picks.get_mut(member.place) {
                        *pick = (Pick::nowhere(decision), lists.number(member.list));
                    }
                }
            }
        }
    }

    /// The first blocks of members that replicas hold from before, with their indexes, and whether
    /// the blocks are chained.
    fn held_prefixes<'a>(
        &self,
        now: Moment,
        batch: &[Member<'a>],
        pool: &Pool,
        shared: &mut dyn Shared,
    ) -> Vec<(&'a [u64], Vec<u32>, bool)> {
        let Some(memory) = &self.memory else {
            return Vec::new();
        };
        let mut seen: HashSet<Key> = HashSet::new();
        let mut held = Vec::new();
        let mut index_of: Option<HashMap<ReplicaHash, u32>> = None;
        for member in batch {
            let Some(blocks) = prefix(&self.rules, member.request) else {
                continue;
            };
            let key = Key::prefix(&member.request.pool, blocks);
            if !seen.insert(key) {
                continue;
            }
            let Some(unit) = memory.get(now, key, shared) else {
                continue;
            };
            let index_of = index_of.get_or_insert_with(|| {
                let hashes = pool
                    .replicas
                    .iter()
                    .map(|replica| replica_hash(&replica.name));
                hashes.zip(0..).collect()
            });
            let holders = unit.holders.iter();
            let replicas = holders.filter_map(|holder| index_of.get(&holder.replica).copied());
            held.push((blocks, replicas.collect(), member.request.chained));
        }
        held
    }

    /// Remembers where each unit went, and each beginning by which units are drawn together. A
    /// unit that another worker has placed since this one looked stays where it is: the keys of
    /// these.
    fn remember(
        &self,
        now: Moment,
        batch: &[Member<'_>],
        picks: &[(Pick, u32)],
        shared: &mut dyn Shared,
    ) -> HashSet<Key> {
        let Some(memory) = &self.memory else {
            return HashSet::new();
        };
        let mut changes: BTreeMap<Key, Runs> = BTreeMap::new();
        for member in batch {
            let Some((pick, _)) = picks.get(member.place) else {
                continue;
            };
            let (Some(replica), Some(unit)) = (pick.replica, member.unit) else {
                continue;
            };
            let weight = member.request.weight.max(1);
            let unit = changes.entry(unit).or_default();
            let run = unit.on.entry(replica).or_default();
            *run = (run.0.saturating_add(1), run.1.saturating_add(weight));
            if let Some(blocks) = prefix(&self.rules, member.request) {
                let key = Key::prefix(&member.request.pool, blocks);
                let beginning = changes.entry(key).or_default();
                beginning.is_prefix = true;
                beginning.on.insert(replica, (1, 1));
            }
        }
        let changes: Vec<(Key, (Key, Runs))> = changes
            .into_iter()
            .map(|(key, runs)| (key, (key, runs)))
            .collect();
        let mut placed_before = HashSet::new();
        // What cannot be remembered is placed anew when its next member comes.
        let _remembered = memory.change_many(now, &changes, shared, |(key, runs), unit| {
            if unit.is_some() && !runs.is_prefix {
                placed_before.insert(*key);
                return Change::Keep(());
            }
            placed_before.remove(key);
            let mut unit = unit.cloned().unwrap_or_default();
            for (replica, (members, weight)) in &runs.on {
                unit.add(*replica, *members, *weight);
            }
            Change::Write(unit, ())
        });
        placed_before
    }
}

/// Where the members of one unit went.
#[derive(Debug, Default)]
struct Runs {
    /// It is a beginning of units: nobody's place is decided by it alone.
    is_prefix: bool,
    /// Members and their weight on each replica.
    on: BTreeMap<ReplicaHash, (u32, u32)>,
}
