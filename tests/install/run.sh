#!/usr/bin/env bash
# run.sh MODE BUILD_DIR WORK_DIR: builds and runs a small program against Quire as another project would.
#
#   install          puts BUILD_DIR into WORK_DIR/prefix, for:
#   find_package, pkg_config, c_program, headers, tool, nvs, papyruskv, fortran,
#   concepts, readme
#   moved            installs into another folder, moves that, and uses it there
#   add_subdirectory, shared, serial
#                    build the library again, from the compiler's cache where there is one: as a part
#                    of the program's build, as a shared library, and without MPI
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
mode=$1
build=$2
work=$3
here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
prefix=$work/prefix
mkdir -p "$work"
cd "$work" # where Fortran compilers leave their modules
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
flavor=$(cached QUIRE_MPI_FLAVOR)
cxx=$(cached CMAKE_CXX_COMPILER)
cc=$(cached CMAKE_C_COMPILER)

# What the library is built with again: optimised only where the compiler's cache has that.
again=(-DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" -DQUIRE_MPI_FLAVOR="$flavor"
  -DQUIRE_FULL_BUILD="$(cached QUIRE_FULL_BUILD)")
if command -v ccache >/dev/null; then
  again+=(-DCMAKE_BUILD_TYPE="$(cached CMAKE_BUILD_TYPE)" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
    -DCMAKE_C_COMPILER_LAUNCHER=ccache)
else
  again+=(-DCMAKE_BUILD_TYPE=Debug)
fi

# Beside BUILD_DIR, so that the compiler's cache sees the same paths from both to the sources.
beside="$(dirname "$build")/a build of quire $mode"

# refuse PATTERN: reads lines, prints those that match and fails if there is one.
refuse() {
  if grep -E "$1"; then
    echo "run.sh: lines that match '$1' must not be there" >&2
    return 1
  fi
}

# pkg_config OPTION... MODULE: sets `flags`. A path may have blanks: pkg-config escapes them.
pkg_config() {
  local said
  said=$(PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d) pkg-config "$@")
  eval "flags=($said)"
}

# One rank, without mpiexec.
run() {
  rm -rf "$work/$mode-repository"
  LD_LIBRARY_PATH="$prefix/lib:${LD_LIBRARY_PATH:-}" "$1" "$work/$mode-repository" | tee "$work/$mode.out"
  grep -qx "version $(cached CMAKE_PROJECT_VERSION)" "$work/$mode.out"
  rm -rf "$work/$mode-repository"
}

# The compiler of the MPI at hand: mpicc, mpifort.
wrapper() { echo "$1${flavor:+.$flavor}"; }

# Sets `fortran`; ends the test where there is none.
need_fortran() {
  fortran=$(wrapper mpifort)
  if ! command -v "$fortran" >/dev/null || [ ! -e "$prefix/include/papyrus.mod" ]; then
    echo "no Fortran compiler, or no MPI for it: install gfortran"
    exit 77
  fi
}

# run_ranks COUNT PROGRAM...: of a program that is written for PapyrusKV.
programs=$source_dir/tests/papyruskv
run_ranks() {
  local count=$1
  shift
  LD_LIBRARY_PATH="$prefix/lib:${LD_LIBRARY_PATH:-}" PAPYRUSKV_MEMTABLE_SIZE=1048576 \
    PAPYRUSKV_REPOSITORY="$work/$mode-repository" PAPYRUSKV_CHECKPOINTS="$work/$mode-checkpoints" \
    "$source_dir/scripts/mpirun" -n "$count" "$@"
}

# configure_and_run SOURCE_DIR [OPTION...]: in the folder `place`, if that is set.
configure_and_run() {
  local source=$1 at=${place:-$work/$mode}
  shift
  rm -rf "$at"
  cmake -S "$source" -B "$at" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" "$@"
  cmake --build "$at" --target consumer -j "$(nproc)"
  run "$at/consumer"
}

# Builds and installs the library alone, as where there is no GoogleTest: variant OPTION...
variant() {
  rm -rf "$beside" "$prefix"
  cmake -S "$source_dir" -B "$beside" -G Ninja "${again[@]}" -DQUIRE_BUILD_TESTS=OFF \
    -DQUIRE_BUILD_BENCH=OFF -DQUIRE_BUILD_EXAMPLES=OFF -DQUIRE_BUILD_TOOLS=OFF \
    -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON "$@"
  cmake --build "$beside" -j "$(nproc)"
  cmake --install "$beside" --prefix "$prefix" >/dev/null
}

# Of what the shared library shows, all must be Quire's public names. What the standard library's
# templates leave behind is shown by every library in C++.
check_exports() {
  local strange
  nm -DC --defined-only "$1" >"$work/exports"
  grep -q ' T quire_db_put$' "$work/exports"
  grep -q ' T quire::Context::OpenSerial(' "$work/exports"
  strange=$(cut -d ' ' -f 3- "$work/exports" |
    grep -vE '(^| )(quire_|(typeinfo|typeinfo name|vtable|guard variable|VTT) for (quire|std)::|quire::|std::|__gnu_cxx::)' || true)
  # The folders of src/ are namespaces of their own.
  local namespaces='base|io|filter|comm|log|table|lsm|kv|dataset|runtime|stream|api|compat'
  strange+=$(cut -d ' ' -f 3- "$work/exports" | grep -vE '(^| )std::|quire_' |
    grep -E "quire::($namespaces)::" || true)
  if [ -n "$strange" ]; then
    printf 'shown, and not public:\n%s\n' "$strange" >&2
    exit 1
  fi
}

case $mode in
  install)
    rm -rf "$prefix"
    cmake --install "$build" --prefix "$prefix" >/dev/null
    ;;
  find_package)
    configure_and_run "$here/consumer" -DCMAKE_PREFIX_PATH="$prefix"
    ;;
  add_subdirectory)
    place=$beside configure_and_run "$here/consumer" -DQUIRE_SOURCE_DIR="$source_dir" "${again[@]}"
    rm -rf "$beside"
    ;;
  c_program)
    configure_and_run "$here/c_consumer" -DCMAKE_PREFIX_PATH="$prefix"
    ;;
  moved)
    # What is installed names neither the folder that it was installed into nor that of the build.
    rm -rf "$work/$mode" "$work/$mode-from" "$work/$mode-to"
    cmake --install "$build" --prefix "$work/$mode-from" >/dev/null
    mv "$work/$mode-from" "$work/$mode-to"
    prefix=$work/$mode-to
    find "$prefix" '(' -name '*.pc' -o -name '*.cmake' ')' -exec cat '{}' + >"$work/$mode.files"
    for path in "$work/$mode-from" "$build" "$source_dir"; do
      if grep -F "$path" "$work/$mode.files"; then
        echo "run.sh: an installed file names $path" >&2
        exit 1
      fi
    done
    configure_and_run "$here/c_consumer" -DCMAKE_PREFIX_PATH="$prefix"
    pkg_config --cflags --libs quire
    "$cxx" -std=c++20 "$here/consumer/main.cpp" "${flags[@]}" -o "$work/$mode/consumer"
    run "$work/$mode/consumer"
    rm -rf "$prefix"
    ;;
  concepts)
    # The folder is a project of its own. One of its programs stands for the others.
    concepts=$source_dir/examples/concepts
    rm -rf "${work:?}/$mode"
    cmake -S "$concepts" -B "$work/$mode" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
      -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix"
    cmake --build "$work/$mode" --target concept_put_get
    "$concepts/concept_test.sh" "$work/$mode/put_get" "$concepts/put_get.cpp" 2
    rm -rf "${work:?}/$mode"
    ;;
  readme)
    need_fortran
    # The compilers that the library was built with, by the names of the README, and the launcher
    # that "quire doctor" looks for.
    rm -rf "${work:?}/$mode"
    mkdir -p "$work/$mode/bin"
    named() {
      printf '#!/bin/sh\nexec "%s" "$@"\n' "$2" >"$work/$mode/bin/$1"
      chmod +x "$work/$mode/bin/$1"
    }
    named c++ "$cxx"
    named cc "$cc"
    named mpifort "$(command -v "$fortran")"
    if [ -n "${QUIRE_MPIEXEC:-}" ]; then named mpiexec "$QUIRE_MPIEXEC"; fi
    ln -s "$source_dir/examples" "$source_dir/scripts" "$work/$mode/"
    cd "$work/$mode"
    PATH="$work/$mode/bin:$PATH" "$here/readme.py" --installed "$prefix" 2>&1 |
      tee "$work/$mode.out"
    # The CMake project runs on 4 ranks, then on 1; each of the 3 programs that pkg-config helps to
    # build runs on 2.
    [ "$(grep -cE '^rank 0 says hello to rank [0-3]$' "$work/$mode.out")" = 11 ]
    rm -rf "${work:?}/$mode"
    ;;
  shared)
    prefix=$work/prefix-$mode
    variant -DBUILD_SHARED_LIBS=ON
    check_exports "$(find "$prefix" -name libquire.so)"
    configure_and_run "$here/c_consumer" -DCMAKE_PREFIX_PATH="$prefix"
    rm -rf "$beside"
    ;;
  serial)
    prefix=$work/prefix-$mode
    variant -DQUIRE_MPI=OFF
    find "$prefix/include/quire" -name mpi.h | refuse mpi.h
    configure_and_run "$here/c_consumer" -DCMAKE_PREFIX_PATH="$prefix"
    nm "$work/$mode/consumer" | refuse ' MPI_'
    rm -rf "$beside"
    ;;
  pkg_config)
    mkdir -p "$work/$mode"
    pkg_config --cflags --libs quire
    "$cxx" -std=c++20 "$here/consumer/main.cpp" "${flags[@]}" -o "$work/$mode/consumer"
    run "$work/$mode/consumer"
    "$cc" -std=c99 "$here/c_consumer/main.c" "${flags[@]}" -o "$work/$mode/c_consumer"
    run "$work/$mode/c_consumer"
    ;;
  headers)
    # Each public header alone, in each language it is for, without warnings.
    pkg_config --cflags quire
    checked=0
    for header in "$prefix"/include/{quire,nvs,papyrus}/*.h; do
      name=$(basename "$(dirname "$header")")/$(basename "$header")
      include="#include <$name>"
      strict=(-fsyntax-only -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror "${flags[@]}")
      echo "$include" | "$cxx" -x c++ -std=c++20 "${strict[@]}" -
      if [[ $name =~ ^quire/quire(_dataset|_stream)?\.h$ || $name =~ ^(nvs|papyrus)/ ]]; then
        echo "$include" | "$cc" -x c -std=c99 "${strict[@]}" -
      fi
      checked=$((checked + 1))
    done
    echo "$checked headers"
    [ "$checked" -gt 0 ]
    ;;
  tool)
    # Its helper is found where it is installed, whatever comes of it.
    "$prefix/bin/quire" doctor "$work" | tee "$work/$mode.out" || true
    grep -q 'mpi ranks: ' "$work/$mode.out"
    refuse 'mpi ranks: not tried' <"$work/$mode.out"
    ;;
  nvs)
    # Without a word of MPI: shared, static, and through the two packages.
    mkdir -p "$work/$mode"
    program=$source_dir/tests/nvs/nvs_test.c
    plain=("$cc" -std=c99 -D_DEFAULT_SOURCE "$program")
    "${plain[@]}" -I"$prefix/include" -L"$prefix/lib" -lnvs -o "$work/$mode/shared"
    "${plain[@]}" -I"$prefix/include" "$prefix/lib/libnvs.a" -lstdc++ -llz4 -lzstd -pthread \
      -o "$work/$mode/static"
    pkg_config --cflags --libs nvs
    "${plain[@]}" "${flags[@]}" -o "$work/$mode/pkg_config"
    cmake -S "$here/nvs_consumer" -B "$work/$mode/cmake" -G Ninja -DCMAKE_C_COMPILER="$cc" \
      -DCMAKE_PREFIX_PATH="$prefix" -DPROGRAM="$program"
    cmake --build "$work/$mode/cmake"
    for built in shared static pkg_config cmake/consumer; do
      nm -D "$work/$mode/$built" | refuse ' MPI_| quire_|5quire'
      rm -rf "$work/$mode-place"
      LD_LIBRARY_PATH="$prefix/lib:${LD_LIBRARY_PATH:-}" QUIRE_STREAM_PLACE="$work/$mode-place" \
        QUIRE_STREAM_LOG_BYTES=8MiB QUIRE_STREAM_KEEP_VERSIONS=32 "$work/$mode/$built"
    done
    ldd "$prefix/lib/libnvs.so" | refuse libmpi
    nm -D --defined-only "$prefix/lib/libnvs.so" | sed '/ nvs_/d' | refuse .
    rm -rf "$work/$mode-place"
    ;;
  papyruskv)
    # As a program's own Makefile does it: shared, static, and through the two packages.
    mkdir -p "$work/$mode"
    static=(-I"$prefix/include" "$prefix/lib/libpapyruskv.a" -lstdc++ -llz4 -lzstd -pthread)
    mpicc=("$(wrapper mpicc)" -D_DEFAULT_SOURCE)
    for program in pairs persist misuse plain; do
      # With what a module of a cluster sets.
      CPATH=$prefix/include LIBRARY_PATH=$prefix/lib \
        "${mpicc[@]}" "$programs/$program.c" -lpapyruskv -o "$work/$mode/$program"
      "${mpicc[@]}" "$programs/$program.c" "${static[@]}" -o "$work/$mode/$program-static"
    done
    pkg_config --cflags --libs papyruskv
    "$cc" -D_DEFAULT_SOURCE "$programs/pairs.c" "${flags[@]}" -o "$work/$mode/pkg_config"
    cmake -S "$here/papyruskv_consumer" -B "$work/$mode/cmake" -G Ninja -DCMAKE_C_COMPILER="$cc" \
      -DCMAKE_PREFIX_PATH="$prefix" -DPROGRAM="$programs/pairs.c"
    cmake --build "$work/$mode/cmake"
    # One program at a time: of several nm prints the paths, too.
    for program in pairs persist; do nm "$work/$mode/$program" | refuse quire; done
    for ranks in 1 2 3 4; do
      for program in pairs persist; do run_ranks $ranks "$work/$mode/$program"; done
    done
    for program in plain pairs-static persist-static pkg_config cmake/consumer; do
      run_ranks 2 "$work/$mode/$program"
    done
    # What they print is their own, whatever fails; the library says why when it is asked to.
    for program in pairs persist misuse; do
      run_ranks 2 "$work/$mode/$program" 2>&1 | tee "$work/$mode.out"
      refuse '^quire' <"$work/$mode.out"
    done
    QUIRE_LOG=warning run_ranks 2 "$work/$mode/misuse" 2>&1 | tee "$work/$mode.out"
    grep -q '^quire warning: ' "$work/$mode.out"
    # What the program with one library has left is the other's.
    rm -rf "$work/$mode-kept"
    run_ranks 2 "$work/$mode/persist-static" write "$work/$mode-kept"
    run_ranks 3 "$work/$mode/persist" read "$work/$mode-kept"
    rm -rf "$work/$mode-kept"
    ;;
  fortran)
    # Also where there is no Fortran compiler: a program's own one builds the modules of them.
    for source in papyrus.f90 quire.f90 quire_c.inc quire_dataset.inc quire_stream.inc \
      quire_stream_c.inc; do
      test -e "$prefix/share/quire/fortran/$source"
    done
    need_fortran
    mkdir -p "$work/$mode"
    static=(-lstdc++ -llz4 -lzstd -pthread)
    flags=(-I"$prefix/include" -L"$prefix/lib")
    "$cc" -I"$prefix/include" -c "$programs/fortran_update.c" -o "$work/$mode/update.o"
    pairs=("$programs/fortran_pairs.f90" "$work/$mode/update.o")
    "$fortran" "${pairs[@]}" "${flags[@]}" -lpapyruskv -o "$work/$mode/shared"
    "$fortran" "${pairs[@]}" -I"$prefix/include" "$prefix/lib/libpapyruskv.a" "${static[@]}" \
      -o "$work/$mode/static"
    "$fortran" "$programs/fortran_plain.f90" "${flags[@]}" -lpapyruskv -o "$work/$mode/plain"
    # The sources serve another compiler than the one that the library was built with.
    mkdir -p "$work/$mode/modules"
    "$fortran" -J"$work/$mode/modules" "$prefix/share/quire/fortran/papyrus.f90" \
      "${pairs[@]}" -L"$prefix/lib" -lpapyruskv -o "$work/$mode/sources"
    "$fortran" "$source_dir/tests/fortran/quire_test.f90" "${flags[@]}" -lquire_fortran -lquire \
      "${static[@]}" -o "$work/$mode/quire"
    "$fortran" -J"$work/$mode/modules" "$prefix/share/quire/fortran/quire.f90" \
      "$source_dir/tests/fortran/quire_test.f90" -L"$prefix/lib" -lquire "${static[@]}" \
      -o "$work/$mode/quire-sources"
    pkg_config --cflags --libs quire_fortran
    "$fortran" "$source_dir/tests/fortran/quire_test.f90" "${flags[@]}" -o "$work/$mode/pkg_config"
    cmake -S "$here/fortran_consumer" -B "$work/$mode/cmake" -G Ninja -DCMAKE_C_COMPILER="$cc" \
      -DMPI_Fortran_COMPILER="$(command -v "$fortran")" -DCMAKE_PREFIX_PATH="$prefix" \
      -DPROGRAM="$source_dir/tests/fortran/quire_test.f90"
    cmake --build "$work/$mode/cmake"
    # Fortran alone is refused, with what is to be added.
    mkdir -p "$work/$mode/alone"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(alone LANGUAGES Fortran)' \
      'find_package(Quire 0.1 REQUIRED)' >"$work/$mode/alone/CMakeLists.txt"
    refused=$(cmake -S "$work/$mode/alone" -B "$work/$mode/alone/build" \
      -DCMAKE_PREFIX_PATH="$prefix" 2>&1) && exit 1
    grep -q 'add C to LANGUAGES' <<<"$refused"
    rm -rf "$work/$mode"/repository* "$work/$mode-checkpoints" # what a failed run left
    for ranks in 1 3 4; do run_ranks $ranks "$work/$mode/shared"; done
    for program in shared static sources quire quire-sources pkg_config cmake/consumer; do
      run_ranks 2 "$work/$mode/$program" "$work/$mode/repository-$(basename "$program")"
    done
    rm -rf "$work/$mode"/repository* "$work/$mode-checkpoints"
    run_ranks 2 "$work/$mode/plain"
    rm -rf "$work/$mode-checkpoints"
    ;;
  *)
    echo "run.sh: what is '$mode'?" >&2
    exit 2
    ;;
esac
