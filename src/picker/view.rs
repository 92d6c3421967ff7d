//! The replicas that a request may go to.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::load::{ReplicaHash, replica_hash};
use crate::replicas::{Pool, Replica};

/// Above this many candidates only those that match stand in the headers, and one `"*"` for the
/// rest: a header for each of a thousand replicas would be larger than many a prompt.
pub const MOST_LISTED: usize = 32;

/// Candidates, as the headers list them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Listed {
    /// Names, as `ip:port`.
    pub names: Vec<String>,
    /// Whether these are all candidates. If not, these are the ones that some request matches.
    pub all: bool,
}

impl Listed {
    /// Whether there is no candidate at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all && self.names.is_empty()
    }
}

/// The candidates of a request, in its pool.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(super) pool: Rc<Pool>,
    /// Indexes into the pool, ascending; none = all of it.
    pub(super) only: Option<Vec<u32>>,
}

impl View {
    /// All of the pool, or what the subset, which is sorted, leaves of it.
    pub(super) fn new(pool: Rc<Pool>, subset: Option<&[String]>) -> Self {
        let only = subset.map(|subset| {
            let known = (0u32..).zip(&pool.replicas);
            let stays = known.filter(|(_, replica)| subset.binary_search(&replica.name).is_ok());
            stays.map(|(index, _)| index).collect()
        });
        Self { pool, only }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.pool, &other.pool) && self.only == other.only
    }

    /// The candidates and their indexes in the pool.
    pub(super) fn replicas(&self) -> impl Iterator<Item = (u32, &Replica)> {
        let some = self.only.iter().flatten().copied();
        let all = match self.only {
            Some(_) => 0..0,
            None => 0..u32::try_from(self.pool.replicas.len()).unwrap_or(u32::MAX),
        };
        some.chain(all)
            .filter_map(|index| Some((index, self.pool.replicas.get(index as usize)?)))
    }

    pub(super) fn len(&self) -> usize {
        match &self.only {
            Some(only) => only.len(),
            None => self.pool.replicas.len(),
        }
    }

    pub(super) fn name(&self, index: u32) -> Option<&str> {
        let replica = self.pool.replicas.get(index as usize)?;
        Some(&replica.name)
    }

    pub(super) fn hash(&self, index: u32) -> Option<ReplicaHash> {
        self.name(index).map(replica_hash)
    }

    /// Whether a replica is one of the candidates.
    pub(super) fn has(&self, hash: ReplicaHash) -> bool {
        self.replicas()
            .any(|(_, replica)| replica_hash(&replica.name) == hash)
    }

    /// All of them where they may be listed; nobody matches yet where they are too many.
    pub(super) fn listed(&self) -> Listed {
        let all = self.len() <= MOST_LISTED;
        let names = self.replicas().filter(|_| all);
        Listed {
            names: names.map(|(_, replica)| replica.name.clone()).collect(),
            all,
        }
    }
}
