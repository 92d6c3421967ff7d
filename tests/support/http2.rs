//! HTTP/2 without TLS, with prior knowledge.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::{HeaderMap, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::http1::Answer;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// A body that says where it ends.
pub(crate) fn whole(body: &str) -> Body {
    Full::from(body.to_owned()).boxed()
}

/// A body that ends with trailers.
pub(crate) fn with_trailers(body: &str) -> Body {
    let trailers = HeaderMap::from_iter([(
        hyper::header::HeaderName::from_static("x-checksum"),
        HeaderValue::from_static("1"),
    )]);
    Full::from(body.to_owned())
        .with_trailers(async { Some(Ok(trailers)) })
        .boxed()
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

    pub(crate) async fn post(mut self, path: &str, body: Body) -> Answer {
        let request = hyper::Request::post(format!("http://llm{path}"));
        let request = request.header("content-type", "application/json");
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
