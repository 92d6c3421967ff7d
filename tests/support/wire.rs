//! Replicas that answer with the bytes of the request as they came, trailers and all, and with
//! whatever status and headers they are told to.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::admin::serve;
use crate::config::Config;
use crate::envoy::Envoy;
use crate::fleet::Fleet;

/// Request headers that each answer carries back, behind `x-echo-`.
const ECHOED: [&str; 4] = [
    "x-burst-prefix-cache",
    "x-gateway-destination-endpoint",
    "x-prefix-cache-match-info",
    "x-prefix-cache-score",
];

/// A replica that runs as long as the test's runtime.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) address: String,
    /// The status of its answers, and lines of headers.
    says: Arc<Mutex<(u16, String)>>,
}

impl Wire {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Self {
            address: listener.local_addr().unwrap().to_string(),
            says: Arc::new(Mutex::new((200, String::new()))),
        };
        let serving = wire.clone();
        serve(listener, move |mut stream| {
            let serving = serving.clone();
            async move { while serving.answer(&mut stream).await.is_some() {} }
        });
        wire
    }

    /// An Envoy in front of four.
    pub(crate) async fn fleet(change: impl FnOnce(Config) -> Config) -> (Fleet, Vec<Self>) {
        let mut wires = Vec::new();
        for _ in 0..4 {
            wires.push(Self::start().await);
        }
        let addresses: Vec<String> = wires.iter().map(|wire| wire.address.clone()).collect();
        let config = change(Config::shipped(&addresses));
        let envoy = Envoy::start(config.text(), &[]).await;
        let replicas = Vec::new();
        (Fleet { envoy, replicas }, wires)
    }

    /// From now on.
    pub(crate) fn say(&self, status: u16, headers: &str) {
        *self.says.lock().unwrap() = (status, headers.to_owned());
    }

    /// Answers one request; none where the connection is over.
    async fn answer(&self, stream: &mut BufReader<TcpStream>) -> Option<()> {
        let mut bytes = Vec::new();
        let head = lines(stream, &mut bytes).await?;
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            (name == "content-length").then(|| value.parse().unwrap())
        });
        if head.iter().any(|line| line == "transfer-encoding: chunked") {
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
                let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
                if size == 0 {
                    break;
                }
                let mut chunk = vec![0; size + 2];
                stream.read_exact(&mut chunk).await.ok()?;
                bytes.extend(chunk);
            }
            lines(stream, &mut bytes).await?;
        } else if let Some(length) = length {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            bytes.extend(body);
        }
        let (status, more) = self.says.lock().unwrap().clone();
        let mut answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nx-served-by: {}\r\n{more}",
            bytes.len(),
            self.address
        );
        for line in &head {
            let name = line.split(':').next().unwrap_or_default();
            if ECHOED.contains(&name) {
                answer.push_str(&format!("x-echo-{line}\r\n"));
            }
        }
        answer.push_str("\r\n");
        let is_head = head[0].starts_with("HEAD ");
        let stream = stream.get_mut();
        stream.write_all(answer.as_bytes()).await.ok()?;
        if !is_head {
            stream.write_all(&bytes).await.ok()?;
        }
        Some(())
    }
}

/// Reads lines up to an empty one.
async fn lines(stream: &mut BufReader<TcpStream>, bytes: &mut Vec<u8>) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        bytes.extend(line.as_bytes());
        if line == "\r\n" {
            return Some(lines);
        }
        lines.push(line.trim_end().to_owned());
    }
}
