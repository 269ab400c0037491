tendril_suites(DEVICES cuda SUITES gpu lending)
tendril_suites(LABELS gpu SUITES lending)
tendril_suites(LABELS gpu alone SUITES gpu)
tendril_suites(TIMEOUT 180 SUITES
  group hung_owner joining leaving memory overtaken_cancel shutdown_ends strangers tls_strangers key_strangers)
tendril_suites(TIMEOUT 240 SUITES crossed_dials launch processes several_hosts silence)
tendril_suites(TIMEOUT 300 SUITES lending lost_connection members thread_cap unread)
tendril_suites(LABELS smoke SUITES agent archive frame_parts future remote_call rref wire)
# These mostly wait for deadlines.
tendril_suites(PARTS 2 SUITES group)
tendril_suites(PARTS 3 SUITES joining several_hosts)
# Each starts several processes. Those of several_hosts mostly wait.
tendril_suites(PROCESSORS 4 SUITES crossed_dials launch processes spawn)
tendril_suites(PROCESSORS 2 SUITES several_hosts silence)
# Simulations of a protocol in one thread.
tendril_suites(LABELS simulation SUITES rref_losses rref_table)
