#!/usr/bin/env bash
# demo.sh BUILD_DIR: LAMMPS melts 4000 atoms on 4 ranks, each of which dumps its atoms every 10 of
# 100 steps; 4 ranks feed the dumps into a dataset; what it answers is compared with the dumps. The
# last line is the result as JSON. Fails where an answer differs; exits with 77 where there is no
# LAMMPS (Debian's package lammps).
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mpirun=$here/../../scripts/mpirun
build=${1:?usage: demo.sh BUILD_DIR}

lmp=$(command -v lmp) || { echo "LAMMPS is not there: install the package lammps"; exit 77; }
# LAMMPS is started by the MPI that it was built with, whichever Quire has.
flavor=openmpi
if ldd "$lmp" | grep -q libmpich; then flavor=mpich; fi
launcher=$(command -v "mpiexec.$flavor") ||
  { echo "LAMMPS was built with another MPI, whose mpiexec.$flavor is not there"; exit 77; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/quire-melt-XXXXXX")
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/dumps"
QUIRE_MPIEXEC=$launcher "$mpirun" -n 4 "$lmp" -in "$here/in.melt" -var dumps "$folder/dumps" \
  -log "$folder/log.lammps"
"$mpirun" -n 4 "$build/examples/lammps/feed" "$folder/dumps" --repository "$folder/repository"
"$here/check_dumps.py" --quire "$build/tools/quire/quire" "$folder/dumps" "$folder/repository/atoms"
