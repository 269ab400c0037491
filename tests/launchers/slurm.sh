#!/usr/bin/env bash
# A cluster of three nodes on this machine: a controller and three node daemons, without accounts and keys. The nodes are
# called by addresses, so that the name of the first one can be resolved.
source "$(dirname "$0")/lib.sh"
for tool in slurmctld slurmd srun salloc sbatch sinfo python3; do
  command -v "$tool" >/dev/null || skip "$tool is not installed (Debian: slurm-wlm)"
done
[ "$(id -u)" -eq 0 ] || skip "slurmd has to run as root"

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ports=($(free_port) $(free_port) $(free_port) $(free_port))
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
FirstJobId=$((RANDOM + 1))
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
NodeName=127.0.0.[1-3] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 CPUs=1 Port=[${ports[1]},${ports[2]},${ports[3]}]
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
CONF
export SLURM_CONF=$folder/slurm.conf
mkdir "$folder/state"
slurmctld -D -c >"$folder/slurmctld.out" 2>&1 &
started+=($!)
for node in 127.0.0.1 127.0.0.2 127.0.0.3; do
  mkdir "$folder/spool.$node"
  slurmd -D -N "$node" >"$folder/slurmd.$node.out" 2>&1 &
  started+=($!)
done
ready() { [ "$(sinfo -h -N -o %t 2>/dev/null | grep -c idle)" -eq 3 ]; }
wait_until 60 ready || { tail -n 20 "$folder"/*.out; echo "failed: the cluster did not come up"; exit 1; }

check 3 srun -N 3 -n 3 "${command[@]}"                  # three nodes
check 2 srun -N 1 -n 2 --overcommit "${command[@]}"     # one node
check 3 srun -N 1 -n 1 "${command[@]}"                  # one task starts its own workers
TENDRIL_SHOW_LAUNCH=1 check 3 srun -N 3 -n 3 --mpi=pmi2 "${command[@]}"  # with MPICH's variables too
grep -q 'started by Slurm (.*SLURM_STEP_NODELIST=127.0.0.\[1-3\]' "$folder/err"
refuse "type: srun -n 3 $cartpole" salloc -Q -N 3 -n 3 "${command[@]}"

# The script that users start from.
cd "$folder"
sbatch --wait --nodes=3 --ntasks-per-node=1 --output="$folder/job" \
  "$here/../../deploy/slurm.sbatch" "${command[@]}" >/dev/null || { cat "$folder/job"; exit 1; }
cat "$folder/job"
grep -q '^0: .*Episode 3' "$folder/job"
