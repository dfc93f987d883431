#!/usr/bin/env bash
# demo.sh BUILD_DIR: 4 ranks write 20 steps of 80,000 particles, a tenth of which change their rank
# in each step; then one process, without MPI, compares 1000 trajectories with where the particles
# must have been. Both end with a line of JSON. Fails where a trajectory differs.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:?usage: demo.sh BUILD_DIR}
programs=$build/examples/particles
folder=$(mktemp -d "${TMPDIR:-/tmp}/quire-particles-XXXXXX")
trap 'rm -rf "$folder"' EXIT

"$here/../../scripts/mpirun" -n 4 "$programs/particles" --particles 20000 --steps 20 --movers 0.1 \
  --repository "$folder"
"$programs/trajectory" check --count 1000 "$folder/steps"
