# tendril_library(NAME [SEPARATE] [DEPENDS public targets...] [PRIVATE private targets...] [EXCLUDE files...]
#   [PRECOMPILE headers...])
#
# Builds the library of one top-level folder from every .cpp below it, so that a new file needs no change elsewhere.
# Only symbols between the marks of tensor/export.h are exported. TENDRIL_UNITY compiles several sources as one, except
# in a SEPARATE library. There, inlining must not depend on which files share a batch: small operations execute up to 8%
# more instructions in a batch (bench/instructions.tsv). Sanitized builds also batch SEPARATE libraries.
function(tendril_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "DEPENDS;PRIVATE;EXCLUDE;PRECOMPILE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  foreach(file IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  endforeach()

  add_library(tendril_${name} ${sources})
  add_library(tendril::${name} ALIAS tendril_${name})
  set_target_properties(tendril_${name} PROPERTIES
    EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    POSITION_INDEPENDENT_CODE ON
    INSTALL_RPATH "$ORIGIN")  # they find each other where a program's own path does not count for them
  if(NOT TENDRIL_EXPORT_ALL)
    set_target_properties(tendril_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
  endif()
  target_compile_features(tendril_${name} PUBLIC cxx_std_20)
  target_include_directories(tendril_${name} PUBLIC $<BUILD_INTERFACE:${TENDRIL_INCLUDE_DIR}>)
  target_link_libraries(tendril_${name} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:tendril_options> ${ARG_PRIVATE})
  list(LENGTH sources count)
  if(TENDRIL_PCH_HEADERS AND count GREATER 8 AND NOT TENDRIL_SANITIZE MATCHES "address")
    foreach(header IN LISTS TENDRIL_PCH_HEADERS ARG_PRECOMPILE)
      target_precompile_headers(tendril_${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
    endforeach()
  endif()
  if(TENDRIL_UNITY AND (TENDRIL_SANITIZE OR NOT ARG_SEPARATE))
    set(batch 8)
    if(TENDRIL_SANITIZE MATCHES "address")
      set(batch 24)  # nothing is precompiled there: half of the time would go into reading headers
    endif()
    set_target_properties(tendril_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
  if(BUILD_SHARED_LIBS AND NOT TENDRIL_SANITIZE)
    # A static link hides a call into a library that is not declared below this one.
    target_link_options(tendril_${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_property(GLOBAL APPEND PROPERTY TENDRIL_LIBRARIES ${name})
endfunction()
