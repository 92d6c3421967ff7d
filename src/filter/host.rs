//! The calls to the proxy.
//!
//! The SDK's own wrappers panic on a status they do not expect and on headers that are no UTF-8;
//! a panic is a trap, and a trap loses every stream of its worker. So the calls on the request
//! path are made here, each with its status as a value. This is the only file with unsafe code.
#![allow(
    unsafe_code,
    reason = "calls into the host and the buffers it returns need it; each is bounded here"
)]

use crate::workers::{Moment, Refused};

/// A status that is not `Ok`, by its number in the proxy-wasm ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed(#[allow(dead_code, reason = "shown by Debug in the log")] u32);

impl From<Failed> for Refused {
    fn from(_: Failed) -> Self {
        Self
    }
}

/// Which headers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Headers {
    Request = 0,
    RequestTrailers = 1,
    Response = 2,
    /// Of the answer to a call that the filter made.
    CallResponse = 6,
}

/// Which kind of metric.
#[derive(Debug, Clone, Copy)]
pub(super) enum Metric {
    Counter = 0,
    Gauge = 1,
    Histogram = 2,
}

const REQUEST_STREAM: u32 = 0;
const REQUEST_BODY: u32 = 0;
const CALL_RESPONSE_BODY: u32 = 4;
const PLUGIN_CONFIGURATION: u32 = 7;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, key: *const u8, key_size: usize) -> u32;
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        max_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_get_property(
        path: *const u8,
        path_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> u32;
    fn proxy_set_effective_context(context: u32) -> u32;
    fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
        cas: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        cas: u32,
    ) -> u32;
    fn proxy_register_shared_queue(name: *const u8, name_size: usize, token: *mut u32) -> u32;
    fn proxy_resolve_shared_queue(
        vm: *const u8,
        vm_size: usize,
        name: *const u8,
        name_size: usize,
        token: *mut u32,
    ) -> u32;
    fn proxy_enqueue_shared_queue(token: u32, data: *const u8, size: usize) -> u32;
    fn proxy_dequeue_shared_queue(token: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, name_size: usize, id: *mut u32) -> u32;
    fn proxy_increment_metric(id: u32, by: i64) -> u32;
    fn proxy_record_metric(id: u32, value: u64) -> u32;
}

fn checked(status: u32) -> Result<(), Failed> {
    match status {
        0 => Ok(()),
        status => Err(Failed(status)),
    }
}

/// Bytes that the host returned: it allocated them through the SDK's `proxy_on_memory_allocate`,
/// with a capacity of just their size, and gave them up to the caller.
fn returned(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Vec<u8>, Failed> {
    let mut data = std::ptr::null_mut();
    let mut size = 0;
    checked(call(&raw mut data, &raw mut size))?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: see above; the pointer is not null, and nobody else owns it.
    Ok(unsafe { Vec::from_raw_parts(data, size, size) })
}

/// The value of a header. Of several lines of that name Envoy gives the first one only, but for
/// names that it knows itself, whose lines it joins.
pub(super) fn header(map: Headers, name: &str) -> Option<Vec<u8>> {
    returned(|value, size| {
        // SAFETY: the name is valid for reads, the returns are valid for writes.
        unsafe { proxy_get_header_map_value(map as u32, name.as_ptr(), name.len(), value, size) }
    })
    .ok()
}

/// Sets a header, replacing all of that name.
pub(super) fn set_header(map: Headers, name: &str, value: &str) -> Result<(), Failed> {
    // SAFETY: both texts are valid for reads.
    checked(unsafe {
        proxy_replace_header_map_value(
            map as u32,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    })
}

/// Removes all headers of a name.
pub(super) fn remove_header(map: Headers, name: &str) -> Result<(), Failed> {
    // SAFETY: the name is valid for reads.
    checked(unsafe { proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len()) })
}

/// The first `size` bytes of the request's buffered body.
pub(super) fn request_body(size: usize) -> Result<Vec<u8>, Failed> {
    buffer(REQUEST_BODY, size)
}

/// The first `size` bytes of the answer to a call, within its callback.
pub(super) fn call_response_body(size: usize) -> Result<Vec<u8>, Failed> {
    buffer(CALL_RESPONSE_BODY, size)
}

/// The plugin configuration, `size` bytes.
pub(super) fn plugin_configuration(size: usize) -> Result<Vec<u8>, Failed> {
    buffer(PLUGIN_CONFIGURATION, size)
}

fn buffer(kind: u32, size: usize) -> Result<Vec<u8>, Failed> {
    returned(|data, returned_size| {
        // SAFETY: the returns are valid for writes.
        unsafe { proxy_get_buffer_bytes(kind, 0, size, data, returned_size) }
    })
}

/// A property by its path.
pub(super) fn property(path: &[&str]) -> Option<Vec<u8>> {
    let path = path.join("\0");
    returned(|value, size| {
        // SAFETY: the path is valid for reads, the returns are valid for writes.
        unsafe { proxy_get_property(path.as_ptr(), path.len(), value, size) }
    })
    .ok()
}

/// All values of a header of the current context's request, joined by commas.
pub(super) fn all_of_header(name: &str) -> Option<Vec<u8>> {
    let first = header(Headers::Request, name)?;
    // A host that knows no such property is taken at its word.
    Some(property(&["request", "headers", name]).unwrap_or(first))
}

/// Makes the following calls act on another context.
///
/// # Errors
/// There is no such context: the stream has ended.
pub(super) fn act_on(context: u32) -> Result<(), Failed> {
    // SAFETY: takes numbers only.
    checked(unsafe { proxy_set_effective_context(context) })
}

/// Resumes the request of the current context.
pub(super) fn resume_request() -> Result<(), Failed> {
    // SAFETY: takes numbers only.
    checked(unsafe { proxy_continue_stream(REQUEST_STREAM) })
}

/// Ticks every `period` milliseconds from now on; 0 stops.
pub(super) fn set_tick(period: u32) {
    // SAFETY: takes numbers only. The host refuses it for no period.
    let _set = unsafe { proxy_set_tick_period_milliseconds(period) };
}

/// The time now. The monotonic clock, since a held request must not wait for a wall clock that
/// was set back.
pub(super) fn now() -> Moment {
    // SAFETY: the clock's id is a valid one; the precision is a hint.
    let nanos = unsafe { wasi::clock_time_get(wasi::CLOCKID_MONOTONIC, 1) };
    Moment(nanos.unwrap_or_default())
}

/// A shared value and its compare-and-swap number.
pub(super) fn shared_data(key: &str) -> Option<(Vec<u8>, u32)> {
    let mut cas = 0;
    let value = returned(|value, size| {
        // SAFETY: the key is valid for reads, the returns are valid for writes.
        unsafe { proxy_get_shared_data(key.as_ptr(), key.len(), value, size, &raw mut cas) }
    });
    Some((value.ok()?, cas))
}

/// Sets a shared value if its compare-and-swap number is still `cas`; a number that was never
/// given out creates the key if it does not exist.
pub(super) fn set_shared_data(key: &str, value: &[u8], cas: u32) -> Result<(), Failed> {
    // SAFETY: key and value are valid for reads.
    checked(unsafe {
        proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas)
    })
}

/// Registers a queue for this VM's root context, and gives its token.
pub(super) fn register_queue(name: &str) -> Result<u32, Failed> {
    let mut token = 0;
    // SAFETY: the name is valid for reads, the token for writes.
    checked(unsafe { proxy_register_shared_queue(name.as_ptr(), name.len(), &raw mut token) })?;
    Ok(token)
}

/// The token of a queue that somebody with this VM's `vm_id` registered.
pub(super) fn resolve_queue(name: &str) -> Result<u32, Failed> {
    let mut token = 0;
    // SAFETY: an empty vm id, which stands for this VM's, is read for no byte; the name is valid
    // for reads, the token for writes.
    checked(unsafe {
        proxy_resolve_shared_queue(name.as_ptr(), 0, name.as_ptr(), name.len(), &raw mut token)
    })?;
    Ok(token)
}

/// Puts a message on a queue.
pub(super) fn enqueue(token: u32, message: &[u8]) -> Result<(), Failed> {
    // SAFETY: the message is valid for reads.
    checked(unsafe { proxy_enqueue_shared_queue(token, message.as_ptr(), message.len()) })
}

/// The next message of a queue; none where it is empty.
pub(super) fn dequeue(token: u32) -> Option<Vec<u8>> {
    returned(|data, size| {
        // SAFETY: the returns are valid for writes.
        unsafe { proxy_dequeue_shared_queue(token, data, size) }
    })
    .ok()
}

/// Defines a metric, or finds it again.
pub(super) fn define_metric(kind: Metric, name: &str) -> Result<u32, Failed> {
    let mut id = 0;
    // SAFETY: the name is valid for reads, the id for writes.
    checked(unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut id) })?;
    Ok(id)
}

/// Adds to a counter.
pub(super) fn increment(id: u32, by: i64) {
    // SAFETY: takes numbers only. A metric that cannot be written is no reason to do anything.
    let _counted = unsafe { proxy_increment_metric(id, by) };
}

/// Records a value in a histogram, or sets a gauge.
pub(super) fn record(id: u32, value: u64) {
    // SAFETY: as above.
    let _recorded = unsafe { proxy_record_metric(id, value) };
}
