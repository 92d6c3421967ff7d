//! Duplicate keys in values that are taken whole, such as tools.
//!
//! Python keeps the last value of a key, in the place of the first. Bodies with duplicates are
//! hardly ever seen, so the check is quick, and only a value that has some is copied out.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use super::Unreadable;
use super::json::{Event, Raw, Text};

/// Tells whether any object in a value has a key twice, from its events.
#[derive(Default)]
pub(super) struct Keys {
    /// The keys of all open objects.
    open: Vec<u64>,
    /// Where in that list those of each container begin.
    starts: Vec<usize>,
}

impl Keys {
    /// Takes the next event. False if it ends an object that has a key twice.
    pub(super) fn differ(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Open(_) => self.starts.push(self.open.len()),
            Event::Key(key) => self.open.push(identity(*key)),
            Event::Close(_) => {
                let start = self.starts.pop().unwrap_or_default();
                if let Some(own) = self.open.get_mut(start..) {
                    own.sort_unstable();
                    if own.array_windows().any(|[a, b]| a == b) {
                        return false;
                    }
                }
                self.open.truncate(start);
            }
            _ => {}
        }
        true
    }
}

/// Whether any object in this value has a key twice.
pub(super) fn has_duplicates(value: Raw<'_>) -> Result<bool, Unreadable> {
    let mut keys = Keys::default();
    let mut walk = value.walk();
    while let Some(event) = walk.next()? {
        if !keys.differ(&event) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Emits the events of a value, of duplicates only the last one, in the place of the first.
pub(super) fn resolve<'a>(
    value: Raw<'a>,
    mut emit: impl FnMut(Event<'a>),
) -> Result<(), Unreadable> {
    let plan = Plan::new(value)?;
    // The values that stand in for others: where each ends, and where to go on behind it.
    let mut detours: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    loop {
        while let Some((_, resume)) = detours.pop_if(|(end, _)| *end == at) {
            at = resume;
        }
        let Some(event) = plan.events.get(at) else {
            return Ok(());
        };
        let end_of_value = |key: usize| plan.ends.get(key + 1).copied().unwrap_or(usize::MAX);
        if plan.repeated.contains(&at) {
            at = end_of_value(at);
            continue;
        }
        emit(*event);
        match plan.winners.get(&at) {
            Some(winner) => {
                detours.push((end_of_value(*winner), end_of_value(at)));
                at = winner + 1;
            }
            None => at += 1,
        }
    }
}

/// A value's events, and which of them are to be left out. Keys are named by their place.
#[derive(Default)]
struct Plan<'a> {
    events: Vec<Event<'a>>,
    /// For the first event of each value, the place behind its last.
    ends: Vec<usize>,
    /// The first of equal keys, to the last of them.
    winners: HashMap<usize, usize>,
    /// All of equal keys but the first.
    repeated: HashSet<usize>,
}

impl<'a> Plan<'a> {
    fn new(value: Raw<'a>) -> Result<Self, Unreadable> {
        let mut plan = Self::default();
        let mut walk = value.walk();
        let mut open: Vec<usize> = Vec::new();
        let mut first: HashMap<(Option<usize>, u64), usize> = HashMap::new();
        while let Some(event) = walk.next()? {
            let place = plan.events.len();
            plan.events.push(event);
            plan.ends.push(place + 1);
            match event {
                Event::Open(_) => open.push(place),
                Event::Close(_) => {
                    let end = open.pop().and_then(|start| plan.ends.get_mut(start));
                    if let Some(end) = end {
                        *end = place + 1;
                    }
                }
                Event::Key(key) => {
                    let earlier = *first
                        .entry((open.last().copied(), identity(key)))
                        .or_insert(place);
                    if earlier != place {
                        plan.winners.insert(earlier, place);
                        plan.repeated.insert(place);
                    }
                }
                _ => {}
            }
        }
        Ok(plan)
    }
}

fn identity(key: Text<'_>) -> u64 {
    xxh3_64(&key.decoded())
}

#[cfg(test)]
mod tests {
    use super::super::json::{self, Shape, Value};
    use super::*;

    /// The value, and its events without duplicates, written plainly.
    fn resolved(body: &str) -> (bool, String) {
        let body = format!("{{\"x\":{body}}}");
        let (_, value) = json::document(body.as_bytes(), &[])
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let (Value::Array(raw) | Value::Object(raw)) = value else {
            panic!("a container")
        };
        let mut out = String::new();
        resolve(raw, |event| match event {
            Event::Open(Shape::Object) => out.push('{'),
            Event::Open(Shape::Array) => out.push('['),
            Event::Close(Shape::Object) => out.push('}'),
            Event::Close(Shape::Array) => out.push(']'),
            Event::Key(key) => out.push_str(&String::from_utf8_lossy(&key.decoded())),
            Event::Number(literal) => out.push_str(&String::from_utf8_lossy(literal)),
            other => panic!("{other:?}"),
        })
        .unwrap();
        (has_duplicates(raw).unwrap(), out)
    }

    #[test]
    fn the_last_value_stands_in_the_place_of_the_first() {
        for (body, duplicates, expected) in [
            (r#"{"a":1,"b":2}"#, false, "{a1b2}"),
            (r#"[{"a":1},{"a":2}]"#, false, "[{a1}{a2}]"),
            (r#"{"a":{"a":{"a":1}}}"#, false, "{a{a{a1}}}"),
            (r#"{"a":1,"a":2}"#, true, "{a2}"),
            (r#"{"a":1,"\u0061":2}"#, true, "{a2}"),
            (r#"{"a":1,"b":2,"a":3}"#, true, "{a3b2}"),
            (r#"{"a":1,"b":2,"a":3,"b":4,"a":[5]}"#, true, "{a[5]b4}"),
            (
                r#"{"a":{"b":1},"c":0,"a":{"d":2,"e":3,"d":[4]},"f":6}"#,
                true,
                "{a{d[4]e3}c0f6}",
            ),
            (
                r#"[{"a":[{"a":1,"a":2}],"a":[{"b":1,"b":2}]},7]"#,
                true,
                "[{a[{b2}]}7]",
            ),
            (r#"{"a":{"a":1,"a":2},"a":{"a":3,"a":4}}"#, true, "{a{a4}}"),
        ] {
            assert_eq!(resolved(body), (duplicates, expected.to_owned()), "{body}");
        }
    }
}
