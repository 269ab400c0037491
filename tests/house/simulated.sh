#!/bin/sh
# simulated.sh SOURCE: rpc/ and dist/ lock, sleep, read the clock and start threads through rpc/system, rpc/threads and rpc/clock.h, so
# that a simulation can replace all of it. Not simulated: the observer's thread, TLS, and starting processes.
cd "$1" || exit 1
found=$(grep -rnE --include='*.cpp' --include='*.h' \
  'std::(mutex|condition_variable(_any)?|shared_mutex|recursive_mutex|j?thread|random_device)\b|this_thread::sleep|(steady|system)_clock::now' rpc dist |
  grep -vE '^[^:]*:[0-9]+: *//|^[^:]*:[0-9]+:.*thread::hardware_concurrency' |
  grep -vE '^rpc/(system|simulation)/|^rpc/(clock\.h|spawn\.cpp|group/worker_main\.cpp|observe/observer\.cpp|threads/wakeup_cost\.cpp|transport/tls_stream\.h):')
[ -z "$found" ] || printf 'not simulated: %s\n' "$found"
[ -z "$found" ]
