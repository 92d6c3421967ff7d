//! `explain place`: batches in, placements out.

use std::fmt;
use std::io::{BufRead, BufWriter, Write};
use std::num::NonZeroU32;

use burst_prefix_cache::placement::{
    BalanceBy, Explanation, Replica, Request, Rules, Why, explain,
};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// Reads a batch a line and writes each back with its `assigned`, and its `why` if asked.
pub(crate) fn run(input: impl BufRead, output: impl Write, why: bool) -> Result<(), String> {
    let mut output = BufWriter::new(output);
    let result = input.lines().zip(1u64..).try_for_each(|(line, number)| {
        let answer = line
            .map_err(|error| error.to_string())
            .and_then(|line| match line.trim() {
                "" => Ok(String::new()),
                line => answer(line, why),
            })
            .map_err(|error| format!("line {number}: {error}"))?;
        if answer.is_empty() {
            return Ok(());
        }
        writeln!(output, "{answer}").map_err(|error| format!("writing: {error}"))
    });
    // What was placed before an error is still written.
    let flushed = output.flush().map_err(|error| format!("writing: {error}"));
    result.and(flushed)
}

fn answer(line: &str, why: bool) -> Result<String, String> {
    let mut object: Object = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let batch = Batch::read(&object)?;
    let replicas: Vec<Replica<'_>> = batch
        .replicas
        .iter()
        .map(|replica| Replica {
            running: replica.running,
            ..Replica::new(&replica.name)
        })
        .collect();
    let requests: Vec<Request<'_>> = batch
        .requests
        .iter()
        .map(|blocks| Request::new(blocks))
        .collect();
    let explanation = explain(&batch.rules, &replicas, &requests);

    let name = |replica: usize| batch.replicas.get(replica).map(|replica| &*replica.name);
    let assigned: Vec<Option<&str>> = (0..requests.len())
        .map(|i| explanation.placement.assigned(i).and_then(name))
        .collect();
    object.set("assigned", &assigned)?;
    if why {
        object.set("why", &units(&explanation, &name))?;
    }
    serde_json::to_string(&object).map_err(|e| e.to_string())
}

/// A batch as placement takes it.
struct Batch {
    rules: Rules,
    replicas: Vec<NamedReplica>,
    requests: Vec<Vec<u64>>,
}

#[derive(Deserialize)]
struct NamedReplica {
    name: String,
    running: i64,
}

impl Batch {
    fn read(object: &Object) -> Result<Self, String> {
        let by_tokens = object.get("byTokens")?;
        Ok(Self {
            rules: Rules {
                max_per_replica: max_per_replica(object.get("k")?)?,
                min_colocate_blocks: object.get("minColocateBlocks")?,
                balance_by: if by_tokens {
                    BalanceBy::Tokens
                } else {
                    BalanceBy::Requests
                },
            },
            replicas: object.get("replicas")?,
            requests: object
                .get::<Vec<Vec<Vec<String>>>>("requests")?
                .iter()
                .zip(0u64..)
                .map(|(prompts, i)| {
                    let blocks = prompts.iter().flatten();
                    blocks
                        .map(|block| {
                            block.parse().map_err(|_| {
                                format!(
                                    "requests: request {i} has the block {block:?}; a block is a \
                                     decimal number from 0 to {} in a string",
                                    u64::MAX
                                )
                            })
                        })
                        .collect()
                })
                .collect::<Result<_, String>>()?,
        })
    }
}

fn max_per_replica(k: i64) -> Result<Option<NonZeroU32>, String> {
    if k == -1 {
        return Ok(None);
    }
    u32::try_from(k)
        .ok()
        .and_then(NonZeroU32::new)
        .map(Some)
        .ok_or_else(|| format!("k is {k}; it must be -1 or from 1 to {}", u32::MAX))
}

#[derive(Serialize)]
struct Unit<'a> {
    members: &'a [usize],
    blocks: usize,
    runs: Vec<Run<'a>>,
}

#[derive(Serialize)]
struct Run<'a> {
    replica: Option<&'a str>,
    members: u32,
    rule: &'static str,
}

fn units<'a>(
    explanation: &'a Explanation,
    name: &impl Fn(usize) -> Option<&'a str>,
) -> Vec<Unit<'a>> {
    explanation
        .units
        .iter()
        .map(|unit| Unit {
            members: &unit.members,
            blocks: unit.blocks,
            runs: unit
                .runs
                .iter()
                .map(|run| Run {
                    replica: name(run.replica),
                    members: run.members,
                    rule: match run.why {
                        Why::Prefix => "prefix",
                        Why::FairShare => "fair-share",
                        Why::LeastLoaded => "least-loaded",
                        Why::Overflow => "overflow",
                    },
                })
                .collect(),
        })
        .collect()
}

/// A JSON object whose fields keep their order and, unless set, their text.
struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T, String> {
        let (_, value) = self
            .0
            .iter()
            .rfind(|(name, _)| name == key)
            .ok_or_else(|| format!("the field {key} is missing"))?;
        serde_json::from_str(value.get()).map_err(|error| {
            // The error's own position is within the field.
            let error = error.to_string();
            let what = error.split(" at line ").next().unwrap_or(&error);
            format!("{key}: {what}")
        })
    }

    fn set(&mut self, key: &str, value: &impl Serialize) -> Result<(), String> {
        let value = to_raw_value(value).map_err(|error| error.to_string())?;
        match self.0.iter_mut().rfind(|(name, _)| name == key) {
            Some(field) => field.1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with k, minColocateBlocks, byTokens, replicas, requests")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(input: &str, why: bool) -> Result<String, String> {
        let mut output = Vec::new();
        run(input.as_bytes(), &mut output, why)?;
        Ok(String::from_utf8(output).unwrap())
    }

    const BATCH: &str = r#"{"z":1.50,"assigned":[],"k":1,"minColocateBlocks":0,"byTokens":false,"replicas":[{"name":"b","running":0},{"name":"a","running":0}],"requests":[[["1"],["2"]],[["1","2"]],[]]}"#;

    #[test]
    fn assigned_is_replaced_and_the_rest_is_left_alone() {
        let expected = BATCH.replace("[],\"k\"", r#"["a","b",null],"k""#);
        assert_eq!(explained(BATCH, false), Ok(format!("{expected}\n")));
    }

    #[test]
    fn why_tells_units_runs_and_rules() {
        let output = explained(BATCH, true).unwrap();
        let why = r#""why":[{"members":[0,1],"blocks":2,"runs":[{"replica":"a","members":1,"rule":"least-loaded"},{"replica":"b","members":1,"rule":"least-loaded"}]}]}"#;
        assert!(output.trim_end().ends_with(why), "{output}");
    }

    #[test]
    fn an_error_names_the_line_and_what_is_wrong() {
        let cases = [
            ("{}", "line 2: the field byTokens is missing"),
            ("7", "line 2: invalid type: integer `7`, expected an object"),
            (
                &BATCH.replace("\"k\":1", "\"k\":0"),
                "line 2: k is 0; it must be -1 or from 1 to 4294967295",
            ),
            (
                &BATCH.replace("\"2\"", "\"-2\""),
                "line 2: requests: request 0 has the block \"-2\"",
            ),
            (
                &BATCH.replace("false", "0"),
                "line 2: byTokens: invalid type: integer `0`, expected a boolean",
            ),
        ];
        for (line, message) in cases {
            let error = explained(&format!("{BATCH}\n{line}\n"), false).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
