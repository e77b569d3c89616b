#!/bin/bash
# submit.sh CHECKPOINT TARGET COUNT [FLAGS OF CONVERT]: converts in COUNT parts, then merges and verifies.
# All paths are on storage that every node sees. To repeat some parts: sbatch --array=3,7 convert.sbatch … as below.
set -euo pipefail
checkpoint=$(realpath "$1") target=$(realpath "$2") count=$3
here=$(dirname "$(realpath "$0")")
parts=$target.parts
mkdir -p "$parts"
array=$(sbatch --parsable --array="1-$count" --output="$parts/convert-%a.log" "$here/convert.sbatch" "$checkpoint" "$parts" "$count" "${@:4}")
merge=$(sbatch --parsable --dependency="afterok:$array" --kill-on-invalid-dep=yes --output="$parts/merge.log" "$here/merge.sbatch" "$checkpoint" "$parts" "$target")
echo "$array $merge"
