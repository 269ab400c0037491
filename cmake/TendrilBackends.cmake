# Finds what makes the library fast but is not needed to build it. Sets TENDRIL_HAS_ONEDNN and TENDRIL_HAS_CUDA.

foreach(backend ONEDNN CUDA)
  set(TENDRIL_HAS_${backend} OFF)
  if(NOT TENDRIL_${backend} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "TENDRIL_${backend} is '${TENDRIL_${backend}}'; expected AUTO, ON or OFF")
  endif()
endforeach()

if(NOT TENDRIL_ONEDNN STREQUAL "OFF")
  find_package(OneDNN QUIET)
  if(OneDNN_FOUND)
    set(TENDRIL_HAS_ONEDNN ON)
  elseif(TENDRIL_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "TENDRIL_ONEDNN=ON, but oneDNN was not found (Debian: libdnnl-dev)")
  endif()
endif()

# Only for reading compressed .npz files.
find_package(ZLIB QUIET)
set(TENDRIL_HAS_ZLIB ${ZLIB_FOUND})

include(TendrilCuda)

message(STATUS "tendril: oneDNN ${TENDRIL_HAS_ONEDNN}, CUDA ${TENDRIL_HAS_CUDA}")
