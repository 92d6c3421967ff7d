//! Replicas that do nothing but say what they got: for more and larger requests than the stand-in
//! replica's tests ask of it. All of them run on one thread of the test.

use std::io;
use std::thread;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use xxhash_rust::xxh64::Xxh64;

/// How the names of the headers begin that are sent back, after `x-echo-`.
const ECHOED: [&str; 2] = ["x-burst-", "x-gateway-destination-endpoint"];

/// Starts four, and tells their addresses. They run until the test's process ends.
pub(crate) fn start() -> Vec<String> {
    let listeners: Vec<std::net::TcpListener> = (0..4)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let addresses = listeners.iter().map(|listener| {
        listener.set_nonblocking(true).unwrap();
        listener.local_addr().unwrap().to_string()
    });
    let addresses = addresses.collect();
    thread::spawn(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for listener in listeners {
                tokio::spawn(serve(TcpListener::from_std(listener).unwrap()));
            }
            std::future::pending::<()>().await;
        });
    });
    addresses
}

async fn serve(listener: TcpListener) {
    let address = listener.local_addr().unwrap().to_string();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let address = address.clone();
        tokio::spawn(async move {
            let mut stream = BufReader::with_capacity(1 << 16, stream);
            // It ends with the connection.
            while answer(&mut stream, &address).await.is_ok() {}
        });
    }
}

/// Reads one request and answers it.
async fn answer(stream: &mut BufReader<TcpStream>, address: &str) -> io::Result<()> {
    let (mut length, mut echo) = (0, String::new());
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line == "\r\n" {
                break;
            }
            continue;
        };
        match name {
            "content-length" => length = value.parse().unwrap(),
            name if ECHOED.iter().any(|begin| name.starts_with(begin)) => {
                echo.push_str(&format!("x-echo-{name}: {value}\r\n"));
            }
            _ => {}
        }
    }
    let hash = read_body(stream, length).await?;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-body-xxh64: {hash:016x}\r\n\
         x-served-by: {address}\r\n{echo}\r\nok"
    );
    stream.get_mut().write_all(head.as_bytes()).await
}

/// Hashes a body as it comes, so that none is kept.
async fn read_body(stream: &mut BufReader<TcpStream>, mut left: usize) -> io::Result<u64> {
    let mut hash = Xxh64::new(0);
    while left > 0 {
        let bytes = stream.fill_buf().await?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = bytes.len().min(left);
        hash.update(&bytes[..count]);
        stream.consume(count);
        left -= count;
    }
    Ok(hash.digest())
}
