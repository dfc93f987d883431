#!/usr/bin/env bash
# hello_test.sh HELLO RANKS: runs the program on so many ranks in a folder of its own, twice (the
# second time the repository is there already), and looks at what it says.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
hello=$1
ranks=$2
mpirun=$(cd "$(dirname "$0")/../.." && pwd)/scripts/mpirun
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for run in first second; do
  "$mpirun" -n "$ranks" "$hello" >said
  rank=0
  while [ "$rank" -lt "$ranks" ]; do
    grep -qx "rank 0 says hello to rank $rank" said || { cat said; exit 1; }
    rank=$((rank + 1))
  done
  echo "the $run run is right"
done
