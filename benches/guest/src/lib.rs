//! The rows of the bench as WebAssembly, for `benches/placement`.
//!
//! The host calls [`prepare`] once for a row and then [`run`] as often as it likes. A module of
//! its own, so that the filter that is shipped exports nothing for benches.

#![cfg(target_arch = "wasm32")]

#[path = "../../placement/rows.rs"]
#[allow(dead_code, reason = "names and references are for the host's report")]
mod rows;
#[path = "../../placement/work.rs"]
mod work;

use std::cell::RefCell;

use work::Work;

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Makes the input of this row. 1 if there is such a row, 0 if not.
#[unsafe(no_mangle)]
pub extern "C" fn prepare(row: u32) -> u32 {
    let rows = rows::all();
    let work = rows.get(row as usize).map(|row| row.task.prepare());
    let is_some = work.is_some();
    WORK.with(|place| *place.borrow_mut() = work);
    is_some.into()
}

/// Does the work of the row that was prepared last, this many times.
#[unsafe(no_mangle)]
pub extern "C" fn run(times: u32) {
    WORK.with(|work| {
        if let Some(work) = &*work.borrow() {
            work.with(|run| run(times.into()));
        }
    });
}
