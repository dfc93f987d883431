#!/usr/bin/env bash
# later_test.sh SOURCES: configures SOURCES on a machine without a Fortran compiler and ccache, and
# again in the same folder once both are there: then both are used.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
sources=$1
for program in gfortran ccache; do
  if ! command -v "$program" >/dev/null; then
    echo "skipped: there is no $program to be found later"
    exit 77
  fi
done
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
unset FC CC CXX CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
build=$home/build

# Links to the programs of $PATH but these: all that CMake finds, also those processes of CMake that
# look for a compiler (they inherit the toolchain file's name from the environment).
mkdir "$home/bin"
IFS=: read -r -a folders <<<"$PATH"
folders+=(/usr/local/bin /usr/local/sbin /usr/bin /usr/sbin /bin /sbin)
for folder in "${folders[@]}"; do
  ln -s "$folder"/* "$home/bin/" 2>/dev/null || true  # those of earlier folders stay
done
rm -f "$home"/bin/{*fortran*,f77*,f90*,f95*,flang*,ccache*}
printf 'set(CMAKE_IGNORE_PATH "%s")\n' "$(IFS=';' && echo "${folders[*]}")" >"$home/machine.cmake"
export CMAKE_TOOLCHAIN_FILE=$home/machine.cmake

# configure [PATH]
configure() {
  if ! PATH=${1:-$PATH} cmake -S "$sources" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DQUIRE_MPI=OFF -DQUIRE_BUILD_TESTS=OFF -DQUIRE_BUILD_BENCH=OFF -DQUIRE_BUILD_EXAMPLES=OFF \
    -DQUIRE_BUILD_TOOLS=OFF >"$home/log" 2>&1; then
    cat "$home/log" >&2
    exit 1
  fi
}

# expect FORTRAN CCACHE WHEN: whether (1 or 0) the build uses them.
expect() {
  local fortran=0 ccache=0
  if grep -q 'Fortran_COMPILER__' "$build/build.ninja" "$build/CMakeFiles/rules.ninja"; then
    fortran=1
  fi
  if grep -q 'ccache' "$build/CMakeFiles/rules.ninja"; then ccache=1; fi
  if [ "$fortran $ccache" != "$1 $2" ]; then
    cat "$home/log" >&2
    echo "later_test: $3: Fortran is used: $fortran, ccache: $ccache" >&2
    exit 1
  fi
}

configure "$home/bin"
expect 0 0 "without them"
: >"$home/machine.cmake"
configure
expect 1 1 "once they are there"
echo "later_test: a Fortran compiler and ccache are found later"
