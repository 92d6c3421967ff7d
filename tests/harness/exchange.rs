//! One request and its response, as Envoy's connection manager holds them.

use std::collections::VecDeque;

use super::status::Status;
use super::world::MILLI;

/// Headers: several may have the same name, and names are lower-case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headers(pub(crate) Vec<(String, Vec<u8>)>);

impl Headers {
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter();
        Self(
            pairs
                .map(|(name, value)| (name.to_lowercase(), value.as_bytes().to_vec()))
                .collect(),
        )
    }

    /// All values of that name, joined.
    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        let name = name.to_lowercase();
        let values: Vec<&[u8]> = self
            .0
            .iter()
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value.as_slice())
            .collect();
        (!values.is_empty()).then(|| values.join(&b","[..]))
    }

    /// The first value of that name, as Envoy gives it to a filter.
    pub(crate) fn first(&self, name: &str) -> Option<Vec<u8>> {
        let name = name.to_lowercase();
        let mut values = self.0.iter().filter(|(known, _)| *known == name);
        values.next().map(|(_, value)| value.clone())
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name)
            .map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    pub(crate) fn remove(&mut self, name: &str) {
        let name = name.to_lowercase();
        self.0.retain(|(known, _)| *known != name);
    }

    pub(crate) fn replace(&mut self, name: &str, value: Vec<u8>) {
        self.remove(name);
        self.0.push((name.to_lowercase(), value));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(n, v)| n.len() + v.len()).sum()
    }
}

/// A piece of a request, as it comes from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Headers { end: bool },
    Data { bytes: Vec<u8>, end: bool },
    Trailers,
}

/// What a client sends, and when, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) thread: usize,
    pub(crate) headers: Headers,
    /// In order of time.
    pub(crate) parts: VecDeque<(u64, Part)>,
    /// When it closes its connection, if nothing has been answered by then.
    pub(crate) leaves: Option<u64>,
    /// The cluster that its route names, if there is a route.
    pub(crate) cluster: Option<&'static str>,
}

impl Client {
    /// A request on a worker thread, all of it at a moment in milliseconds.
    pub(crate) fn post(thread: usize, millis: u64, path: &str, body: &[u8]) -> Self {
        let at = millis * MILLI;
        let data = Part::Data {
            bytes: body.to_vec(),
            end: true,
        };
        Self {
            thread,
            headers: Headers::new([(":method", "POST"), (":path", path)]),
            parts: [(at, Part::Headers { end: false }), (at, data)].into(),
            leaves: None,
            cluster: None,
        }
    }

    /// A completion of a prompt.
    pub(crate) fn completion(thread: usize, millis: u64, prompt: &str) -> Self {
        let body = serde_json::json!({"model": "m", "prompt": prompt});
        Self::post(
            thread,
            millis,
            "/v1/completions",
            body.to_string().as_bytes(),
        )
    }

    /// A route to this cluster.
    pub(crate) fn to(mut self, cluster: &'static str) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Another header.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.0.push((name.to_owned(), value.into()));
        self
    }

    /// The same body in pieces, each at a moment in milliseconds.
    pub(crate) fn in_pieces(mut self, millis: &[u64]) -> Self {
        let body = self.body().unwrap_or_default();
        self.parts.truncate(1);
        let size = body.len().div_ceil(millis.len()).max(1);
        for (bytes, millis) in body.chunks(size).zip(millis) {
            let bytes = bytes.to_vec();
            let part = Part::Data { bytes, end: false };
            self.parts.push_back((millis * MILLI, part));
        }
        if let Some((_, Part::Data { end, .. })) = self.parts.back_mut() {
            *end = true;
        }
        self
    }

    /// All bytes of the body, if it ever ends.
    pub(crate) fn body(&self) -> Option<Vec<u8>> {
        let ends = |part: &Part| match part {
            Part::Headers { end } | Part::Data { end, .. } => *end,
            Part::Trailers => true,
        };
        let complete = self.parts.iter().any(|(_, part)| ends(part));
        complete.then(|| {
            let parts = self.parts.iter();
            parts.fold(Vec::new(), |mut body, (_, part)| {
                if let Part::Data { bytes, .. } = part {
                    body.extend_from_slice(bytes);
                }
                body
            })
        })
    }
}

/// Whether Envoy's filter chain is stopped at the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Running,
    /// The filter holds the request, and hears of what else comes.
    Stopped,
    /// The filter holds the request, and hears of nothing until it resumes it.
    StoppedAll,
}

/// What the replica received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// When the headers went there.
    pub(crate) at: u64,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
    pub(crate) ended: bool,
}

/// How a request ended that was not answered by a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its client closed the connection.
    Left,
    /// Its VM died, or was dead when it came.
    Lost,
    /// Envoy itself answered.
    Refused(u16),
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) client: Client,
    /// The whole body, if the client ever sends all of it.
    pub(crate) sent: Option<Vec<u8>>,
    /// The VM and the context in it that hold it; none before the headers and after the end.
    pub(crate) vm: Option<usize>,
    pub(crate) context: u32,
    pub(crate) root: u32,
    pub(crate) config: usize,
    pub(crate) headers: Headers,
    pub(crate) flow: Flow,
    /// What waits in Envoy's buffer.
    pub(crate) buffer: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) trailers: bool,
    /// What the client puts into its trailers, if it sends any.
    pub(crate) trailing: Headers,
    pub(crate) received: usize,
    pub(crate) complete_at: Option<u64>,
    pub(crate) upstream: Option<Upstream>,
    /// How often the chain went on after it was stopped.
    pub(crate) resumes: u32,
    pub(crate) response: Option<Headers>,
    pub(crate) fate: Option<Fate>,
    pub(crate) closed: bool,
}

impl Exchange {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            headers: client.headers.clone(),
            sent: client.body(),
            client,
            vm: None,
            context: 0,
            root: 0,
            config: 0,
            flow: Flow::Running,
            buffer: Vec::new(),
            ended: false,
            trailers: false,
            trailing: Headers::new([
                ("x-checksum", "1"),
                ("X-Gateway-Destination-Endpoint", "10.0.0.2:8000"),
                ("x-prefix-cache-match-info", "forged"),
                ("x-prefix-cache-score", "forged"),
                ("x-burst-prefix-cache", "forged"),
            ]),
            received: 0,
            complete_at: None,
            upstream: None,
            resumes: 0,
            response: None,
            fate: None,
            closed: false,
        }
    }

    /// The request's headers, as long as they can still be read and written.
    pub(crate) fn request_headers(&mut self) -> Result<&mut Headers, Status> {
        match self.upstream {
            None => Ok(&mut self.headers),
            Some(_) => Err(Status::BadArgument),
        }
    }

    /// Sends on what is there.
    pub(crate) fn forward(&mut self, now: u64) {
        let headers = &self.headers;
        let upstream = self.upstream.get_or_insert_with(|| Upstream {
            at: now,
            headers: headers.clone(),
            body: Vec::new(),
            ended: false,
        });
        upstream.body.append(&mut self.buffer);
        upstream.ended |= self.ended;
    }

    /// Whether the filter still has it in hand.
    pub(crate) fn open(&self) -> bool {
        self.vm.is_some() && !self.closed
    }
}
