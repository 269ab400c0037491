#!/usr/bin/env bash
# The CartPole example under MPICH's mpiexec over three hosts (three_hosts.sh). usage: mpich_hosts.sh CARTPOLE
source "$(dirname "$0")/three_hosts.sh"
find_mpiexec
launch=("$mpiexec" -launcher rsh -launcher-exec "$folder/agent" -n 3 -ppn 1 -hosts node1,node2,node3)

refuse 'pass it on: mpiexec -genv MASTER_ADDR <the host of rank 0>' \
  nsenter -t "${host[1]}" -n -m -u -- env TMPDIR="$private" "${launch[@]}" "${command[@]}"
launch+=(-genv MASTER_ADDR node1)
over_hosts "node1:29500" "MPICH's Hydra" "Episode 3" "${command[@]}"
