//! Answers, outside Envoy, why requests do or don't go together.
//!
//! ```text
//! cargo run --release --example explain -- place [--why] < batches.jsonl
//! ```

mod place;

use std::process::ExitCode;

const USAGE: &str = "\
usage: explain place [--why] < batches.jsonl

  place    reads one batch a line, as JSON, and writes each back with the replica of each
           request in \"assigned\"
  --why    adds \"why\": the units that were placed, in order, and which rule chose each replica
";

/// The exit status for arguments that make no sense.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["place"] => place::run(std::io::stdin().lock(), std::io::stdout().lock(), false),
        ["place", "--why"] => place::run(std::io::stdin().lock(), std::io::stdout().lock(), true),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(BAD_USAGE);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("explain: {error}");
            ExitCode::FAILURE
        }
    }
}
