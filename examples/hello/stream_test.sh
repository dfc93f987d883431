#!/usr/bin/env bash
# stream_test.sh HELLO_STREAM: runs the program in a folder of its own, twice (the second time its
# stream goes on), and looks at what it says.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for before in 0 3; do
  QUIRE_STREAM_LOG_BYTES=1MiB "$1" >said
  for step in 1 2 3; do
    grep -qx "snapshot $((before + step)): step $step" said || { cat said; exit 1; }
  done
done
echo "both runs are right"
