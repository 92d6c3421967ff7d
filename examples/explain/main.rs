//! Answers, outside Envoy, why requests do or don't go together.
//!
//! ```text
//! cargo run --release --example explain -- prompt --path /v1/chat/completions < body.json
//! cargo run --release --example explain -- place [--why] < batches.jsonl
//! ```

mod options;
mod place;
mod prompt;

use std::io::{self, Write};
use std::process::ExitCode;

use options::Task;

/// The exit status for arguments that make no sense.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let task = match options::parse(std::env::args_os()) {
        Ok(task) => task,
        Err(error) => {
            eprintln!("explain: {error:#}; --help tells how it is used");
            return ExitCode::from(BAD_USAGE);
        }
    };
    let (input, output) = (io::stdin().lock(), io::stdout().lock());
    let result = match task {
        Task::Help => write!({ output }, "{}", options::HELP).map_err(|error| error.to_string()),
        Task::Place { why } => place::run(input, output, why),
        Task::Prompt { path, layout, why } => prompt::run(input, output, &path, layout, why),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("explain: {error}");
            ExitCode::FAILURE
        }
    }
}
