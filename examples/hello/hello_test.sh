#!/usr/bin/env bash
# hello_test.sh HELLO RANKS...: runs the program on each of these numbers of ranks in a folder of its
# own, twice (the second time the repository is there already). Looks at what it says, and at what
# the repository takes on the device in the end.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
hello=$1
shift
mpirun=$(cd "$(dirname "$0")/../.." && pwd)/scripts/mpirun
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
repository_bytes_max=$((1 << 20))
run_on() {
  ranks=$1
  "$mpirun" -n "$ranks" "$hello" >said
  rank=0
  while [ "$rank" -lt "$ranks" ]; do
    grep -qx "rank 0 says hello to rank $rank" said || { cat said; exit 1; }
    rank=$((rank + 1))
  done
  echo "the $2 run on $ranks ranks is right"
}
for ranks in "$@"; do
  for run in first second; do run_on "$ranks" "$run"; done
done
bytes=$(du -s --block-size=1 hello-repository | cut -f 1)
echo "the repository takes $bytes bytes"
[ "$bytes" -le "$repository_bytes_max" ]
