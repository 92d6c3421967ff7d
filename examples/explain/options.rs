//! The command line.

use std::ffi::OsString;
use std::num::NonZeroU32;

use anyhow::{Context, anyhow, bail};
use burst_prefix_cache::prefix::{DEFAULT_MAX_BLOCKS, Layout};
use lexopt::{Arg, Parser, ValueExt};

pub(crate) const HELP: &str = "\
Answers, outside Envoy, why requests do or don't go together.

Usage: explain prompt --path PATH [OPTIONS] < body.json
       explain place [--why] < batches.jsonl

prompt: reads the body of one POST request and writes, as JSON, its API, its model, and for each
prompt its length and the hash of each block. Two prompts match as far as their blocks are equal.
Where there is no prompt to match, \"prompts\" is empty and \"reason\" says why.
  --path PATH              what the request is sent to, such as /v1/chat/completions
  --block-size-tokens N    the filter's blockSizeTokens, at least 1          [default: 64]
  --max-prefix-tokens N    the filter's maxPrefixTokensToMatch, 0 for 2048 blocks, or at least
                           a block                                           [default: 0]
  --why                    adds \"seed\", the fields that the hashes start from, and \"weight\",
                           the samples asked for

place: reads one batch a line, as JSON, and writes each back with the replica of each request in
\"assigned\".
  --why                    adds \"why\": the units that were placed, in order, and which rule chose
                           each replica

  -h, --help               print this
";

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Prompt {
        path: String,
        layout: Layout,
        why: bool,
    },
    Place {
        why: bool,
    },
}

/// Reads the arguments, of which the first is the program.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<Task> {
    let mut args = Parser::from_iter(args);
    match args.next()? {
        Some(Arg::Value(command)) if command == "prompt" => prompt(&mut args),
        Some(Arg::Value(command)) if command == "place" => place(&mut args),
        Some(Arg::Long("help") | Arg::Short('h')) => Ok(Task::Help),
        Some(Arg::Value(command)) if command == "help" => Ok(Task::Help),
        Some(Arg::Value(command)) => {
            bail!(
                "{:?} is no command; there are prompt and place",
                command.to_string_lossy()
            )
        }
        Some(option) => Err(option.unexpected().into()),
        None => bail!("a command is missing, prompt or place"),
    }
}

fn place(args: &mut Parser) -> anyhow::Result<Task> {
    let mut why = false;
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Long("why") => why = true,
            Arg::Long("help") | Arg::Short('h') => return Ok(Task::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Task::Place { why })
}

fn prompt(args: &mut Parser) -> anyhow::Result<Task> {
    let mut path = None;
    let mut block_size = Layout::default().block_size_tokens;
    let mut max_tokens = 0;
    let mut why = false;
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Long("path") => {
                let value = args.value()?;
                path = Some(
                    value
                        .into_string()
                        .map_err(|_| anyhow!("--path takes UTF-8"))?,
                );
            }
            Arg::Long("block-size-tokens") => {
                let number = number(args, "--block-size-tokens", "from 1")?;
                block_size = NonZeroU32::new(number)
                    .with_context(|| refused("--block-size-tokens", "from 1", &number))?;
            }
            Arg::Long("max-prefix-tokens") => {
                max_tokens = number(args, "--max-prefix-tokens", "from 0")?;
            }
            Arg::Long("why") => why = true,
            Arg::Long("help") | Arg::Short('h') => return Ok(Task::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    if max_tokens != 0 && max_tokens < block_size.get() {
        bail!(
            "--max-prefix-tokens is {max_tokens}; it takes 0 for {DEFAULT_MAX_BLOCKS} blocks, or at \
             least a block, {block_size}"
        );
    }
    Ok(Task::Prompt {
        path: path.context("prompt needs --path, such as --path /v1/chat/completions")?,
        layout: Layout::new(block_size, max_tokens),
        why,
    })
}

fn number(args: &mut Parser, option: &str, range: &str) -> anyhow::Result<u32> {
    let value = args.value()?;
    value
        .parse()
        .map_err(|_| anyhow!(refused(option, range, &value.to_string_lossy())))
}

fn refused(option: &str, range: &str, value: &dyn std::fmt::Display) -> String {
    format!(
        "{option} is {value}; it takes a whole number {range} to {}",
        u32::MAX
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        let words = std::iter::once("explain").chain(line.split_whitespace());
        parse(words.map(OsString::from)).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_prompt_is_cut_as_the_filter_does_unless_told_otherwise() {
        let task = |layout| {
            Ok(Task::Prompt {
                path: "/x".into(),
                layout,
                why: false,
            })
        };
        assert_eq!(parsed("prompt --path /x"), task(Layout::default()));
        assert_eq!(
            parsed("prompt --max-prefix-tokens=40 --block-size-tokens 16 --path=/x"),
            task(Layout::new(NonZeroU32::new(16).unwrap(), 40))
        );
    }

    #[test]
    fn help_is_told_wherever_it_is_asked_for() {
        for line in ["--help", "-h", "help", "prompt --help", "place --why -h"] {
            assert_eq!(parsed(line), Ok(Task::Help), "{line}");
        }
    }

    #[test]
    fn place_may_tell_why() {
        assert_eq!(parsed("place"), Ok(Task::Place { why: false }));
        assert_eq!(parsed("place --why"), Ok(Task::Place { why: true }));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (line, message) in [
            ("", "a command is missing, prompt or place"),
            (
                "plaice",
                "\"plaice\" is no command; there are prompt and place",
            ),
            ("--why", "invalid option '--why'"),
            ("place --path /x", "invalid option '--path'"),
            ("place batch", "unexpected argument \"batch\""),
            (
                "prompt",
                "prompt needs --path, such as --path /v1/chat/completions",
            ),
            ("prompt --path", "missing argument for option '--path'"),
            (
                "prompt --path /x body.json",
                "unexpected argument \"body.json\"",
            ),
            (
                "prompt --path /x --block-size-tokens 0",
                "--block-size-tokens is 0; it takes a whole number from 1 to 4294967295",
            ),
            (
                "prompt --path /x --block-size-tokens 1e3",
                "--block-size-tokens is 1e3; it takes a whole number from 1 to 4294967295",
            ),
            (
                "prompt --path /x --max-prefix-tokens=-1",
                "--max-prefix-tokens is -1; it takes a whole number from 0 to 4294967295",
            ),
            (
                "prompt --path /x --max-prefix-tokens 63",
                "--max-prefix-tokens is 63; it takes 0 for 2048 blocks, or at least a block, 64",
            ),
        ] {
            assert_eq!(parsed(line), Err(message.to_owned()), "{line}");
        }
    }
}
