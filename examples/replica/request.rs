//! A request body, read as leniently as an engine does.

use std::num::NonZeroUsize;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::prompt::Prompt;

/// More than this is asked for by mistake.
const MAX_TOKENS: u64 = 131_072;
const MAX_SAMPLES: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Completions,
    Chat,
    Responses,
    Messages,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) api: Api,
    pub(crate) model: Option<String>,
    pub(crate) prompts: Vec<Prompt>,
    /// Sequences for each prompt, `n`.
    pub(crate) samples: usize,
    /// Each sequence generates exactly this many.
    pub(crate) max_tokens: usize,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
}

impl Request {
    /// Or what is wrong with the body, for a 400.
    pub(crate) fn read(api: Api, body: &[u8], block_tokens: NonZeroUsize) -> Result<Self, String> {
        let body: Value =
            serde_json::from_slice(body).map_err(|e| format!("the body is not JSON: {e}"))?;
        if !body.is_object() {
            return Err("the body must be a JSON object".to_owned());
        }
        let model = text_of(&body, "model");
        let prompts = {
            let seed = seed(&body);
            let read = PromptReader { seed, block_tokens };
            match api {
                Api::Completions => read.completion(&body)?,
                Api::Chat => vec![read.chat(&body)?],
                Api::Responses => vec![read.responses(&body)?],
                Api::Messages => vec![read.messages(&body)?],
            }
        };
        let given = |field| body.get(field).is_some_and(|value| !value.is_null());
        let max_tokens = match api {
            Api::Responses => "max_output_tokens",
            _ if given("max_completion_tokens") => "max_completion_tokens",
            _ => "max_tokens",
        };
        let samples = match api {
            Api::Completions | Api::Chat => count(&body, "n", 1, MAX_SAMPLES)?,
            Api::Responses | Api::Messages => 1,
        };
        Ok(Self {
            api,
            model,
            prompts,
            samples,
            max_tokens: count(&body, max_tokens, 16, MAX_TOKENS)?,
            stream: flag(body.get("stream")),
            include_usage: flag(body.pointer("/stream_options/include_usage")),
        })
    }
}

struct PromptReader {
    seed: u64,
    block_tokens: NonZeroUsize,
}

impl PromptReader {
    fn completion(&self, body: &Value) -> Result<Vec<Prompt>, String> {
        let prompt = match body.get("prompt") {
            None | Some(Value::Null) => return Err("`prompt` is missing".to_owned()),
            Some(prompt) => prompt,
        };
        match prompt {
            Value::String(text) => Ok(vec![self.text(text)]),
            Value::Array(items) if items.is_empty() => Err("`prompt` is empty".to_owned()),
            Value::Array(items) if items.iter().all(Value::is_number) => Ok(vec![self.ids(items)?]),
            Value::Array(items) => items.iter().map(|item| self.item(item)).collect(),
            _ => Err(PROMPT_FORMS.to_owned()),
        }
    }

    fn item(&self, item: &Value) -> Result<Prompt, String> {
        match item {
            Value::String(text) => Ok(self.text(text)),
            Value::Array(ids) => self.ids(ids),
            _ => Err(PROMPT_FORMS.to_owned()),
        }
    }

    fn chat(&self, body: &Value) -> Result<Prompt, String> {
        let mut text = String::new();
        push_tools(&mut text, body);
        for message in list(body, "messages")? {
            let role = message.get("role").and_then(Value::as_str);
            let role = role.ok_or("a message has no `role`")?;
            let mut content = content(message.get("content").unwrap_or(&Value::Null));
            if let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) {
                content.push_str(&calls.to_string());
            }
            push_message(&mut text, role, &content);
        }
        Ok(self.ending(text))
    }

    fn messages(&self, body: &Value) -> Result<Prompt, String> {
        let mut text = String::new();
        push_tools(&mut text, body);
        if let Some(system) = body.get("system").filter(|system| !system.is_null()) {
            push_message(&mut text, "system", &content(system));
        }
        for message in list(body, "messages")? {
            let role = message.get("role").and_then(Value::as_str);
            let role = role.ok_or("a message has no `role`")?;
            let content = content(message.get("content").unwrap_or(&Value::Null));
            push_message(&mut text, role, &content);
        }
        Ok(self.ending(text))
    }

    fn responses(&self, body: &Value) -> Result<Prompt, String> {
        let mut text = String::new();
        if let Some(instructions) = body.get("instructions").and_then(Value::as_str) {
            push_message(&mut text, "system", instructions);
        }
        push_tools(&mut text, body);
        match body.get("input") {
            Some(Value::String(input)) => push_message(&mut text, "user", input),
            _ => {
                for item in list(body, "input")? {
                    let role = item.get("role").or_else(|| item.get("type"));
                    let role = role.and_then(Value::as_str);
                    let content = content(item.get("content").unwrap_or(item));
                    push_message(&mut text, role.ok_or("an item has no `type`")?, &content);
                }
            }
        }
        Ok(self.ending(text))
    }

    fn ending(&self, mut text: String) -> Prompt {
        text.push_str("<|im_start|>assistant\n");
        self.text(&text)
    }

    fn text(&self, text: &str) -> Prompt {
        Prompt::from_text(text, self.seed, self.block_tokens)
    }

    fn ids(&self, ids: &[Value]) -> Result<Prompt, String> {
        let ids: Option<Vec<u32>> = ids
            .iter()
            .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
            .collect();
        match ids {
            Some(ids) if ids.is_empty() => Err("a prompt has no token ids".to_owned()),
            Some(ids) => Ok(Prompt::from_ids(&ids, self.seed, self.block_tokens)),
            None => Err("token ids must be whole numbers, 0 to 4294967295".to_owned()),
        }
    }
}

const PROMPT_FORMS: &str =
    "`prompt` must be a string, a list of strings, token ids, or a list of token id lists";

/// A list that must be there and not be empty.
fn list<'a>(body: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    match body.get(field) {
        Some(Value::Array(items)) if !items.is_empty() => Ok(items),
        Some(Value::Array(_)) => Err(format!("`{field}` is empty")),
        _ => Err(format!("`{field}` is missing, or no list")),
    }
}

fn push_tools(text: &mut String, body: &Value) {
    if let Some(tools) = body.get("tools").filter(|tools| !tools.is_null()) {
        push_message(text, "tools", &tools.to_string());
    }
}

fn push_message(text: &mut String, role: &str, content: &str) {
    for part in ["<|im_start|>", role, "\n", content, "<|im_end|>\n"] {
        text.push_str(part);
    }
}

/// Text as it is, a list of parts one after the other, and what is no text as its JSON.
fn content(content: &Value) -> String {
    let part = |part: &Value| match part.get("text").unwrap_or(part) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match content {
        Value::Null => String::new(),
        Value::Array(parts) => parts.iter().map(part).collect(),
        other => part(other),
    }
}

/// What keeps prompts apart that look alike: as in vLLM the adapter, here named by the model, and
/// the salt.
fn seed(body: &Value) -> u64 {
    let of = |field| text_of(body, field).unwrap_or_default();
    let model = xxh3_64_with_seed(of("model").as_bytes(), 0);
    xxh3_64_with_seed(of("cache_salt").as_bytes(), model)
}

fn text_of(body: &Value, field: &str) -> Option<String> {
    body.get(field).and_then(Value::as_str).map(str::to_owned)
}

fn flag(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool).unwrap_or(false)
}

fn count(body: &Value, field: &str, default: usize, most: u64) -> Result<usize, String> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value
            .as_u64()
            .filter(|n| (1..=most).contains(n))
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| format!("`{field}` must be 1 to {most}, not {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(api: Api, body: &str) -> Result<Request, String> {
        Request::read(api, body.as_bytes(), NonZeroUsize::new(4).unwrap())
    }

    #[test]
    fn every_form_of_a_completion_prompt_is_read() {
        for (body, tokens) in [
            (r#"{"prompt":"abcdefgh"}"#, vec![2]),
            (r#"{"prompt":["abcd","ab",""]}"#, vec![1, 1, 1]),
            (r#"{"prompt":[1,2,3]}"#, vec![3]),
            (r#"{"prompt":[[1,2],[3]]}"#, vec![2, 1]),
        ] {
            let request = read(Api::Completions, body).unwrap();
            let found: Vec<usize> = request.prompts.iter().map(|p| p.tokens).collect();
            assert_eq!(found, tokens, "{body}");
        }
    }

    #[test]
    fn text_parts_read_as_the_same_text_in_one_string() {
        let whole = r#"{"messages":[{"role":"user","content":"ab"}]}"#;
        let parts = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}"#;
        let prompts = |body| read(Api::Chat, body).unwrap().prompts;
        assert_eq!(prompts(whole), prompts(parts));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (api, body, told) in [
            (Api::Completions, "{", "not JSON"),
            (Api::Completions, "[]", "JSON object"),
            (Api::Completions, "{}", "`prompt` is missing"),
            (Api::Completions, r#"{"prompt":[]}"#, "`prompt` is empty"),
            (Api::Completions, r#"{"prompt":[[]]}"#, "no token ids"),
            (Api::Completions, r#"{"prompt":[-1]}"#, "whole numbers"),
            (Api::Completions, r#"{"prompt":"a","n":0}"#, "`n` must be 1"),
            (Api::Chat, "{}", "`messages` is missing"),
            (Api::Chat, r#"{"messages":[]}"#, "`messages` is empty"),
            (Api::Chat, r#"{"messages":[{}]}"#, "no `role`"),
            (Api::Messages, "{}", "`messages` is missing"),
            (Api::Messages, r#"{"messages":[{}]}"#, "no `role`"),
            (Api::Responses, "{}", "`input` is missing"),
            (Api::Responses, r#"{"input":[]}"#, "`input` is empty"),
            (Api::Responses, r#"{"input":[{}]}"#, "no `type`"),
        ] {
            let error = read(api, body).unwrap_err();
            assert!(error.contains(told), "{body}: {error}");
        }
    }

    #[test]
    fn a_model_or_a_salt_of_its_own_shares_no_blocks() {
        let blocks = |more: &str| {
            let body = format!(r#"{{"prompt":[1,2,3,4]{more}}}"#);
            read(Api::Completions, &body).unwrap().prompts[0].blocks[0]
        };
        let plain = blocks("");
        assert_eq!(plain, blocks(r#","temperature":1"#));
        assert_ne!(plain, blocks(r#","model":"other""#));
        assert_ne!(plain, blocks(r#","cache_salt":"s""#));
    }
}
