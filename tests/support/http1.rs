//! HTTP/1.1 by hand, so that each byte and each pause is the test's own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use xxhash_rust::xxh64::xxh64;

/// Only there so that a hang ends; nothing is expected to take this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request's head without the empty line that ends it. The connection is for one request.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: llm\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

/// A whole request with a `Content-Length`.
pub(crate) fn request(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Vec<u8> {
    let body = body.as_ref();
    let head = head(method, path, headers);
    let mut request = format!("{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(body);
    request
}

/// A whole POST of JSON.
pub(crate) fn post(path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    request("POST", path, &[("content-type", "application/json")], body)
}

/// A body in chunks of `size` bytes, and the line that ends them; trailers and an empty line
/// follow.
pub(crate) fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut chunks = Vec::with_capacity(body.len() + body.len() / size * 10);
    for chunk in body.chunks(size) {
        chunks.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunks.extend_from_slice(chunk);
        chunks.extend_from_slice(b"\r\n");
    }
    chunks.extend_from_slice(b"0\r\n");
    chunks
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    try_get(address, path).await.unwrap()
}

pub(crate) async fn try_get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{}\r\n", head("GET", path, &[]));
    stream.write_all(request.as_bytes()).await?;
    Connection(BufReader::new(stream)).try_answer().await
}

/// A connection for one request.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = timeout(PATIENCE, TcpStream::connect(address)).await;
        let stream = stream.expect("connected in time").unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// Writes, however slowly the other side reads.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let written = timeout(PATIENCE, self.0.get_mut().write_all(bytes.as_ref())).await;
        written.expect("written in time").unwrap();
    }

    /// The next line that has come, without its end.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.0.read_line(&mut line)).await;
        read.expect("a line in time").unwrap();
        assert!(line.ends_with('\n'), "the connection ended: {line:?}");
        line.trim_end().to_owned()
    }

    /// Sends a request and reads its answer, whose length must be told; the connection stays.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Answer {
        let exchanged = timeout(PATIENCE, async {
            self.0.get_mut().write_all(request).await?;
            let mut bytes = Vec::with_capacity(1024);
            while !bytes.ends_with(b"\r\n\r\n") {
                if self.0.read_until(b'\n', &mut bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let mut answer = Answer::parse(&bytes).unwrap();
            let length = answer.header("content-length").unwrap();
            answer.body = vec![0; length.parse().unwrap()];
            self.0.read_exact(&mut answer.body).await?;
            Ok::<_, io::Error>(answer)
        });
        exchanged.await.expect("answered in time").unwrap()
    }

    /// Reads the head of an answer; the body is not waited for.
    pub(crate) async fn begin(&mut self) -> Answer {
        let read = timeout(PATIENCE, async {
            let mut bytes = Vec::with_capacity(1024);
            while !bytes.ends_with(b"\r\n\r\n") {
                if self.0.read_until(b'\n', &mut bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok::<_, io::Error>(Answer::parse(&bytes).unwrap())
        });
        read.await.expect("answered in time").unwrap()
    }

    /// Reads what is left until the connection ends, however it ends.
    pub(crate) async fn rest(mut self) {
        let mut bytes = Vec::new();
        let read = timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await;
        let _ = read.expect("ended in time");
    }

    /// Reads to the end of the connection.
    pub(crate) async fn answer(self) -> Answer {
        self.try_answer().await.unwrap()
    }

    /// As [`Connection::answer`], for a connection that may end without an answer.
    pub(crate) async fn try_answer(mut self) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await??;
        Answer::parse(&bytes).ok_or_else(|| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            io::Error::new(io::ErrorKind::InvalidData, format!("no answer: {text:?}"))
        })
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(": ").or(line.split_once(':'))?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        });
        let mut answer = Self {
            status,
            headers: headers.collect(),
            body: bytes.get(end + 4..)?.to_vec(),
        };
        // An answer to HEAD announces chunks and has none.
        let chunked = answer.header("transfer-encoding") == Some("chunked");
        if chunked && !answer.body.is_empty() {
            answer.body = unchunked(&answer.body)?;
        }
        Some(answer)
    }

    /// A header that stands there at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(found, _)| found == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} twice: {:?}", self.headers);
        value
    }

    /// A header as the replica got it.
    pub(crate) fn seen(&self, name: &str) -> Option<&str> {
        self.header(&format!("x-echo-{name}"))
    }

    /// The filter's status as the replica got it; empty where there was none.
    pub(crate) fn decision(&self) -> &str {
        self.seen("x-burst-prefix-cache").unwrap_or_default()
    }

    /// The replica that served.
    pub(crate) fn served_by(&self) -> &str {
        let served = self.header("x-served-by");
        served.unwrap_or_else(|| panic!("no replica answered: {self:?}"))
    }

    /// That the replica got the body to the last byte.
    pub(crate) fn assert_arrived(&self, body: &[u8]) {
        let sent = format!("{:016x}", xxh64(body, 0));
        assert_eq!(self.header("x-body-xxh64"), Some(sent.as_str()), "{self:?}");
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 2 + size + 2..)?;
    }
}
