//! Whether all groups of a window are there, by what their clients say of their sizes.

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::Request;
use crate::memory::Key;

/// The members of a window by their units.
#[derive(Debug, Default)]
pub(super) struct Groups {
    of: HashMap<Key, Group>,
    /// Groups that may get more members.
    incomplete: usize,
    /// Whether any member said how many there will be: without one, nothing is counted.
    is_told: bool,
    /// Members that came before the first that said so.
    untold: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    members: u32,
    /// The most that any member said; none = unknown.
    size: Option<NonZeroU32>,
}

impl Group {
    fn is_complete(self) -> bool {
        self.size.is_some_and(|size| self.members >= size.get())
    }
}

impl Groups {
    pub(super) fn joined(&mut self, request: &Request) {
        self.is_told |= request.group_size.is_some();
        if self.is_told {
            self.change(request, |group| {
                group.members = group.members.saturating_add(1);
                group.size = group.size.max(request.group_size);
            });
        } else {
            self.untold += 1;
        }
    }

    pub(super) fn left(&mut self, request: &Request) {
        if self.is_told {
            self.change(request, |group| {
                group.members = group.members.saturating_sub(1);
            });
        }
    }

    /// Whether no group may get more members. Never, where somebody did not say.
    pub(super) fn are_complete(&self) -> bool {
        self.is_told && self.untold == 0 && self.incomplete == 0
    }

    fn change(&mut self, request: &Request, change: impl FnOnce(&mut Group)) {
        let group = self.of.entry(request.unit()).or_insert_with(|| {
            self.incomplete += 1;
            Group::default()
        });
        let before = group.is_complete();
        change(group);
        match (before, group.is_complete()) {
            (false, true) => self.incomplete = self.incomplete.saturating_sub(1),
            (true, false) => self.incomplete += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prompt: u64, size: u32) -> Request {
        Request {
            blocks: vec![prompt],
            group_size: NonZeroU32::new(size),
            ..Request::default()
        }
    }

    #[test]
    fn groups_are_complete_when_each_has_the_members_that_it_was_said_to_have() {
        let mut groups = Groups::default();
        assert!(!groups.are_complete());
        groups.joined(&request(1, 2));
        groups.joined(&request(2, 1));
        assert!(!groups.are_complete());
        groups.joined(&request(1, 0));
        assert!(groups.are_complete());
        groups.left(&request(1, 2));
        assert!(!groups.are_complete());
    }

    #[test]
    fn nobody_is_waited_for_less_because_of_others() {
        let mut groups = Groups::default();
        groups.joined(&request(1, 1));
        groups.joined(&request(2, 0));
        assert!(!groups.are_complete());
        let mut groups = Groups::default();
        groups.joined(&request(2, 0));
        groups.joined(&request(1, 1));
        assert!(!groups.are_complete());
    }
}
