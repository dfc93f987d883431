#!/usr/bin/env bash
# concept_test.sh PROGRAM SOURCE RANKS: runs the program in a folder of its own, twice (the second
# time it finds what the first one left). Its output must be the lines that the comment on top of
# its source shows, which are indented there.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
mpirun=$(cd "$(dirname "$0")/../.." && pwd)/scripts/mpirun
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
sed -n '/^#include/q; s,^//   ,,p' "$2" >expected
[ -s expected ] || { echo "$2 does not show what the program prints"; exit 1; }
for run in first second; do
  "$mpirun" -n "$3" "$1" >said
  diff expected said
  echo "the $run run on $3 ranks is right"
done
