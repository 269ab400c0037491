#!/usr/bin/env bash
# What deploy/job.yaml gives to each of its pods, on this machine: its variables, the name of the first pod, and the key.
source "$(dirname "$0")/lib.sh"
python=""
for candidate in python3 /usr/bin/python3; do
  [ -n "$python" ] || ! "$candidate" -c 'import yaml' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || skip "no Python here has PyYAML (Debian: python3-yaml)"

# The manifest agrees with itself; then one line for each pod: its variables, as `env` takes them.
"$python" - "$here/../../deploy/job.yaml" >"$folder/pods" <<'PYTHON'
import sys, yaml

def expect(what, got, expected):
    if got != expected:
        sys.exit(f"failed: {what}: got {got!r}, expected {expected!r}")

with open(sys.argv[1]) as file:
    service, job = yaml.safe_load_all(file)
expect("kinds", [service["kind"], job["kind"]], ["Service", "Job"])
expect("apiVersions", [service["apiVersion"], job["apiVersion"]], ["v1", "batch/v1"])
spec, pod = job["spec"], job["spec"]["template"]["spec"]
[worker] = pod["containers"]
env = {one["name"]: one["value"] for one in worker["env"]}
expect("every value is text", {type(value) for value in env.values()}, {str})
expect("clusterIP", service["spec"]["clusterIP"], "None")
expect("publishNotReadyAddresses", service["spec"]["publishNotReadyAddresses"], True)
expect("selector", service["spec"]["selector"], {"job-name": job["metadata"]["name"]})
expect("completionMode", spec["completionMode"], "Indexed")
expect("parallelism", spec["parallelism"], spec["completions"])
expect("WORLD_SIZE", env["WORLD_SIZE"], str(spec["completions"]))
expect("subdomain", pod["subdomain"], service["metadata"]["name"])
expect("TENDRIL_SERVICE", env["TENDRIL_SERVICE"], service["metadata"]["name"])
expect("restartPolicy", pod["restartPolicy"], "Never")
[mount], [volume] = worker["volumeMounts"], pod["volumes"]
expect("the mounted volume", mount["name"], volume["name"])
expect("defaultMode", volume["secret"]["defaultMode"], 0o400)
expect("the key's folder", env["TENDRIL_KEY_FILE"].rsplit("/", 1)[0], mount["mountPath"])
for index in range(spec["completions"]):  # what Kubernetes adds
    env |= {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"{job['metadata']['name']}-{index}"}
    print(*(f"{name}={value}" for name, value in env.items()))
PYTHON
size=$(wc -l <"$folder/pods")

# The cluster's names and the secret's folder exist in namespaces alone; where none can be made, the variables do without.
printf '127.0.0.1 localhost tendril-0.tendril-peers\n' >"$folder/hosts"
mkdir "$folder/secret"
head -c 32 /dev/urandom >"$folder/secret/key"
chmod 400 "$folder/secret/key"
inside=(unshare --mount)
[ "$(id -u)" -eq 0 ] || inside=(unshare --map-root-user --mount)
prepare='mount --bind "$0/hosts" /etc/hosts && mount -t tmpfs none /run && mkdir /run/tendril && mount --bind "$0/secret" /run/tendril && '
if "${inside[@]}" sh -c "$prepare true" "$folder" 2>/dev/null; then
  more=()
else
  echo "no namespaces here: by MASTER_ADDR, and the key from its own folder"
  prepare="" inside=()
  more=(MASTER_ADDR=127.0.0.1 "TENDRIL_KEY_FILE=$folder/secret/key")
fi

pods() {
  local pids=() pid variables
  while read -r -a variables; do
    # No second run meets this one: each has a port of its own. The first pod alone writes the curve.
    "${inside[@]}" sh -c "$prepare exec \"\$@\"" "$folder" \
      env "${variables[@]}" "${more[@]}" TENDRIL_PORT="$port" TENDRIL_SHOW_LAUNCH=1 "${command[@]}" &
    pids+=($!)
  done <"$folder/pods"
  for pid in "${pids[@]}"; do wait "$pid"; done
}
export -f pods
export folder port prepare
declare -p command inside more >"$folder/arrays"
check "$size" bash -c 'source "$folder/arrays"; pods'
grep -q "is rank 2 of 3 at .*:$port, started by Kubernetes (" "$folder/err"
