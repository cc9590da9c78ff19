#!/usr/bin/env bash
# Runs a program as several processes on this machine by mpirun. meshwork finds them by the variables that mpirun sets.
#
#   by_mpirun.sh build/release/examples/mlp_mnist --mesh batch=4,model=2
#
# PROCESSES: how many, 2 by default. If one process fails, mpirun ends the others and fails.
set -euo pipefail
if [ $# -eq 0 ]; then
  echo "usage: [PROCESSES=N] $0 PROGRAM [ARGS...]" >&2
  exit 2
fi
readonly processes=${PROCESSES:-2}

# mpirun would bind each of two processes to one core. Unbound, meshwork divides the cores of the machine among them.
options=(-n "$processes" --bind-to none)
# Open MPI refuses to start more processes than there are cores, unless it is told so.
if [ "$processes" -gt "$(nproc)" ] && mpirun --version 2>/dev/null | grep -q "Open MPI"; then options+=(--oversubscribe); fi
# mpirun ends its processes when it is interrupted or terminated.
exec mpirun "${options[@]}" "$@"
