//! The members of a window in one pool, and the lists that their replicas are indexes into.

use std::collections::HashMap;
use std::rc::Rc;

use super::view::{Listed, View};
use super::{Decision, Pick, Request};
use crate::load::replica_hash;
use crate::memory::Key;
use crate::replicas::Pool;

/// A member of a window, in its pool's batch.
pub(super) struct Member<'a> {
    /// Its place in the window.
    pub(super) place: usize,
    pub(super) request: &'a Request,
    /// The key of its unit; none where nothing is remembered.
    pub(super) unit: Option<Key>,
    /// The number of its candidates among those of its pool.
    pub(super) list: u32,
}

/// The different sets of candidates of one pool, and their lists.
pub(super) struct Lists<'a> {
    pub(super) pool: Rc<Pool>,
    /// By the numbers of the sets.
    pub(super) views: Vec<Rc<View>>,
    known: HashMap<Option<&'a [String]>, u32>,
    /// For each set: where each replica of the pool stands in its list, if it does.
    index: Vec<HashMap<u32, u32>>,
    /// The lists of all pools; those of this one begin at `first`.
    lists: &'a mut Vec<Listed>,
    first: usize,
}

impl<'a> Lists<'a> {
    pub(super) fn new(pool: Rc<Pool>, lists: &'a mut Vec<Listed>) -> Self {
        Self {
            pool,
            views: Vec::new(),
            known: HashMap::new(),
            index: Vec::new(),
            first: lists.len(),
            lists,
        }
    }

    /// The number of these candidates.
    pub(super) fn of(&mut self, subset: Option<&'a [String]>) -> u32 {
        if let Some(number) = self.known.get(&subset) {
            return *number;
        }
        let view = View::new(Rc::clone(&self.pool), subset);
        let number = u32::try_from(self.views.len()).unwrap_or(u32::MAX);
        let listed = view.listed();
        let indexes = view.replicas().map(|(index, _)| index);
        let listed_ones = indexes.zip(0..).take(listed.names.len());
        self.index.push(listed_ones.collect());
        self.lists.push(listed);
        self.views.push(Rc::new(view));
        self.known.insert(subset, number);
        number
    }

    /// The number among the lists of all pools.
    pub(super) fn number(&self, number: u32) -> u32 {
        u32::try_from(self.first)
            .unwrap_or(u32::MAX)
            .saturating_add(number)
    }

    /// Writes down that a member goes to this replica of the pool.
    pub(super) fn pick(
        &mut self,
        member: &Member<'_>,
        replica: u32,
        group: u32,
        charge: u64,
        picks: &mut [(Pick, u32)],
    ) {
        let Some(name) = self.pool.replicas.get(replica as usize).map(|r| &r.name) else {
            return;
        };
        let number = member.list as usize;
        let (Some(index), Some(listed)) = (
            self.index.get_mut(number),
            self.lists.get_mut(self.first + number),
        ) else {
            return;
        };
        let index = *index.entry(replica).or_insert_with(|| {
            listed.names.push(name.clone());
            u32::try_from(listed.names.len() - 1).unwrap_or(u32::MAX)
        });
        let pick = Pick {
            decision: Decision::Assigned {
                replica: index,
                group,
            },
            charge,
            replica: Some(replica_hash(name)),
            begins: false,
            place: 1,
            reserves: 0,
        };
        let number = self.number(member.list);
        if let Some(slot) = picks.get_mut(member.place) {
            *slot = (pick, number);
        }
    }
}
