#!/usr/bin/env bash
# demo.sh BUILD_DIR [PICTURES]: 4 ranks compute 500 steps of a plate and store every tenth;
# heat_watch reads each snapshot meanwhile, compares it with what the ranks said of it, and paints
# it into the folder PICTURES, if one is given. The last line but one is what the watcher saw, the
# last what the simulation says; fails where they differ.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:?usage: demo.sh BUILD_DIR [PICTURES]}
programs=$build/examples/heat
folder=$(mktemp -d "${TMPDIR:-/tmp}/quire-heat-XXXXXX")
trap 'rm -rf "$folder"' EXIT
pictures=${2:-$folder/pictures}
mkdir -p "$pictures"

"$programs/heat_watch" --place "$folder/streams" --pictures "$pictures" >"$folder/watched" &
watcher=$!
"$here/../../scripts/mpirun" -n 4 "$programs/heat" --place "$folder/streams" --height 240 \
  --width 320 --steps 500 --every 10 --keep 60 >"$folder/simulated"
wait "$watcher"
cat "$folder/watched" "$folder/simulated"
hash_of() { sed -n 's/.*"hash":"\([0-9a-f]*\)".*/\1/p' "$1" | tail -n 1; }
[ "$(hash_of "$folder/watched")" = "$(hash_of "$folder/simulated")" ] ||
  { echo "demo.sh: the watcher's last temperatures are others" >&2; exit 1; }
