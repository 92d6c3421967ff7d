//! The routes.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};
use xxhash_rust::xxh64::xxh64;

use crate::answer::{Answer, Stream};
use crate::engine::Engine;
use crate::record::{Record, Recorder};
use crate::request::{Api, Request};

const MAX_BODY_BYTES: usize = 64 << 20;

const SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");
const BODY_XXH64: HeaderName = HeaderName::from_static("x-body-xxh64");

/// Request headers that every answer carries back, under these names.
const ECHOED: [(&str, HeaderName); 4] = [
    (
        "x-burst-prefix-cache",
        HeaderName::from_static("x-echo-x-burst-prefix-cache"),
    ),
    (
        "x-gateway-destination-endpoint",
        HeaderName::from_static("x-echo-x-gateway-destination-endpoint"),
    ),
    (
        "x-prefix-cache-match-info",
        HeaderName::from_static("x-echo-x-prefix-cache-match-info"),
    ),
    (
        "x-prefix-cache-score",
        HeaderName::from_static("x-echo-x-prefix-cache-score"),
    ),
];

type Reply = Response<BoxBody<Bytes, Infallible>>;

/// Everything that a connection needs.
pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    pub(crate) name: HeaderValue,
    pub(crate) model: String,
    pub(crate) block_tokens: NonZeroUsize,
    pub(crate) recorder: Recorder,
    pub(crate) answers: AtomicU64,
}

enum Route {
    Generate(Api),
    Models,
    Health,
    Metrics,
    Unknown,
}

impl Route {
    /// By the path's end, so that a prefix which a gateway leaves in place does no harm.
    fn of(path: &str) -> Self {
        let path = path.trim_end_matches('/');
        let routes = [
            ("/v1/chat/completions", Self::Generate(Api::Chat)),
            ("/v1/completions", Self::Generate(Api::Completions)),
            ("/v1/responses", Self::Generate(Api::Responses)),
            ("/v1/messages", Self::Generate(Api::Messages)),
            ("/v1/models", Self::Models),
            ("/health", Self::Health),
            ("/metrics", Self::Metrics),
        ];
        let found = routes.into_iter().find(|(end, _)| path.ends_with(end));
        found.map_or(Self::Unknown, |(_, route)| route)
    }
}

impl Server {
    /// Answers a request, whatever it is.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
    ) -> Result<Reply, Infallible> {
        let (head, body) = request.into_parts();
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        let mut reply = match Route::of(head.uri.path()) {
            Route::Models if reads => json_reply(StatusCode::OK, &self.models()),
            Route::Health if reads => text_reply(String::new()),
            Route::Metrics if reads => text_reply(
                self.engine
                    .metrics
                    .render(&self.model, self.engine.cache_usage()),
            ),
            Route::Models | Route::Health | Route::Metrics => wrong_method("GET, HEAD"),
            Route::Generate(_) if head.method != Method::POST => wrong_method("POST"),
            Route::Generate(api) => self.generate(&head, body, Some(api)).await,
            Route::Unknown => self.generate(&head, body, None).await,
        };
        let headers = reply.headers_mut();
        headers.insert(SERVED_BY, self.name.clone());
        for (name, echo) in ECHOED {
            for value in head.headers.get_all(name) {
                headers.append(echo.clone(), value.clone());
            }
        }
        Ok(reply)
    }

    /// Reads the body of a POST, notes what arrived, and answers. `api` is `None` for a path that
    /// is not served.
    async fn generate(
        &self,
        head: &hyper::http::request::Parts,
        body: Incoming,
        api: Option<Api>,
    ) -> Reply {
        let path = head.uri.path();
        let mut record = self
            .recorder
            .arrived(head.method.as_str(), path, &head.headers);
        let body = match Limited::new(body, MAX_BODY_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                let status = match error.is::<LengthLimitError>() {
                    true => StatusCode::PAYLOAD_TOO_LARGE,
                    false => StatusCode::BAD_REQUEST,
                };
                record.end(status.as_u16());
                return error_reply(status, &format!("the body was not read: {error}"));
            }
        };
        let hash = format!("{:016x}", xxh64(&body, 0));
        record.body(body.len(), &hash);
        let mut reply = match api {
            _ if encoded(&head.headers) => refuse(
                record,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "encoded bodies are not read; send the JSON as it is",
            ),
            None => refuse(
                record,
                StatusCode::NOT_FOUND,
                &format!("{path} is not served; see --help for the routes"),
            ),
            Some(api) => match Request::read(api, &body, self.block_tokens) {
                Ok(request) => self.serve(request, record).await,
                Err(message) => refuse(record, StatusCode::BAD_REQUEST, &message),
            },
        };
        if let Ok(hash) = HeaderValue::try_from(hash) {
            reply.headers_mut().insert(BODY_XXH64, hash);
        }
        reply
    }

    async fn serve(&self, request: Request, mut record: Record) -> Reply {
        let number = self.answers.fetch_add(1, Relaxed);
        let answer = Answer::new(&request, number, now(), &self.model);
        let Request {
            prompts,
            samples,
            max_tokens,
            stream,
            ..
        } = request;
        let sequences = prompts.len() * samples;
        let events = self.engine.generate(prompts, samples, max_tokens);
        if stream {
            let stream = Stream::new(answer, events, record);
            return reply(
                StatusCode::OK,
                "text/event-stream; charset=utf-8",
                stream.boxed(),
            );
        }
        let whole = answer.whole(events, sequences, &mut record).await;
        record.end(200);
        json_reply(StatusCode::OK, &whole)
    }

    fn models(&self) -> Value {
        json!({
            "object": "list",
            "data": [{
                "id": self.model,
                "object": "model",
                "created": 0,
                "owned_by": "replica",
            }],
        })
    }
}

fn encoded(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(CONTENT_ENCODING);
    encodings
        .iter()
        .any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn now() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

fn refuse(mut record: Record, status: StatusCode, message: &str) -> Reply {
    record.end(status.as_u16());
    error_reply(status, message)
}

fn wrong_method(allowed: &'static str) -> Reply {
    let message = format!("this path takes {allowed}");
    let mut reply = error_reply(StatusCode::METHOD_NOT_ALLOWED, &message);
    let allowed = HeaderValue::from_static(allowed);
    reply.headers_mut().insert(ALLOW, allowed);
    reply
}

fn error_reply(status: StatusCode, message: &str) -> Reply {
    let kind = match status {
        StatusCode::NOT_FOUND => "NotFoundError",
        _ => "BadRequestError",
    };
    let error = json!({
        "message": message,
        "type": kind,
        "param": null,
        "code": status.as_u16(),
    });
    json_reply(status, &json!({ "error": error }))
}

fn json_reply(status: StatusCode, body: &Value) -> Reply {
    let body = Full::from(body.to_string()).boxed();
    reply(status, "application/json", body)
}

fn text_reply(text: String) -> Reply {
    reply(
        StatusCode::OK,
        "text/plain; version=0.0.4; charset=utf-8",
        Full::from(text).boxed(),
    )
}

fn reply(status: StatusCode, kind: &'static str, body: BoxBody<Bytes, Infallible>) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}
