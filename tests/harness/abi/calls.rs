//! HTTP calls that the filter makes by itself.

use wasmtime::{Linker, Result};

use crate::harness::admin::Request;
use crate::harness::call::{Call, Host};
use crate::harness::exchange::Headers;
use crate::harness::status::Status;

pub(super) fn link(linker: &mut Linker<Host>) -> Result<()> {
    host!(
        linker,
        "proxy_http_call",
        |call,
         cluster: u32,
         cluster_size: u32,
         headers: u32,
         headers_size: u32,
         _body: u32,
         _body_size: u32,
         _trailers: u32,
         _trailers_size: u32,
         timeout_ms: u32,
         token: u32| {
            let request = Request {
                cluster: call.text(cluster, cluster_size)?,
                headers: map(&call.bytes(headers, headers_size)?),
                timeout_ms,
            };
            let asked = call.world().ask(call.vm, &request);
            if let Ok(number) = asked {
                call.number(token, number)?;
            }
            Ok(Status::number(asked.map(drop)))
        }
    );
    Ok(())
}

/// Headers as the ABI writes them: their number, the sizes of each name and value, and then these,
/// each with a zero behind it.
fn map(bytes: &[u8]) -> Headers {
    let number = |at: usize| {
        let bytes = bytes[at..at + 4].try_into().unwrap();
        u32::from_le_bytes(bytes) as usize
    };
    let count = number(0);
    let mut at = 4 + 8 * count;
    let mut text = |size: usize| {
        let text = String::from_utf8(bytes[at..at + size].to_vec()).unwrap();
        at += size + 1;
        text
    };
    let pairs = (0..count).map(|pair| {
        let (name, value) = (number(4 + 8 * pair), number(8 + 8 * pair));
        (text(name), text(value).into_bytes())
    });
    Headers(pairs.collect())
}
