#!/usr/bin/env bash
# checkpoint_test.sh HELLO_CHECKPOINT: runs the program in a folder of its own, three times (it
# keeps two checkpoints), and looks at what it says and leaves.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for left in 1 "1 2" "2 3"; do
  "$1" >said
  grep -qx "the checkpoint says hello" said || { cat said; exit 1; }
  found=$(cd hello-checkpoints/greetings && echo *)
  [ "$found" = "$left" ] || { echo "checkpoints $found, not $left"; exit 1; }
done
echo "all runs are right"
