# shellcheck shell=bash disable=SC2034  # its variables are for those who source it
# Sourced by the tests of real launchers: each runs the CartPole example with three processes.
# usage: NAME.sh CARTPOLE
# TENDRIL_MPIRUN names an Open MPI's mpirun, TENDRIL_MPIEXEC a Hydra's mpiexec, to be tested instead of those installed.
set -euo pipefail
cartpole=$1
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../wait_until.sh"

# CTest's code for a test that could not be run.
skip() { echo "skipped: $*"; exit 77; }

mpiruns=(${TENDRIL_MPIRUN:-mpirun.openmpi mpirun})
mpiexecs=(${TENDRIL_MPIEXEC:-mpiexec.hydra mpiexec.mpich})

# Nothing that a launcher around this test has set shall count.
for name in $(compgen -e | grep -E '^(RANK|WORLD_SIZE|LOCAL_|MASTER_|TENDRIL_|OMPI_|PMI_|PMIX_|MPI_|SLURM_|TORCHELASTIC_|JOB_COMPLETION_)' || true); do
  unset "$name"
done

folder=$(mktemp -d "${TMPDIR:-/tmp}/tendril_launcher_XXXXXX")
started=()
finish() {
  for pid in "${started[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT

# Few flags, of which none says how it is started.
command=("$cartpole" --episodes 3 --log-interval 1 --curve "$folder/curve")

# Below the ports that systems hand out to clients; another one in each run, as other build trees may be tested too.
port=$((20000 + RANDOM % 10000))

# check SIZE COMMAND...: the command ends well, one process has trained, and the group had that many.
check() {
  local size=$1
  shift
  echo "\$ $*"
  timeout -k 10 150 "$@" >"$folder/out" 2>"$folder/err" </dev/null || { echo "status $?"; cat "$folder/out" "$folder/err"; exit 1; }
  cat "$folder/out" "$folder/err"
  [ "$(grep -c 'Episode 3' "$folder/out")" -eq 1 ] || { echo "failed: one process should have trained"; exit 1; }
  grep -q "world size $size," "$folder/curve.svg" || { echo "failed: the group should have had $size workers"; exit 1; }
  rm -f "$folder/curve."*
}

# refuse TEXT COMMAND...: the command fails and says so.
refuse() {
  local text=$1
  shift
  echo "\$ $*"
  if timeout -k 10 150 "$@" >"$folder/out" 2>&1 </dev/null; then echo "failed: it should have been refused"; exit 1; fi
  cat "$folder/out"
  grep -qF -- "$text" "$folder/out" || { echo "failed: expected '$text'"; exit 1; }
}

# Sets mpirun to Open MPI's, with what it asks of root.
find_mpirun() {
  for mpirun in "${mpiruns[@]}" ""; do
    [ -n "$mpirun" ] || skip "${mpiruns[0]}: there is no Open MPI's mpirun (Debian: openmpi-bin)"
    [[ $("$mpirun" --version 2>/dev/null) =~ 'Open MPI'|OpenRTE ]] && break
  done
  mpirun=("$mpirun")
  [ "$(id -u)" -ne 0 ] || mpirun+=(--allow-run-as-root)
}

# Sets mpiexec to that of MPICH, or of Intel MPI.
find_mpiexec() {
  for mpiexec in "${mpiexecs[@]}" ""; do
    [ -n "$mpiexec" ] || skip "${mpiexecs[0]}: there is no Hydra's mpiexec (Debian: mpich)"
    [[ $("$mpiexec" --version 2>/dev/null) =~ HYDRA|'Intel(R) MPI' ]] && break
  done
}
