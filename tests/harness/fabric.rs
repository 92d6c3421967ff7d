//! What crosses the VMs: shared data with compare-and-swap, and shared queues.

use std::collections::{BTreeMap, VecDeque};

use super::status::Status;

/// Whom a queue's messages are announced to: a root context on a worker thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) thread: usize,
    pub(crate) vm: usize,
    pub(crate) root: u32,
}

/// A shared queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) listener: Listener,
    pub(crate) messages: VecDeque<Vec<u8>>,
}

/// Shared data and shared queues of one `vm_id`.
#[derive(Debug, Default)]
pub(crate) struct Fabric {
    pub(crate) data: BTreeMap<String, (Vec<u8>, u32)>,
    /// A queue's token is its index and one.
    pub(crate) queues: Vec<Queue>,
    last_cas: u32,
}

impl Fabric {
    pub(crate) fn get(&self, key: &str) -> Result<(Vec<u8>, u32), Status> {
        self.data.get(key).cloned().ok_or(Status::NotFound)
    }

    /// A `cas` of 0 writes whatever is there; one that does not fit is refused, unless there is
    /// nothing at all.
    pub(crate) fn set(&mut self, key: &str, value: Vec<u8>, cas: u32) -> Result<(), Status> {
        if let Some((_, current)) = self.data.get(key)
            && cas != 0
            && cas != *current
        {
            return Err(Status::CasMismatch);
        }
        self.last_cas += 1;
        self.data.insert(key.to_owned(), (value, self.last_cas));
        Ok(())
    }

    /// A queue that is there already keeps its token and its messages; it changes its listener.
    pub(crate) fn register(&mut self, name: &str, listener: Listener) -> u32 {
        if let Ok(token) = self.resolve(name) {
            if let Ok(queue) = self.queue(token) {
                queue.listener = listener;
            }
            return token;
        }
        self.queues.push(Queue {
            name: name.to_owned(),
            listener,
            messages: VecDeque::new(),
        });
        u32::try_from(self.queues.len()).unwrap()
    }

    pub(crate) fn resolve(&self, name: &str) -> Result<u32, Status> {
        let index = self.queues.iter().position(|queue| queue.name == name);
        let index = index.ok_or(Status::NotFound)?;
        Ok(u32::try_from(index + 1).unwrap())
    }

    pub(crate) fn enqueue(&mut self, token: u32, message: Vec<u8>) -> Result<Listener, Status> {
        let queue = self.queue(token)?;
        queue.messages.push_back(message);
        Ok(queue.listener)
    }

    pub(crate) fn dequeue(&mut self, token: u32) -> Result<Vec<u8>, Status> {
        let queue = self.queue(token)?;
        queue.messages.pop_front().ok_or(Status::Empty)
    }

    fn queue(&mut self, token: u32) -> Result<&mut Queue, Status> {
        let index = (token as usize).checked_sub(1).ok_or(Status::NotFound)?;
        self.queues.get_mut(index).ok_or(Status::NotFound)
    }
}
