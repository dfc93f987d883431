#!/usr/bin/env bash
# run.sh find_package|add_subdirectory|pkg_config|headers BUILD_DIR WORK_DIR: builds and runs a small
# program against Quire as another project would.
#
# find_package and pkg_config use what "cmake --install" puts into WORK_DIR/prefix; add_subdirectory
# builds the library again, from the compiler's cache where there is one.
set -euo pipefail
mode=$1
build=$2
work=$3
here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
prefix=$work/prefix
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
flavor=$(cached QUIRE_MPI_FLAVOR)
cxx=$(cached CMAKE_CXX_COMPILER)
cc=$(cached CMAKE_C_COMPILER)

# One rank, without mpiexec.
run() {
  rm -rf "$work/$mode-repository"
  LD_LIBRARY_PATH="$prefix/lib:${LD_LIBRARY_PATH:-}" "$1" "$work/$mode-repository" | tee "$work/$mode.out"
  grep -qx "version $(cached CMAKE_PROJECT_VERSION)" "$work/$mode.out"
  rm -rf "$work/$mode-repository"
}

configure_and_run() {
  rm -rf "$work/$mode"
  cmake -S "$here/consumer" -B "$work/$mode" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" "$@"
  cmake --build "$work/$mode" --target consumer -j "$(nproc)"
  run "$work/$mode/consumer"
}

case $mode in
  install)
    rm -rf "$prefix"
    cmake --install "$build" --prefix "$prefix" >/dev/null
    ;;
  find_package)
    configure_and_run -DCMAKE_PREFIX_PATH="$prefix"
    ;;
  add_subdirectory)
    type=Debug
    launcher=()
    if command -v ccache >/dev/null; then
      type=$(cached CMAKE_BUILD_TYPE)
      launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    configure_and_run -DQUIRE_SOURCE_DIR="$source_dir" -DCMAKE_BUILD_TYPE="$type" \
      -DCMAKE_C_COMPILER="$cc" -DQUIRE_MPI_FLAVOR="$flavor" "${launcher[@]}"
    ;;
  pkg_config)
    mkdir -p "$work/$mode"
    PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d) && export PKG_CONFIG_PATH
    read -ra flags < <(pkg-config --cflags quire)
    read -ra libs < <(pkg-config --libs quire)
    "$cxx" -std=c++20 "$here/consumer/main.cpp" "${flags[@]}" "${libs[@]}" -o "$work/$mode/consumer"
    run "$work/$mode/consumer"
    ;;
  headers)
    # Each public header alone, in each language it is for, without warnings.
    read -ra flags < <(PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d) pkg-config --cflags quire)
    checked=0
    for header in "$prefix"/include/quire/*.h; do
      include="#include <quire/$(basename "$header")>"
      strict=(-fsyntax-only -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror "${flags[@]}")
      echo "$include" | "$cxx" -x c++ -std=c++20 "${strict[@]}" -
      if [ "$(basename "$header")" = quire.h ]; then
        echo "$include" | "$cc" -x c -std=c99 "${strict[@]}" -
      fi
      checked=$((checked + 1))
    done
    echo "$checked headers"
    [ "$checked" -gt 0 ]
    ;;
  *)
    echo "run.sh: what is '$mode'?" >&2
    exit 2
    ;;
esac
