//! One request by itself: it follows its unit, or begins one.
//!
//! The rules are those of [`crate::placement`], read for one request and for the unit's whole
//! life: a replica takes at most `maxPerReplica` samples of a unit while another has room (rules 6
//! and 7); a unit that begins with blocks that are held somewhere goes there, if the load is below
//! the fair share (rule 6); else the least loaded gets it (rule 9).

use std::collections::HashSet;
use std::rc::Rc;

use super::view::{Listed, View};
use super::{Decision, Pick, Picker, Request, first_charge, later_charge, reserves};
use crate::load::{ReplicaHash, Total, replica_hash};
use crate::memory::{Change, Holder, Key, Memory, Unit};
use crate::placement::Rules;
use crate::workers::{Moment, Refused, Shared, Slot, WorkerId};

impl Picker {
    /// A request whose unit is remembered follows it, and one that begins like a remembered unit
    /// is drawn to it. None where it is neither, or nothing is remembered at all.
    pub(crate) fn remembered(
        &mut self,
        now: Moment,
        request: &Request,
        view: &View,
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) -> Option<(Pick, Rc<Listed>)> {
        let memory = self.memory?;
        let key = request.unit();
        let pick = match self.follow(now, key, request, view, me, shared) {
            Some(pick) => pick,
            None => {
                let blocks = prefix(&self.rules, request)?;
                memory.get(now, Key::prefix(&request.pool, blocks), shared)?;
                self.begin(now, key, request, view, me, shared).ok()?
            }
        };
        Some(self.told(pick, view))
    }

    /// Picks for a request that nobody holds: after its unit, or, as the first of its unit, by
    /// what it begins with and by load. The first claims for all that come at the same time.
    ///
    /// # Errors
    /// The memory could not be written.
    pub(crate) fn at_once(
        &mut self,
        now: Moment,
        request: &Request,
        view: &View,
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) -> Result<(Pick, Rc<Listed>), Refused> {
        let key = request.unit();
        let pick = match self.follow(now, key, request, view, me, shared) {
            Some(pick) => pick,
            None => self.begin(now, key, request, view, me, shared)?,
        };
        Ok(self.told(pick, view))
    }

    /// The pick for the first member of a unit; for a later one, should another worker have begun
    /// it in the meantime.
    fn begin(
        &mut self,
        now: Moment,
        key: Key,
        request: &Request,
        view: &View,
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) -> Result<Pick, Refused> {
        let total = self.total(now, me, shared);
        let memory = self.memory.as_ref().ok_or(Refused)?;
        let choosing = self.choosing(request, view, &total, me);
        let (holders, begins_alike) = choosing.claim_prefix(memory, now, shared)?;
        let choice = memory.change(now, key, shared, |unit| {
            choosing.change(unit, |choosing| choosing.first(&holders))
        })?;
        Ok(match choice {
            None => Pick::nowhere(Decision::NoReplicas),
            Some(choice) => choice.pick(view, begins_alike),
        })
    }

    /// The pick for a member of a remembered unit, which now has one more.
    pub(super) fn follow(
        &mut self,
        now: Moment,
        key: Key,
        request: &Request,
        view: &View,
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) -> Option<Pick> {
        let unit = self.memory.as_ref()?.get(now, key, shared)?;
        let mut total = Total::default();
        if !has_one_place(&unit, view, &self.rules) {
            total = self.total(now, me, shared);
        }
        let choosing = self.choosing(request, view, &total, me);
        let known = self.memory.as_ref()?.change(now, key, shared, |unit| {
            match unit {
                Some(_) => choosing.change(unit, |_| None),
                // Forgotten in this very moment.
                None => Change::Keep(None),
            }
        });
        known.ok().flatten().map(|choice| choice.pick(view, true))
    }

    fn choosing<'a>(
        &'a self,
        request: &'a Request,
        view: &'a View,
        total: &'a Total,
        me: Option<WorkerId>,
    ) -> Choosing<'a> {
        Choosing {
            rules: &self.rules,
            view,
            total,
            expected: self.expected,
            slot: me.map_or(0, |me| me.slot),
            request,
        }
    }

    /// Writes down what was picked by the list that comes along, and the load that it brings.
    fn told(&mut self, mut pick: Pick, view: &View) -> (Pick, Rc<Listed>) {
        let name = pick.decision.replica().and_then(|index| view.name(index));
        let Some(name) = name.map(str::to_owned) else {
            return (pick, self.list(view));
        };
        pick.replica = Some(replica_hash(&name));
        let mut listed = self.list(view);
        let index = match listed.names.iter().position(|known| *known == name) {
            Some(index) => index,
            None => {
                let names = vec![name];
                listed = Rc::new(Listed { names, all: false });
                0
            }
        };
        let to = u32::try_from(index).unwrap_or(u32::MAX);
        if let Decision::Assigned { replica, .. } | Decision::Remembered { replica, .. } =
            &mut pick.decision
        {
            *replica = to;
        }
        (pick, listed)
    }
}

/// Whether a member of the unit has just one replica to go to, whatever the load.
fn has_one_place(unit: &Unit, view: &View, rules: &Rules) -> bool {
    let mut usable = unit.holders.iter().filter(|holder| {
        rules
            .max_per_replica
            .is_none_or(|k| holder.weight < k.get())
            && view.has(holder.replica)
    });
    usable.next().is_some() && usable.next().is_none()
}

/// A replica for one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Its index in the pool.
    index: u32,
    charge: u64,
    /// Members of the unit, this one included.
    members: u32,
    /// Its place among the samples of its unit.
    place: u64,
    reserves: i64,
}

impl Choice {
    /// `follows`: something that it goes by was remembered.
    fn pick(self, view: &View, follows: bool) -> Pick {
        let (replica, group) = (self.index, self.members);
        Pick {
            decision: if follows || group > 1 {
                Decision::Remembered { replica, group }
            } else {
                Decision::Assigned { replica, group }
            },
            charge: self.charge,
            replica: view.hash(replica),
            begins: group == 1,
            place: self.place,
            reserves: self.reserves,
        }
    }
}

/// All that a choice for one request goes by.
#[derive(Clone, Copy)]
struct Choosing<'a> {
    rules: &'a Rules,
    view: &'a View,
    total: &'a Total,
    /// The samples that a unit is expected to have in the end.
    expected: u64,
    /// This worker's slot.
    slot: Slot,
    request: &'a Request,
}

impl Choosing<'_> {
    /// One more member for a unit that there is, or else its first one where `first` finds a
    /// replica.
    fn change(
        self,
        unit: Option<&Unit>,
        first: impl FnOnce(Self) -> Option<(u32, u64)>,
    ) -> Change<Unit, Option<Choice>> {
        let chosen = match unit {
            Some(unit) => self.next(unit),
            None => first(self),
        };
        let Some((index, charge)) = chosen else {
            return Change::Keep(None);
        };
        let Some(replica) = self.view.hash(index) else {
            return Change::Keep(None);
        };
        let mut unit = unit.cloned().unwrap_or_default();
        let weight = self.request.weight.max(1);
        let all: u64 = unit
            .holders
            .iter()
            .map(|holder| u64::from(holder.weight))
            .sum();
        let there = u64::from(unit.on(replica));
        let elsewhere = all.saturating_sub(there);
        unit.add(replica, 1, weight);
        let choice = Choice {
            index,
            charge,
            members: unit.members,
            place: all.saturating_add(weight.into()),
            reserves: reserves(self.rules, self.expected, there, elsewhere, weight.into()),
        };
        Change::Write(unit, Some(choice))
    }

    /// **Rules 6 and 7** for a later member: where the unit is already and has room, else the
    /// least loaded with room, else the least loaded of all.
    fn next(self, unit: &Unit) -> Option<(u32, u64)> {
        let held = |hash: ReplicaHash| unit.on(hash);
        let room = |weight: u32| self.rules.max_per_replica.is_none_or(|k| weight < k.get());
        let chosen = self
            .least(|hash| held(hash) > 0 && room(held(hash)))
            .or_else(|| self.least(|hash| room(held(hash))))
            .or_else(|| self.least(|_| true))?;
        let charge = match self.view.hash(chosen).map(held) {
            Some(0) | None => first_charge(self.rules, self.request, 0),
            Some(_) => later_charge(self.rules, self.request),
        };
        Some((chosen, charge))
    }

    /// **Rule 6** for the first member: where its first blocks are held, below the fair share, else
    /// the least loaded.
    fn first(self, prefix_holders: &HashSet<ReplicaHash>) -> Option<(u32, u64)> {
        let held_blocks = u64::from(self.rules.min_colocate_blocks);
        let holds = |hash| prefix_holders.contains(&hash);
        let chosen = self
            .by_prefix(prefix_holders)
            .or_else(|| self.least(|_| true))?;
        let matched = match self.view.hash(chosen) {
            Some(hash) if holds(hash) => held_blocks,
            _ => 0,
        };
        Some((chosen, first_charge(self.rules, self.request, matched)))
    }

    /// The least loaded of these that is below the fair share: by what is in flight; and, since
    /// that may be next to nothing where answers are quick, also by the loads that placement
    /// starts from. Where there is less than a unit for each replica that would part the first two:
    /// so there one more may go to each.
    fn by_prefix(self, holders: &HashSet<ReplicaHash>) -> Option<u32> {
        if holders.is_empty() {
            return None;
        }
        let in_flight = |hash| self.total.of(hash).charge;
        let load = |hash| self.total.load(hash);
        let (few_in_flight, fair_share) = (self.fair_share(in_flight), self.fair_share(load));
        let low_load = if fair_share <= self.expected {
            fair_share.saturating_add(self.expected)
        } else {
            fair_share
        };
        self.least(|hash| {
            holders.contains(&hash) && in_flight(hash) < few_in_flight && load(hash) < low_load
        })
    }

    /// **Rule 4**, over these loads and this request.
    fn fair_share(self, load: impl Fn(ReplicaHash) -> u64) -> u64 {
        let candidates = self.view.replicas();
        let loads = candidates.map(|(_, replica)| load(replica_hash(&replica.name)));
        let this = first_charge(self.rules, self.request, 0);
        // A junk sheet may say anything.
        let all = loads.fold(this, u64::saturating_add);
        all.div_ceil((self.view.len() as u64).max(1))
    }

    /// **Rule 9.** The least loaded of these replicas. Of equal ones each worker takes another one
    /// first, in the order of their names: what workers begin at the same moment they do not see
    /// of each other, and the lowest name would get all of it.
    fn least(self, among: impl Fn(ReplicaHash) -> bool) -> Option<u32> {
        let mut equal: Vec<(&str, u32)> = Vec::new();
        let mut least = (u64::MAX, u32::MAX);
        for (index, replica) in self.view.replicas() {
            let hash = replica_hash(&replica.name);
            if !among(hash) {
                continue;
            }
            let running = replica.running.saturating_add(self.total.of(hash).requests);
            let load = (self.total.load(hash), running);
            if load < least {
                equal.clear();
                least = load;
            }
            if load == least {
                equal.push((&replica.name, index));
            }
        }
        equal.sort_unstable();
        let place = usize::from(self.slot).checked_rem(equal.len())?;
        equal.get(place).map(|(_, index)| *index)
    }

    /// The replicas that hold the first blocks of a unit that begins, and whether any did before.
    /// Where nobody does, the replica that this request is going to claims them, so that others
    /// which begin alike and come at the same time go there too.
    fn claim_prefix(
        self,
        memory: &Memory,
        now: Moment,
        shared: &mut dyn Shared,
    ) -> Result<(HashSet<ReplicaHash>, bool), Refused> {
        let Some(blocks) = prefix(self.rules, self.request) else {
            return Ok((HashSet::new(), false));
        };
        let key = Key::prefix(&self.request.pool, blocks);
        memory.change(now, key, shared, |known| {
            let mut known = known.cloned().unwrap_or_default();
            let before: HashSet<_> = known.holders.iter().map(|holder| holder.replica).collect();
            let chosen = self.first(&before);
            let Some(chosen) = chosen.and_then(|(index, _)| self.view.hash(index)) else {
                return Change::Keep((HashSet::new(), false));
            };
            known.add(chosen, 1, 1);
            let holders = known.holders.iter().map(|holder| holder.replica).collect();
            Change::Write(known, (holders, !before.is_empty()))
        })
    }
}

/// The blocks by which different units are drawn together, if any are.
pub(super) fn prefix<'a>(rules: &Rules, request: &'a Request) -> Option<&'a [u64]> {
    match rules.min_colocate_blocks as usize {
        0 => None,
        blocks => request.blocks.get(..blocks),
    }
}

impl Unit {
    /// The samples on this replica.
    fn on(&self, replica: ReplicaHash) -> u32 {
        let holder = self.holders.iter().find(|holder| holder.replica == replica);
        holder.map_or(0, |holder| holder.weight)
    }

    /// So many more members of this weight together, on this replica.
    pub(super) fn add(&mut self, replica: ReplicaHash, members: u32, weight: u32) {
        self.members = self.members.saturating_add(members);
        match self
            .holders
            .iter_mut()
            .find(|holder| holder.replica == replica)
        {
            Some(holder) => holder.weight = holder.weight.saturating_add(weight),
            None => self.holders.push(Holder { replica, weight }),
        }
    }
}
