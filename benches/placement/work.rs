//! What a row does, on input that is made beforehand: the same code natively and as WebAssembly.

use std::hint::black_box;
use std::num::NonZeroU32;

use burst_prefix_cache::placement::{BalanceBy, Replica, Request, Rules, place};
use burst_prefix_cache::prefix::{BlockIds, Layout, Seed};
use burst_prefix_cache::request::{self, Api};

/// Tokens in a block.
const BLOCK: usize = 64;

/// What a row measures.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    /// Placing a batch; hashing is not included.
    Place(Batch),
    /// Hashing a prompt of this many bytes.
    Hash(usize),
    /// Reading a body of about this many bytes, hashing included.
    Read(Body, usize),
}

/// A batch of groups of the same size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) groups: usize,
    pub(crate) members: usize,
    pub(crate) tokens: usize,
    /// Tokens that all groups begin with.
    pub(crate) shared: usize,
    pub(crate) replicas: usize,
    /// 0 = no bound.
    pub(crate) k: u32,
    pub(crate) m: u32,
    pub(crate) balance_by: BalanceBy,
}

/// What a body says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body {
    /// A conversation, a message a kilobyte.
    Chat,
    /// A prompt of text.
    Completions,
    /// A prompt of token ids.
    Ids,
}

impl Task {
    pub(crate) fn prepare(self) -> Work {
        match self {
            Self::Place(batch) => batch.prepare(),
            Self::Hash(bytes) => Work::Hash(text(bytes).into_bytes()),
            Self::Read(body, bytes) => body.prepare(bytes),
        }
    }
}

/// A row's input.
pub(crate) enum Work {
    Place {
        rules: Rules,
        names: Vec<String>,
        blocks: Vec<Vec<u64>>,
    },
    Hash(Vec<u8>),
    Read {
        api: Api,
        body: Vec<u8>,
    },
}

impl Work {
    /// Hands out what does it, this many times: what has to be made of the input first is made once.
    pub(crate) fn with<T>(&self, measure: impl FnOnce(&dyn Fn(u64)) -> T) -> T {
        match self {
            Self::Place {
                rules,
                names,
                blocks,
            } => {
                let replicas: Vec<Replica<'_>> =
                    names.iter().map(|name| Replica::new(name)).collect();
                let requests: Vec<Request<'_>> = blocks
                    .iter()
                    .map(|blocks| Request {
                        chained: true,
                        ..Request::new(blocks)
                    })
                    .collect();
                measure(&|times| {
                    for _ in 0..times {
                        black_box(place(rules, black_box(&replicas), black_box(&requests)));
                    }
                })
            }
            Self::Hash(prompt) => measure(&|times| {
                for _ in 0..times {
                    let mut ids = BlockIds::new(Layout::default());
                    ids.push(black_box(prompt));
                    black_box(ids.chain(Seed::of(b"model")));
                }
            }),
            Self::Read { api, body } => measure(&|times| {
                for _ in 0..times {
                    let prefix = request::read(*api, black_box(body), Layout::default());
                    // A body that were refused early would look fast.
                    assert!(black_box(prefix).is_ok_and(|prefix| !prefix.prompts.is_empty()));
                }
            }),
        }
    }

    /// Requests that are placed, or else bytes that are read.
    #[allow(dead_code, reason = "only the host reports it")]
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Place { blocks, .. } => blocks.len(),
            Self::Hash(bytes) | Self::Read { body: bytes, .. } => bytes.len(),
        }
    }
}

impl Batch {
    fn prepare(self) -> Work {
        Work::Place {
            rules: Rules {
                max_per_replica: NonZeroU32::new(self.k),
                min_colocate_blocks: self.m,
                balance_by: self.balance_by,
            },
            names: (0..self.replicas)
                .map(|i| format!("10.0.{}.{}:8000", i / 256, i % 256))
                .collect(),
            // Groups arrive interleaved, which is the worst for caches.
            blocks: (0..self.groups * self.members)
                .map(|request| self.chain(request % self.groups))
                .collect(),
        }
    }

    fn chain(self, group: usize) -> Vec<u64> {
        let mut hash = 7u64;
        (0..self.tokens.div_ceil(BLOCK))
            .map(|i| {
                let group = if i * BLOCK < self.shared { 0 } else { group };
                hash = (hash ^ group as u64 ^ i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                hash ^= hash >> 29;
                hash
            })
            .collect()
    }
}

impl Body {
    fn prepare(self, bytes: usize) -> Work {
        let (api, body) = match self {
            Self::Chat => {
                let messages: Vec<String> = (0..bytes.div_ceil(1024))
                    .map(|i| {
                        let role = if i % 2 == 0 { "user" } else { "assistant" };
                        let content = escaped(&text(1024.min(bytes) - 100));
                        format!(r#"{{"role": "{role}", "content": "{content}"}}"#)
                    })
                    .collect();
                let messages = messages.join(", ");
                let body =
                    format!(r#"{{"model": "m", "messages": [{messages}], "temperature": 1.0}}"#);
                (Api::ChatCompletions, body)
            }
            Self::Completions => {
                let prompt = escaped(&text(bytes));
                let body = format!(r#"{{"model": "m", "prompt": "{prompt}", "n": 8}}"#);
                (Api::Completions, body)
            }
            Self::Ids => {
                let mut ids = String::new();
                let mut id = 1u32;
                while ids.len() < bytes {
                    id = id.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                    ids.push_str(&format!("{}, ", (id >> 8) % 128_000));
                }
                let body = format!(r#"{{"model": "m", "prompt": [{ids}1], "n": 8}}"#);
                (Api::Completions, body)
            }
        };
        Work::Read {
            api,
            body: body.into_bytes(),
        }
    }
}

/// Text as in source code: a line of 60 characters, then a line break, now and then a quote.
fn text(bytes: usize) -> String {
    const LINE: &str = "    let answer = ask(\"what is the burst of a prefix\", 42, x);\n";
    LINE.chars().cycle().take(bytes).collect()
}

fn escaped(text: &str) -> String {
    text.replace('"', "\\\"").replace('\n', "\\n")
}
