#!/usr/bin/env bash
# setup_test.sh SETUP: runs scripts/setup on machines that are made up by programs found before the
# real ones: without headers, with an apt-get that works or fails, as root, with sudo or without.
# Nothing is installed, whatever it does.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
setup=$1
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/bin"
export PATH="$home/bin:$PATH" TMPDIR=$home SETUP_TEST_HOME=$home
unset QUIRE_SETUP QUIRE_MPI_FLAVOR

# fake NAME SCRIPT: a program that is found before the real one.
fake() {
  printf '#!/bin/sh\n%s\n' "$2" >"$home/bin/$1"
  chmod +x "$home/bin/$1"
}

# machine USER_ID SUDO_STATUS APT_STATUS: a package is there once apt-get was asked to install it.
machine() {
  rm -f "$home"/bin/* "$home"/calls "$home"/installed "$home"/*.log
  touch "$home/calls" "$home/installed"
  fake c++ 'exit 1'
  fake id "echo $1"
  fake sudo "[ $2 = 0 ] || exit $2
    [ \"\$1\" != -n ] || shift
    echo \"sudo \$*\" >>\$SETUP_TEST_HOME/calls
    exec \"\$@\""
  fake dpkg-query 'for name; do :; done
    grep -qx -e "$name" $SETUP_TEST_HOME/installed && echo installed'
  fake apt-get "echo \"apt-get \$*\" >>\$SETUP_TEST_HOME/calls
    for line in 1 2 3 4 5; do echo \"E: from apt-get, line \$line\"; done
    [ $3 = 0 ] || exit $3
    for name; do echo \"\$name\" >>\$SETUP_TEST_HOME/installed; done"
}

# run [SETTING=VALUE...]: sets rc, and puts what setup says into the file `said`.
run() {
  rc=0
  env "$@" "$setup" demo >"$home/out" 2>"$home/said" </dev/null || rc=$?
}

fail() {
  printf 'setup_test: %s: %s\n' "$case" "$1" >&2
  sed 's/^/  /' "$home/said" "$home/calls" >&2
  exit 1
}

# One line says all that is missing, and it is the last.
expect_one_line() {
  ((rc == 1)) || fail "exit status $rc, not 1"
  [ "$(grep -c '^setup: ' "$home/said")" = 1 ] || fail "not one line"
  local line
  line=$(tail -n 1 "$home/said")
  [[ $line == "setup: missing and not installable from here: "* ]] || fail "another last line"
  for package in libxxhash-dev liblz4-dev libzstd-dev nlohmann-json3-dev; do
    [[ ${line%%(*} == *" $package "* ]] || fail "$package is not named"
  done
  if grep -q 'from apt-get' "$home/said"; then fail "apt-get's own words"; fi
  if grep -vE '^(== installing: |== goes on without: |setup: )' "$home/said"; then fail "more lines"; fi
}
expect_no_call() { [ ! -s "$home/calls" ] || fail "it tried to install"; }

case="installs nothing when told so"
machine 0 0 0
run QUIRE_SETUP=no
expect_one_line
expect_no_call

case="neither root nor sudo"
machine 1000 1 0
run
expect_one_line
expect_no_call

case="apt-get fails"
machine 0 0 100
run
expect_one_line
log=$(sed -nE '$s/.*what apt-get said: (.*)\)$/\1/p' "$home/said")
grep -q 'from apt-get, line 1' "$log" || fail "its words are not in '$log'"

case="root"
machine 0 1 0
run
((rc == 0)) || fail "exit status $rc"
grep -q '^apt-get install -y .* libxxhash-dev ' "$home/calls" || fail "nothing was installed"
if grep -q '^sudo' "$home/calls"; then fail "root needs no sudo"; fi
if [ -e "$log" ]; then fail "a log is left"; fi

case="a user with sudo"
machine 1000 0 0
run
((rc == 0)) || fail "exit status $rc"
grep -q '^sudo .*apt-get install -y .* libxxhash-dev ' "$home/calls" || fail "not through sudo"

case="nothing is missing"
machine 0 0 0
printf '%s\n' g++ cmake ninja-build ccache lib{xxhash,lz4,zstd,cli11}-dev zlib1g-dev \
  nlohmann-json3-dev python3 openmpi-bin libopenmpi-dev minimap2 >"$home/installed"
run
((rc == 0)) || fail "exit status $rc"
expect_no_call
[ ! -s "$home/said" ] || fail "it says something"
echo "setup_test: 6 machines"
