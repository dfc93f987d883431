#!/usr/bin/env bash
# demo.sh BUILD_DIR: assembles the lambda phage from the reads of Debian's package bowtie2-examples
# on 4 ranks, and compares the contigs with the reference. Progress goes to standard error; the last
# line of standard output is the result. Fails where less than 0.99 of the reference is covered, or
# at an identity below 0.99.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: exit status $?: $BASH_COMMAND" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:?usage: demo.sh BUILD_DIR}
data=${QUIRE_DEMO_DATA:-$("$root/scripts/demo-data")}
folder=$(mktemp -d "${TMPDIR:-/tmp}/quire-demo-XXXXXX")
trap 'rm -rf "$folder"' EXIT

"$root/scripts/mpirun" -n "${QUIRE_DEMO_RANKS:-4}" "$build/examples/assemble/assemble" \
  -k 21 --min-count 5 --repository "$folder/repository" --output "$folder/contigs.fa" \
  --reference "$data/reference/lambda_virus.fa.gz" \
  "$data/reads/reads_1.fq.gz" "$data/reads/reads_2.fq.gz" >"$folder/result"
tail -n 1 "$folder/result"
python3 - "$folder/result" <<'PYTHON'
import json, sys
with open(sys.argv[1]) as file:
    result = json.loads(file.readlines()[-1])
for name in ("reference_covered", "identity"):
    if result[name] is None:
        sys.exit("demo: not compared with the reference: install minimap2")
    if result[name] < 0.99:
        sys.exit(f"demo: {name} is {result[name]:.4f}, below 0.99")
PYTHON
