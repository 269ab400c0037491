# Lists the public headers, and generates and checks the umbrella header, which includes them all.

# tendril_public_headers(OUTPUT SOURCE LIBRARIES...): sets OUTPUT to the headers of LIBRARIES, as FOLDER/PATH, that
# cmake/internal_headers.regex does not match.
function(tendril_public_headers output source)
  file(STRINGS "${source}/cmake/internal_headers.regex" internal REGEX "^[^#]")
  list(JOIN internal "|" internal)
  set(public "")
  foreach(library IN LISTS ARGN)
    file(GLOB_RECURSE headers RELATIVE "${source}" "${source}/${library}/*.h")
    list(APPEND public ${headers})
  endforeach()
  list(FILTER public EXCLUDE REGEX "${internal}")
  list(SORT public)
  set(${output} ${public} PARENT_SCOPE)
endfunction()

# cmake -DSOURCE=... [-DUPDATE=ON] -P TendrilPublicHeaders.cmake: checks that include/tendril/tendril.h includes every
# public header and nothing else. With UPDATE, writes that file instead.
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  cmake_minimum_required(VERSION 3.25)
  cmake_path(ABSOLUTE_PATH SOURCE)
  tendril_public_headers(public "${SOURCE}" tensor autograd nn data rpc dist envs)
  set(text "#pragma once\n\n/// All of Tendril. To compile faster, include only the headers that you use.\n\n// IWYU pragma: begin_exports\n")
  foreach(header IN LISTS public ITEMS version.h)
    string(APPEND text "#include \"tendril/${header}\"\n")
  endforeach()
  string(APPEND text "// IWYU pragma: end_exports\n")
  set(umbrella "${SOURCE}/include/tendril/tendril.h")
  if(UPDATE)
    file(WRITE "${umbrella}" "${text}")
  else()
    file(READ "${umbrella}" written)
    if(NOT written STREQUAL text)
      message(FATAL_ERROR "include/tendril/tendril.h: expected exactly the public headers, update it with: "
        "cmake -DSOURCE=. -DUPDATE=ON -P cmake/TendrilPublicHeaders.cmake")
    endif()
  endif()
endif()
