#!/usr/bin/env bash
# Fires a burst of completions that share prompts in groups, and shows where each group landed.
# Needs bash, curl 7.66 or later, and python3.
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: examples/burst.sh [OPTIONS]

Sends groups of requests that share a prompt, and some that share nothing, all at once and in
mixed order, and shows for each group which replicas answered (x-served-by) and how much of its
prompt they had cached. Ends with 0 when every answer was a 200, with 1 otherwise.

Options:
  --url URL          where to send them                    [default: http://127.0.0.1:10000]
  --groups N         groups, each with a prompt of its own [default: 8]
  --samples N        requests in a group                   [default: 8]
  --lone N           requests that share no prompt         [default: 8]
  --prompt-bytes N   length of each prompt, at least 64    [default: 6000]
  --max-tokens N     tokens to generate for each request   [default: 8]
  --api API          chat or completions                   [default: chat]
  --model NAME       the model to ask for                  [default: stand-in]
  --stream           ask for streamed answers
  --seed TEXT        the same prompts and order for the same text; other prompts in each run
                     without it
  --timeout SECONDS  give up on an answer after that long  [default: 60]
  -h, --help         print this
HELP
}

fail() {
  echo "burst.sh: $*" >&2
  exit 2
}

url=http://127.0.0.1:10000
groups=8 samples=8 lone=8
prompt_bytes=6000 max_tokens=8
api=chat model=stand-in stream=no
seed="$(date +%s%N)-$$" timeout=60

while [ $# -gt 0 ]; do
  option=$1
  shift
  case $option in
    -h | --help) usage; exit 0 ;;
    --stream) stream=yes; continue ;;
    --*=*) value=${option#*=} option=${option%%=*} ;;
    *)
      [ $# -gt 0 ] || fail "$option needs a value, or is no option; --help lists them"
      value=$1
      shift
      ;;
  esac
  case $option in
    --url) url=${value%/} ;;
    --model) model=$value ;;
    --seed) seed=$value ;;
    --api)
      case $value in
        chat | completions) api=$value ;;
        *) fail "--api takes chat or completions, not $value" ;;
      esac
      ;;
    --groups | --samples | --lone | --prompt-bytes | --max-tokens | --timeout)
      [[ $value =~ ^[0-9]{1,7}$ ]] || fail "$option takes a whole number, not $value"
      name=${option#--}
      printf -v "${name//-/_}" '%d' "$((10#$value))"
      ;;
    *) fail "$option is no option; --help lists them" ;;
  esac
done
[ "$prompt_bytes" -ge 64 ] || fail "--prompt-bytes takes at least 64, not $prompt_bytes"
total=$((groups * samples + lone))
[ "$total" -gt 0 ] || fail "that makes no request; raise --groups and --samples, or --lone"
for tool in curl python3; do
  command -v "$tool" >/dev/null || fail "$tool is needed, and is not installed"
done

work=$(mktemp -d)
clean() {
  local left
  left=$(jobs -pr)
  # Word splitting is wanted: one id a word.
  # shellcheck disable=SC2086
  [ -z "$left" ] || kill $left 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A body for each request, and curl's instructions. A curl runs at most 300 transfers at once, so
# a larger burst is spread over several that start together.
python3 - "$work" "$url" "$api" "$model" "$stream" "$seed" "$timeout" \
  "$groups" "$samples" "$lone" "$prompt_bytes" "$max_tokens" <<'PYTHON'
import json, random, sys

work, url, api, model, stream, seed, timeout = sys.argv[1:8]
groups, samples, lone, prompt_bytes, max_tokens = map(int, sys.argv[8:])
PER_CURL = 250
words = "the a red old quick proof answer number sum of and so then if step let prime".split()


def prompt(name):
    """Text of its own from the first word on."""
    rng = random.Random(f"{seed}/{name}")
    parts, size = [f"Problem {rng.getrandbits(64):016x}:"], 25
    while size < prompt_bytes:
        parts.append(rng.choice(words))
        size += len(parts[-1]) + 1
    return " ".join(parts)[:prompt_bytes]


def body(text, sample):
    fields = {"model": model, "max_tokens": max_tokens, "temperature": 1.0, "seed": sample}
    if api == "chat":
        fields["messages"] = [{"role": "user", "content": text}]
    else:
        fields["prompt"] = text
    if stream == "yes":
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(fields)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


requests = []
for group in range(groups):
    text = prompt(f"group {group}")
    requests += [(f"group {group + 1}", body(text, sample)) for sample in range(samples)]
requests += [("lone", body(prompt(f"lone {i}"), 0)) for i in range(lone)]
random.Random(seed).shuffle(requests)

path = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}[api]
with open(f"{work}/groups", "w") as names:
    for i, (name, text) in enumerate(requests):
        print(name, file=names)
        with open(f"{work}/{i}.body", "w") as out:
            out.write(text)
curls = -(-len(requests) // PER_CURL)
for curl in range(curls):
    with open(f"{work}/{curl}.curl", "w") as out:
        # Dealt out in turns, so that every curl takes part in the beginning of the burst.
        for i in range(curl, len(requests), curls):
            lines = [
                ("url", url + path),
                ("header", "content-type: application/json"),
                ("data-binary", f"@{work}/{i}.body"),
                ("output", f"{work}/{i}.answer"),
                ("dump-header", f"{work}/{i}.headers"),
                ("write-out", f"{i} %{{time_total}}\\n"),
                ("max-time", timeout),
            ]
            if i >= curls:
                out.write("next\n")
            out.writelines(f"{option} = {quoted(value)}\n" for option, value in lines)
            out.write("silent\n")
PYTHON

# curl's own failures show below as requests without an answer.
for instructions in "$work"/*.curl; do
  curl --parallel --parallel-immediate --parallel-max 300 \
    --config "$instructions" >"$instructions.times" 2>"$instructions.errors" &
done
wait

python3 - "$work" "$stream" <<'PYTHON'
import collections, glob, json, sys

work, stream = sys.argv[1:]


def headers(i):
    """The status and the headers of an answer; (0, {}) where none came."""
    try:
        with open(f"{work}/{i}.headers", encoding="latin-1") as lines:
            status, found = 0, {}
            for line in lines:
                if line.startswith("HTTP/"):
                    status, found = int(line.split()[1]), {}
                elif ":" in line:
                    name, value = line.split(":", 1)
                    found[name.lower()] = value.strip()
            return status, found
    except (OSError, ValueError, IndexError):
        return 0, {}


def answer(i):
    try:
        with open(f"{work}/{i}.answer", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def usage(text):
    """An answer's usage, or None where the answer is not whole."""
    try:
        if stream == "yes":
            events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
            if events[-1:] != ["[DONE]"]:
                return None
            return next((u for e in events[-2::-1] if (u := json.loads(e).get("usage"))), {})
        return json.loads(text)["usage"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


# A replica that nobody named: it is together with none.
UNKNOWN = "unknown"


class Group:
    def __init__(self):
        self.replicas = collections.Counter()
        self.requests = self.prompt = self.cached = 0


groups = {}
statuses, broken, example = collections.Counter(), 0, ""
with open(f"{work}/groups") as names:
    for i, name in enumerate(names.read().splitlines()):
        group = groups.setdefault(name, Group())
        group.requests += 1
        status, found = headers(i)
        statuses[status] += 1
        if status != 200:
            example = example or answer(i)[:300]
            continue
        # The stand-in names itself; with debugResponseHeaders the filter names any replica.
        served = found.get("x-served-by") or found.get("x-gateway-destination-endpoint-served")
        group.replicas[served or UNKNOWN] += 1
        counts = usage(answer(i))
        if counts is None:
            broken += 1
            continue
        group.prompt += counts.get("prompt_tokens") or 0
        group.cached += (counts.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


def order(name):
    return (1, 0) if name == "lone" else (0, int(name.split()[1]))


def line(name, group, replicas):
    print(f"{name:<10} {group.requests:>8} {group.prompt:>14} {group.cached:>14}  {replicas}")


print(f"{'':<10} {'requests':>8} {'prompt tokens':>14} {'cached tokens':>14}  replicas")
all_groups, together = Group(), 0
for name in sorted(groups, key=order):
    group = groups[name]
    counted = sorted(group.replicas.items(), key=lambda item: (-item[1], item[0]))
    line(name, group, ", ".join(f"{replica} x{n}" for replica, n in counted) or "none")
    together += name != "lone" and len(group.replicas) == 1 and UNKNOWN not in group.replicas
    for field in ("requests", "prompt", "cached"):
        setattr(all_groups, field, getattr(all_groups, field) + getattr(group, field))
    all_groups.replicas += group.replicas
line("all", all_groups, f"{len(all_groups.replicas)} in use")

times = []
for path in glob.glob(f"{work}/*.times"):
    with open(path) as lines:
        times += [float(found.split()[1]) for found in lines if len(found.split()) == 2]
times.sort()
print()
print(f"groups on one replica: {together} of {len(groups) - ('lone' in groups)}")
if UNKNOWN in all_groups.replicas:
    print("no header names the replica: set the filter's debugResponseHeaders to true")
if times:
    p50, p99 = (times[min(len(times) - 1, int(len(times) * q))] for q in (0.5, 0.99))
    print(f"time to the whole answer: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
bad = sum(n for status, n in statuses.items() if status != 200)
told = ", ".join(f"{status or 'no answer'} x{n}" for status, n in sorted(statuses.items()) if status != 200)
print(f"not 200: {bad}" + (f" ({told})" if told else ""))
if broken:
    print(f"answers that were not whole: {broken}")
if example:
    print(f"one of them: {example}")
sys.exit(1 if bad or broken else 0)
PYTHON
