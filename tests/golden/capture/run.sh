#!/usr/bin/env bash
# usage: run.sh OUT [WORKLOAD…]   captures each workload's trace, generated files and Nsight Compute counters into OUT.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$1; shift
[ $# -gt 0 ] || set -- $(cd "$here/workloads" && ls *.py | sed 's/\.py$//')
python=${PYTHON:-python3}
work=$(mktemp -d)
mkdir -p "$out"
metrics=gpu__time_duration.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed,gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,lts__throughput.avg.pct_of_peak_sustained_elapsed,l1tex__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,dram__bytes_read.sum,dram__bytes_write.sum,sm__inst_executed.sum
metrics+=,sm__inst_executed_pipe_alu.sum,sm__inst_executed_pipe_fma.sum,sm__inst_executed_pipe_xu.sum
metrics+=,sm__inst_executed_pipe_lsu.sum,sm__inst_executed_pipe_tensor.sum
metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread,launch__waves_per_multiprocessor

log() { echo "$(date +%T) $*" | tee -a "$out/log.txt"; }
for name in "$@"; do  # compilation needs no quiet device: all at once
  mkdir -p "$work/$name"
  TORCHINDUCTOR_CACHE_DIR=$work/$name/cache "$python" "$here/driver.py" warm "$name" > "$work/$name/warm.log" 2>&1 &
done
wait
log "warm"
for name in "$@"; do
  dir=$work/$name
  export TORCHINDUCTOR_CACHE_DIR=$dir/cache
  if ! timeout 120 "$python" "$here/driver.py" trace "$name" "$dir" > "$dir/trace.log" 2>&1; then
    log "$name: trace failed"; tail -5 "$dir/warm.log" "$dir/trace.log" >> "$out/log.txt"; continue
  fi
  # An interrupt, not a kill: ncu then still writes the launches that it has.
  timeout -s INT -k 30 "${NCU_SECONDS:-150}" ncu --clock-control none --profile-from-start off --csv --page raw --print-units base \
    --metrics "$metrics" --log-file "$dir/ncu_raw.csv" "$python" "$here/driver.py" counters "$name" > "$dir/ncu.log" 2>&1
  log "$name: ncu exit $? rows $(grep -c '^"[0-9]' "$dir/ncu_raw.csv")"
  "$python" "$here/driver.py" convert "$name" "$dir" >> "$out/log.txt" 2>&1
  gzip -f "$dir/ncu_raw.csv"
  tail -3 "$dir/ncu.log" >> "$out/log.txt"
  (cd "$dir" && tar czf "$out/$name.tar.gz" $(ls trace.json.gz generated.tar.gz ncu.csv ncu_raw.csv.gz info.json 2>/dev/null))
done
log "done"
ls -l "$out"
