#!/usr/bin/env bash
# all.sh BUILD_DIR RESULTS.jsonl [FOLDER]: runs every benchmark as docs/benchmarks reports it.
# The results are appended; FOLDER ($TMPDIR, else /tmp) is where the databases go.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:?usage: all.sh BUILD_DIR RESULTS.jsonl [FOLDER]}
results=${2:?usage: all.sh BUILD_DIR RESULTS.jsonl [FOLDER]}
folder=${3:-${TMPDIR:-/tmp}}

bench() { # RANKS SUBCOMMAND arguments
  local ranks=$1
  shift
  echo "== $ranks ranks: quire-bench $*" >&2
  "$root/scripts/mpirun" -n "$ranks" "$build/bench/quire-bench" "$@" >>"$results"
}

# Four nodes of one rank each whose links carry so much, where this machine lets us make them.
nodes() { # MB_PER_S SUBCOMMAND arguments
  local mb_per_s=$1 status=0 printed
  shift
  echo "== 4 nodes, $mb_per_s MB/s: quire-bench $*" >&2
  printed=$(python3 "$root/tests/nodes/nodes.py" --nodes 4 --ranks-per-node 1 --timeout 1800 \
    --bandwidth "$((mb_per_s * 8))mbit" -- "$build/bench/quire-bench" "$@" \
    --network-mb-per-s "$mb_per_s" --directory {shared}) || status=$?
  case $status in
    0) echo "$printed" >>"$results" ;;
    77) echo "$printed" >&2 ;;
    *) return "$status" ;;
  esac
}

bench 1 limits --directory "$folder"
# RocksDB keeps values apart from 1 KiB on, where it is told to.
bench 1 engine --directory "$folder" --value-bytes 100 --engine lsm,rocksdb,leveldb
bench 1 engine --directory "$folder" --value-bytes 4096,1048576
# LevelDB does not verify what it reads unless it is told to.
bench 1 engine --directory "$folder" --verify-checksums false --value-bytes 100,4096 \
  --engine lsm,leveldb --op readrandom,seekrandom
# In memory alone: what values of 1 MiB cost beyond their copies.
bench 1 engine --directory /dev/shm --value-bytes 1048576 --op fillrandom,overwrite,readrandom
for ranks in 1 2; do bench "$ranks" small --directory "$folder"; done
for ranks in 1 2 4; do
  bench "$ranks" basic --directory "$folder" --value-bytes 8,1024 --count 100000
  bench "$ranks" basic --directory "$folder" --value-bytes 131072 --count 1000
  bench "$ranks" kmer --directory "$folder"
done
for threads in 1 2; do
  bench 1 basic --directory "$folder" --value-bytes 8,1024 --count 1000000 --threads "$threads"
done
for search in sequential binary tagged; do
  for direct in false true; do
    bench 2 basic --directory "$folder" --value-bytes 1024 --count 5000 --search "$search" \
      --direct-reads "$direct"
  done
done
for ranks in 2 4; do
  bench "$ranks" basic --directory "$folder" --value-bytes 8 --count 10000 --consistency sequential
  for transport in auto mpi; do
    bench "$ranks" workload --directory "$folder" --protect --transport "$transport"
  done
  bench "$ranks" latency --directory "$folder"
done
# Checkpoints and restarts: large values, and ten million small pairs; read from the page cache, and
# not.
for cache in warm cold; do
  bench 2 cr --directory "$folder" --count 2000 --cache "$cache" --repetitions 5
done
bench 2 cr --directory "$folder" --count 8000
bench 4 cr --directory "$folder" --count 1000
bench 2 cr --directory "$folder" --value-bytes 8 --count 5000000
bench 4 cr --directory "$folder" --value-bytes 8 --count 2500000
bench 2 group --directory "$folder"
for transport in auto mpi; do
  bench 2 mdhim --directory "$folder" --value-bytes 8 --count 10000 --transport "$transport"
  bench 2 mdhim --directory "$folder" --value-bytes 131072 --count 1000 --transport "$transport"
done
# Arrays as versions that others read.
for figure in 5 small 7 8 9 10 remote; do
  bench 1 stream --figure "$figure" --directory "$folder"
done
for ranks in 1 2 4; do
  bench "$ranks" stream --figure 6 --total-mib 100 --directory "$folder"
done
bench 2 stream --figure wait
# A simulation's output, partitioned by key.
bench 1 partition
for buffer_bytes in 8388608 100663296; do
  nodes 10 partition --figure 8 --buffer-bytes "$buffer_bytes" \
    --formats direct,base,pointer,bloom,cuckoo,ribbon
done
nodes 10 partition --figure 9 --rank-bytes 16777216 --buffer-bytes 2097152 \
  --formats direct,base,pointer,bloom,cuckoo,ribbon
for ranks in 1 2; do
  bench "$ranks" partition --figure 8 --directory /dev/shm --buffer-bytes 268435456 \
    --repetitions 3
done
bench 4 partition --figure 10 --directory "$folder" --rank-bytes 33554432 --queries 1000
for transport in auto mpi; do
  bench 4 idle --directory "$folder" --repetitions 1 --transport "$transport"
done
# Ten times the memory that is allowed, and more: what is held stays below the limit.
bench 2 basic --directory "$folder" --value-bytes 4096 --count 320000 --memory-bytes 134217728 \
  --repetitions 1
