#!/usr/bin/env bash
# The three programs under Open MPI's mpirun over three hosts (three_hosts.sh), one process on each.
# usage: open_mpi_hosts.sh CARTPOLE LANGUAGE_MODEL RESNET50_PIPELINE MPI_COLLECTIVES
source "$(dirname "$0")/three_hosts.sh"
find_mpirun
launch=("${mpirun[@]}" -n 3 --host node1:1,node2:1,node3:1 --mca plm_rsh_agent "$folder/agent"
  --mca oob_tcp_if_include 10.7.0.0/24 --mca btl tcp,self --mca btl_tcp_if_include 10.7.0.0/24
  -x TENDRIL_KEY_FILE -x TENDRIL_SHOW_LAUNCH)

# Nobody says where rank 0 is: version 4 gives mpirun's address, 5 the name of its host.
over_hosts "(node1|10\.7\.0\.1):6[0-9]{4}" "Open MPI" "Episode 3" "${command[@]}"
launch+=(-x MASTER_ADDR=node1 -x MASTER_PORT="$port")
at="node1:$port"
over_hosts "$at" "Open MPI" "Training epoch 1" "${programs[1]}" --world-size 3 --tiny
over_hosts "$at" "Open MPI" "trained on 8 images" \
  "${programs[2]}" --tiny --threads 1 --batches 1 --batch-size 8 --micro-batches 2
over_hosts "$at" "Open MPI" "of 3: MPI and the ring agree" "${programs[3]}" agree
