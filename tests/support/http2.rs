//! HTTP/2 without TLS, with prior knowledge.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::http1::Answer;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// A body that says where it ends.
pub(crate) fn whole(body: &str) -> Body {
    Full::from(body.to_owned()).boxed()
}

/// A body that ends with a trailer.
pub(crate) fn with_trailers(body: &str) -> Body {
    with_these(body, &[("x-checksum", "1")])
}

/// A body that ends with these trailers.
pub(crate) fn with_these(body: &str, trailers: &[(&str, &str)]) -> Body {
    // Those of one name are kept, all of them.
    let mut map = HeaderMap::new();
    for (name, value) in trailers {
        let name = HeaderName::try_from(*name).unwrap();
        map.append(name, HeaderValue::try_from(*value).unwrap());
    }
    let body = Bytes::from(body.to_owned());
    Frames([Frame::data(body), Frame::trailers(map)].into()).boxed()
}

/// A body of a length that nobody is told: with one, the replica would get no trailers.
struct Frames(VecDeque<Frame<Bytes>>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// A body that comes piece by piece, and ends when the sender is dropped.
pub(crate) fn in_pieces() -> (mpsc::UnboundedSender<Bytes>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Pieces(receiver).boxed())
}

struct Pieces(mpsc::UnboundedReceiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A connection; its clones send over the same one.
#[derive(Clone)]
pub(crate) struct Client(SendRequest<Body>);

impl Client {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let builder = Builder::new(TokioExecutor::new());
        let (client, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    pub(crate) async fn post(self, path: &str, body: Body) -> Answer {
        let headers = [("content-type", "application/json")];
        self.send("POST", path, &headers, body).await
    }

    pub(crate) async fn send(
        mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Answer {
        let uri = format!("http://llm{path}");
        let mut request = hyper::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.send_request(request.body(body).unwrap());
        let (head, body) = response.await.unwrap().into_parts();
        let headers = head.headers.iter().map(|(name, value)| {
            let value = value.to_str().unwrap().to_owned();
            (name.as_str().to_owned(), value)
        });
        Answer {
            status: head.status.as_u16(),
            headers: headers.collect(),
            body: body.collect().await.unwrap().to_bytes().to_vec(),
        }
    }
}
