#!/bin/sh
# worker.sh CHECKPOINT PARTS COUNT [FLAGS OF CONVERT]: run it on as many machines as there are, in any order. Each takes the
# parts that nobody has done or is doing: lowpack locks what it works on. Exit code 0: all parts are there.
set -u
checkpoint=$1 parts=$2 count=$3
shift 3
mkdir -p "$parts"
missing=0
for i in $(seq "$count"); do
  part=$parts/part-$i
  [ -e "$part" ] || lowpack convert "$checkpoint" --part "$i/$count" --resume "$@" -o "$part"
done
for i in $(seq "$count"); do
  [ -e "$parts/part-$i" ] || { echo "part $i is not there: another machine has it, or it failed" >&2; missing=1; }
done
exit $missing
