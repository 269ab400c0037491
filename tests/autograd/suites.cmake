tendril_suites(DEVICES cpu cuda SUITES
  addmm assignment by_index checkpoint clamp creation engine function functional fused_gradients golden
  gradcheck_.* half hooks indexing inplace inplace_forms inplace_refused integers join leaves linear_activation
  overlap promotion saved saved_hooks scan singular sort survivors threads)
tendril_suites(LABELS gradcheck SUITES coverage functional gradcheck_.*)
tendril_suites(LABELS smoke SUITES engine function hooks inplace leaves promotion)
tendril_suites(LABELS threads SUITES
  checkpoint coverage fused_gradients gradcheck_attention half indexing integers overlap saved scan singular sort threads)
