//! Stands between Envoy and its own admin, whose port is not known before Envoy runs; or in its
//! place, where it is to fail.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::http1;

/// What becomes of a question.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// What the admin at this address answers.
    Of(SocketAddr),
    /// This status and this body.
    Answer(u16, Vec<u8>),
    /// The connection is closed.
    Broken,
    /// Nothing at all.
    Silence,
}

#[derive(Debug)]
struct State {
    reply: Reply,
    /// How long an answer takes.
    takes: Duration,
    asked: u64,
    /// Questions that are being answered, and the most that were at one time.
    now: u64,
    most: u64,
}

/// A server that runs as long as the test's runtime.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Admin {
    pub(crate) async fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::new(Mutex::new(State {
                reply,
                takes: Duration::ZERO,
                asked: 0,
                now: 0,
                most: 0,
            })),
        };
        let serving = admin.clone();
        serve(listener, move |mut stream| {
            let serving = serving.clone();
            async move { while serving.answer(&mut stream).await.is_some() {} }
        });
        admin
    }

    /// From now on.
    pub(crate) fn set(&self, reply: Reply, takes: Duration) {
        let mut state = self.state.lock().unwrap();
        state.reply = reply;
        state.takes = takes;
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> u64 {
        self.state.lock().unwrap().asked
    }

    /// The most questions that were there at one time.
    pub(crate) fn most(&self) -> u64 {
        self.state.lock().unwrap().most
    }

    /// Reads one question and answers it; none where the connection is over.
    async fn answer(&self, stream: &mut BufReader<TcpStream>) -> Option<()> {
        let mut first = String::new();
        stream.read_line(&mut first).await.ok().filter(|n| *n > 0)?;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        }
        let (reply, takes) = {
            let mut state = self.state.lock().unwrap();
            state.asked += 1;
            state.now += 1;
            state.most = state.most.max(state.now);
            (state.reply.clone(), state.takes)
        };
        assert!(first.starts_with("GET /clusters?format=json "), "{first}");
        sleep(takes).await;
        let (status, body) = match reply {
            Reply::Of(admin) => {
                let answer = http1::get(admin, "/clusters?format=json").await;
                (answer.status, answer.body)
            }
            Reply::Answer(status, body) => (status, body),
            Reply::Silence => std::future::pending().await,
            Reply::Broken => {
                self.state.lock().unwrap().now -= 1;
                return None;
            }
        };
        self.state.lock().unwrap().now -= 1;
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let stream = stream.get_mut();
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(&body).await.ok()
    }
}

/// Serves each connection by itself, until the test ends.
pub(crate) fn serve<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    connection: impl Fn(BufReader<TcpStream>) -> F + Send + 'static,
) {
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(BufReader::new(stream)));
        }
    });
}
