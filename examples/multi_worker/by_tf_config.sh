#!/usr/bin/env bash
# Runs a program as the workers of a cluster on this machine, one process each. TF_CONFIG tells every process which
# workers there are and which one it is.
#
#   by_tf_config.sh build/release/examples/mlp_mnist --mesh batch=4,model=2
#
# PROCESSES: how many, 2 by default. PORT: the first of their ports at 127.0.0.1, 4444 by default. EVALUATOR=1: one process
# more, an evaluator (train_and_evaluate).
# If one process fails, the others are ended, and the exit code is 1.
set -euo pipefail
if [ $# -eq 0 ]; then
  echo "usage: [PROCESSES=N] [PORT=P] [EVALUATOR=1] $0 PROGRAM [ARGS...]" >&2
  exit 2
fi
readonly processes=${PROCESSES:-2} port=${PORT:-4444}

# Ends what still runs. Every process leads a group of its own, so that what it has started ends with it; until setsid has
# run, there is only the process.
end_all() {
  trap '' INT TERM
  local pid
  for pid in $(jobs -pr); do kill -KILL -- "-$pid" 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true; done
  { wait || true; } 2>/dev/null  # without a line for each that was killed
}
trap end_all EXIT
# A second signal must not interrupt end_all.
trap 'trap "" INT TERM; exit 130' INT
trap 'trap "" INT TERM; exit 143' TERM

cluster='' tasks=()
for ((index = 0; index < processes; ++index)); do
  cluster+="${cluster:+, }\"127.0.0.1:$((port + index))\""
  tasks+=("{\"type\": \"worker\", \"index\": $index}")
done
cluster="\"worker\": [$cluster]"
if [ "${EVALUATOR:-0}" = 1 ]; then
  cluster+=", \"evaluator\": [\"127.0.0.1:$((port + processes))\"]"
  tasks+=('{"type": "evaluator", "index": 0}')
fi
for task in "${tasks[@]}"; do
  TF_CONFIG="{\"cluster\": {$cluster}, \"task\": $task}" setsid "$@" </dev/null &
done

for ((ended = 0; ended < ${#tasks[@]}; ++ended)); do
  wait -n && continue
  # The others are told why, and say so.
  for ((tenth = 0; tenth < 20; ++tenth)); do
    [ -n "$(jobs -pr)" ] || break
    sleep 0.1
  done
  exit 1
done
