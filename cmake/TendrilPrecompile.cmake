# tendril_precompile(TARGET...): <tendril/tendril.h> is parsed once, for all sources of these targets. Targets that are given
# together share it, and must be compiled with the same options (CMake: REUSE_FROM). They link with tendril::tendril.
function(tendril_precompile first)
  if(NOT TARGET ${first})
    message(FATAL_ERROR "tendril_precompile: got '${first}', expected the names of targets")
  endif()
  target_precompile_headers(${first} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<tendril/tendril.h$<ANGLE-R>>")
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      message(FATAL_ERROR "tendril_precompile: got '${target}', expected the names of targets")
    endif()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()
