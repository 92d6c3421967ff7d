//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use hyper::header::HeaderValue;
use lexopt::{Arg, Parser, ValueExt};

pub(crate) const HELP: &str = "\
A stand-in for a vLLM replica: the APIs of OpenAI and Anthropic, a prefix cache in blocks, and a
clock instead of a model. It needs no GPU and tells what it saw.

Usage: cargo run --release --example replica -- [OPTIONS]

Options:
  --listen IP:PORT            where to listen; port 0 takes a free one. The address is printed
                              as `listening on IP:PORT`        [default: 127.0.0.1:8000]
  --name NAME                 goes into `x-served-by`          [default: the address]
  --model NAME                the model it says it serves; requests may name any
                                                               [default: stand-in]
  --cache-blocks N            blocks that the prefix cache holds, at least 1 [default: 4096]
  --block-tokens N            tokens in a block, at least 1    [default: 16]
  --prefill-us-per-token US   time to prefill a token, 0 to 1000000, may be a fraction
                                                               [default: 50]
  --decode-us-per-token US    time from a token to the next, 0 to 1000000, may be a fraction
                                                               [default: 2000]
  --max-running N             sequences that run at once, the rest waits, at least 1
                                                               [default: 256]
  --prefill-parallel N        prompts prefilled at once, 1 to 1024 [default: 1]
  --record FILE               append a JSON line for each request to FILE
  -h, --help                  print this

Routes: POST /v1/completions, /v1/chat/completions, /v1/responses, /v1/messages;
GET /v1/models, /health, /metrics.
Four bytes of text count as one token; token ids are taken as they are.
";

/// What a replica is told to be.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) listen: SocketAddr,
    pub(crate) name: Option<HeaderValue>,
    pub(crate) model: String,
    pub(crate) cache_blocks: NonZeroUsize,
    pub(crate) block_tokens: NonZeroUsize,
    pub(crate) prefill_per_token: Duration,
    pub(crate) decode_per_token: Duration,
    pub(crate) max_running: NonZeroUsize,
    pub(crate) prefill_parallel: NonZeroUsize,
    pub(crate) record: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let count = |n| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN);
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8000)),
            name: None,
            model: "stand-in".to_owned(),
            cache_blocks: count(4096),
            block_tokens: count(16),
            prefill_per_token: Duration::from_micros(50),
            decode_per_token: Duration::from_millis(2),
            max_running: count(256),
            prefill_parallel: count(1),
            record: None,
        }
    }
}

impl Options {
    /// `None` when help was asked for.
    pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<Option<Self>> {
        let mut options = Self::default();
        let mut args = Parser::from_iter(args);
        while let Some(arg) = args.next()? {
            let Arg::Long(option) = arg else {
                if matches!(arg, Arg::Short('h')) {
                    return Ok(None);
                }
                bail!("{}; {SEE_HELP}", arg.unexpected());
            };
            let option = option.to_owned();
            match option.as_str() {
                "help" => return Ok(None),
                "listen" => options.listen = value(&mut args, &option, "IP:PORT")?,
                "name" => options.name = Some(value(&mut args, &option, "visible ASCII")?),
                "model" => options.model = value(&mut args, &option, "a name")?,
                "cache-blocks" => options.cache_blocks = at_least_one(&mut args, &option)?,
                "block-tokens" => options.block_tokens = at_least_one(&mut args, &option)?,
                "prefill-us-per-token" => {
                    options.prefill_per_token = microseconds(&mut args, &option)?;
                }
                "decode-us-per-token" => {
                    options.decode_per_token = microseconds(&mut args, &option)?;
                }
                "max-running" => options.max_running = at_least_one(&mut args, &option)?,
                "prefill-parallel" => {
                    options.prefill_parallel = at_least_one(&mut args, &option)?;
                    if options.prefill_parallel.get() > 1024 {
                        bail!("--{option} takes 1 to 1024");
                    }
                }
                "record" => options.record = Some(args.value()?.into()),
                _ => bail!("--{option} is no option of this program; {SEE_HELP}"),
            }
        }
        Ok(Some(options))
    }
}

const SEE_HELP: &str = "--help lists the options";

fn value<T: FromStr>(args: &mut Parser, option: &str, expected: &str) -> anyhow::Result<T> {
    let raw = args
        .value()
        .with_context(|| format!("--{option} takes {expected}"))?
        .string()
        .with_context(|| format!("--{option} takes {expected}"))?;
    match raw.parse() {
        Ok(value) => Ok(value),
        Err(_) => bail!("--{option} takes {expected}, not {raw:?}"),
    }
}

fn at_least_one(args: &mut Parser, option: &str) -> anyhow::Result<NonZeroUsize> {
    value(args, option, "a whole number, at least 1")
}

fn microseconds(args: &mut Parser, option: &str) -> anyhow::Result<Duration> {
    const EXPECTED: &str = "microseconds, 0 to 1000000";
    let us: f64 = value(args, option, EXPECTED)?;
    if !(0.0..=1e6).contains(&us) {
        bail!("--{option} takes {EXPECTED}, not {us}");
    }
    Ok(Duration::from_secs_f64(us / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<Option<Options>> {
        let words = ["replica"].into_iter().chain(line.split_whitespace());
        Options::parse(words.map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        let options = parse("--listen 127.0.0.1:0 --name=r1 --prefill-us-per-token 0.5")
            .unwrap()
            .unwrap();
        assert_eq!(options.listen.port(), 0);
        assert_eq!(options.name.unwrap(), "r1");
        assert_eq!(options.prefill_per_token, Duration::from_nanos(500));
    }

    #[test]
    fn a_bad_option_is_named_with_what_it_takes() {
        for (line, told) in [
            ("--cache-blocks 0", "--cache-blocks takes a whole number"),
            ("--listen here", "--listen takes IP:PORT, not \"here\""),
            ("--decode-us-per-token -1", "0 to 1000000, not -1"),
            ("--colour red", "--colour is no option"),
            ("--max-running", "--max-running takes"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(told), "{line}: {error}");
        }
    }

    #[test]
    fn help_is_no_error() {
        assert!(parse("--help").unwrap().is_none());
        assert!(parse("-h").unwrap().is_none());
    }
}
