#!/usr/bin/env bash
# Runs a program on four hosts that this machine plays: network namespaces with an address each, joined by a bridge.
#
#   NETNS_HOSTS=/path/to/netns-hosts netns.sh build/release/examples/mlp_mnist --mesh batch=8
#
# NETNS_HOSTS is a tool that makes such hosts: `up N` makes hosts 1 to N at 10.77.0.1 to 10.77.0.N, `exec I COMMAND...`
# runs a command on host I, `down` ends what runs there and removes the hosts. HOSTS_PREFIX keeps them apart from others.
# Needs root. Exit code 77 if the tool is missing, 1 if a process fails.
set -euo pipefail
if [ $# -eq 0 ]; then
  echo "usage: NETNS_HOSTS=TOOL [PORT=P] $0 PROGRAM [ARGS...]" >&2
  exit 2
fi
if [ -z "${NETNS_HOSTS:-}" ] || [ ! -x "$NETNS_HOSTS" ]; then
  echo "netns.sh: NETNS_HOSTS names no program that makes hosts of network namespaces; nothing is run." >&2
  exit 77
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "netns.sh: network namespaces need root; nothing is run." >&2
  exit 77
fi
readonly hosts=4 port=${PORT:-4444}
# The processes are on several hosts, so a job needs a token; this one is of this run alone.
export MESHWORK_TOKEN=${MESHWORK_TOKEN:-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')}
export HOSTS_PREFIX=${HOSTS_PREFIX:-mwx}

end_all() {
  trap '' INT TERM
  "$NETNS_HOSTS" down || true
  { wait || true; } 2>/dev/null  # without a line for each that was killed
}
trap end_all EXIT
# A second signal must not interrupt end_all.
trap 'trap "" INT TERM; exit 130' INT
trap 'trap "" INT TERM; exit 143' TERM
"$NETNS_HOSTS" up "$hosts"

workers=
for ((host = 1; host <= hosts; ++host)); do workers+="${workers:+, }\"10.77.0.$host:$port\""; done
for ((host = 1; host <= hosts; ++host)); do
  TF_CONFIG="{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $((host - 1))}}" \
    "$NETNS_HOSTS" exec "$host" "$@" </dev/null &
done

for ((ended = 0; ended < hosts; ++ended)); do
  wait -n && continue
  # The others are told why, and say so.
  for ((tenth = 0; tenth < 20; ++tenth)); do
    [ -n "$(jobs -pr)" ] || break
    sleep 0.1
  done
  exit 1
done
