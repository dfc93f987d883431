# Sourced by the other scripts: where things are, which MPI, how many jobs, how to say things.
# shellcheck shell=bash
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# Tests make files and directories of their own: the library refuses what a group may write to.
umask go-w

# What ccache kept of one checkout serves another, wherever the two lie.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-yes}
# It learns of the headers from the compiler, and does without a preprocessor of its own.
export CCACHE_DEPEND=${CCACHE_DEPEND:-yes}
# It stores also what was compiled with precompiled headers.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

# Says on standard error what happens next; standard output belongs to results.
say() { printf '== %s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Half a gigabyte of memory for each compiler, no more jobs than processors.
job_count() {
  local processors memory_kib jobs
  processors=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  jobs=$((memory_kib / 786432))
  ((jobs > processors)) && jobs=$processors
  ((jobs < 1)) && jobs=1
  echo "$jobs"
}

# The MPI to use: as asked, else Open MPI where Debian's name for it exists, else the default one.
mpi_flavor() {
  if [ -n "${QUIRE_MPI_FLAVOR:-}" ]; then
    echo "$QUIRE_MPI_FLAVOR"
  elif command -v mpicc.openmpi >/dev/null; then
    echo openmpi
  fi
}

# configure PRESET [BUILD_DIR] [cmake options...]: quiet unless it fails.
configure() {
  local preset=$1 dir=${2:-build/$1} log
  shift
  (($# == 0)) || shift
  mkdir -p "$dir"
  log=$dir/configure.log
  if ! cmake --preset "$preset" -B "$dir" -DQUIRE_MPI_FLAVOR="$(mpi_flavor)" -DQUIRE_FULL_BUILD=ON \
    "$@" >"$log" 2>&1; then
    cat "$log" >&2
    die "configuring $dir failed (cmake --preset $preset)"
  fi
}

# build DIR [targets...]: shows how far it is, and the errors if it fails, else the warnings: in the
# sanitizers' builds they are errors. Not in others, since optimising compilers also err.
build() {
  local dir=$1 log=$1/build.log
  shift
  say "building $dir ($(job_count) jobs)"
  if ! cmake --build "$dir" -j "$(job_count)" ${1:+--target "$@"} 2>&1 |
    scripts/progress.py build "$log"; then
    grep -A15 -E '^FAILED|error|Error' "$log" | head -n 60 >&2 || true
    die "building $dir failed; all of it is in $log"
  fi
  grep -E -A3 ' warning: ' "$log" | head -n 60 >&2 || true
}

# Address space randomisation of new kernels is too wide for the sanitizers of older compilers.
without_aslr() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# test_jobs DIR: so many tests run beside each other, since they wait for part of their time. Those
# of a sanitizer compute most of it: more of them hinder each other.
test_jobs() {
  if is_sanitized "$1"; then echo $((2 * $(nproc))); else echo $((3 * $(nproc))); fi
}

is_sanitized() { grep -q '^QUIRE_SANITIZE:STRING=.' "$1/CMakeCache.txt"; }

# run_ctest DIR [ctest options...]: runs the tests and says aloud what was skipped.
run_ctest() {
  local dir=$1 rc=0 log=$1/ctest.log
  shift
  local run=env
  if is_sanitized "$dir"; then run=without_aslr; fi
  "$run" python3 scripts/test_times.py --costs "$dir"
  "$run" ctest --test-dir "$dir" -j "$(test_jobs "$dir")" --output-on-failure "$@" 2>&1 |
    scripts/progress.py test "$log" tests/seconds.txt || rc=$?
  # CTest runs all tests if it does not understand which to run: it knows nine groups in a pattern.
  if grep -q '^RegularExpression::compile' "$log"; then die "CTest does not know the pattern: $*"; fi
  say_counts "$dir"
  summarise_skips "$dir" "$log"
  return "$rc"
}

# A regular expression for CTest: those that try what fails in turn. Without a scale of 2 they try a
# sample of it, of the same size at any scale.
sweep_tests() {
  echo '^[a-z_]+\.([a-z_]+_)?(allocations|shortages?)$|^comm_shortage\.'
}

# A regular expression for CTest: the tests that repeat what they do as often as they are asked to,
# or draw what they do from a seed.
counted_tests() {
  local suites sweeps
  suites=$(grep -rlE '(ScaledCount|ScaledLeast|ScaledRows|ForEachModelSeed|FirstSeed|ExpectTheSame[A-Za-z]*)\(' \
    --include='*_test.cpp' src tests tools |
    xargs sed -nE 's/^TEST(_F|_P)?\(([A-Za-z0-9]+),.*/\2/p' | sort -u | paste -sd '|')
  sweeps="$(sweep_tests)|^(kill|kv_histories|kv_memory|particles)\.|^heat\.kills$|^streamd\.kills$"
  echo "^([A-Za-z0-9]+/)?($suites)\\.|$sweeps"
}

# A regular expression for CTest: tests that take long, while a near relation of each is among the
# others: the same ranks over the other transport, the same example with other data, the installed
# package for another language.
long_tests() {
  local tests='kv_memory\.2\.mpi|starved_c\.[23]\.mpi|assemble\.(graphs|reference)'
  tests+='|install\.(headers|papyruskv|nvs|fortran|moved|add_subdirectory|shared|serial)'
  echo "^($tests)\$"
}

# What the tests counted, of what they were asked for: the crashes of the simulated machines, under
# one rank's database and under the checkpoints, restarts and redistributions of some ranks.
say_counts() {
  local points
  points=$(awk '/^[0-9]+ crash points: / {sum += $1} END {print sum + 0}' "$1/Testing/Temporary/LastTest.log")
  if ((points > 0)); then echo "$points crash points of the simulated machines"; fi
}

summarise_skips() {
  local log=$1/Testing/Temporary/LastTest.log count
  count=$(grep -cE ' \((Skipped|Disabled|Not Run)\)$' "$2" || true)
  echo "skipped: $count of the tests, and single cases of others; what they say:"
  # GoogleTest's tests say it in the line after "Skipped", others in their last line.
  {
    grep -hA1 -E ': Skipped$' "$log" | grep -vE ': Skipped$|^--$|^ *$' || true
    sed -nE 's/.* Test +#[0-9]+: ([^ ]+) \.*\*\*\*Skipped .*/\1/p' "$2" | last_lines "$log"
  } | sort | uniq -c
}

# last_lines LOG: the last line that each of the tests whose names are read printed, without those
# of GoogleTest.
last_lines() {
  awk -v log_path="$1" '
    {wanted[$0] = 1}
    END {
      while ((getline line <log_path) > 0) {
        if (line ~ /^[0-9]+\/[0-9]+ Test: /) {name = line; sub(/^[^:]*: /, "", name); last = ""}
        if (line == "<end of output>" && name in wanted && last !~ /^\[/) print name ": " last
        last = line
      }
    }'
}
