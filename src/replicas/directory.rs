//! Which replicas a worker knows, without asking anybody but the shared cells.

use std::collections::HashMap;
use std::rc::Rc;

use super::poll::Record;
use super::{Pool, Pools, Replica, Source};
use crate::workers::{Cell, Shared};

/// The pools, as a worker last found them.
#[derive(Debug)]
pub struct Directory {
    /// The replicas of the configuration, where it lists them.
    listed: Option<Rc<Pool>>,
    /// The list that `pools` is; none before the first.
    version: Option<u64>,
    pools: HashMap<String, Rc<Pool>>,
    nobody: Rc<Pool>,
}

impl Directory {
    /// A directory that has not looked yet.
    #[must_use]
    pub fn new(source: &Source) -> Self {
        let listed = match source {
            Source::Static(names) => Some(Rc::new(Pool {
                replicas: names
                    .iter()
                    .map(|name| Replica {
                        name: name.clone(),
                        running: 0,
                    })
                    .collect(),
            })),
            Source::Admin(_) => None,
        };
        Self {
            listed,
            version: None,
            pools: HashMap::new(),
            nobody: Rc::default(),
        }
    }

    /// The replicas of a pool that can be used now, by the name that
    /// [`Source::pool_name`] gives it. A list of the configuration is what it is. What the admin
    /// told last is looked up in the shared cells: the large one is only read where it changed.
    /// A pool that nobody knows is empty.
    pub fn pool(&mut self, cluster: &str, shared: &mut dyn Shared) -> Rc<Pool> {
        if let Some(listed) = &self.listed {
            return Rc::clone(listed);
        }
        self.look(shared);
        let pool = self.pools.get(cluster).unwrap_or(&self.nobody);
        Rc::clone(pool)
    }

    fn look(&mut self, shared: &mut dyn Shared) {
        let version = Record::read(shared).version();
        if version.is_none() || version == self.version {
            return;
        }
        // What cannot be read was not written by this version: it counts as never written.
        let value = shared.read(Cell::Replicas).value.unwrap_or_default();
        let pools: Pools = postcard::from_bytes(&value).unwrap_or_default();
        let pools = pools.0.into_iter();
        self.pools = pools.map(|(name, pool)| (name, Rc::new(pool))).collect();
        self.version = version;
    }
}
