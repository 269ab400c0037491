# Finds what makes the library fast, or able to read more files, but is not needed to build it. Sets TENDRIL_HAS_ONEDNN,
# TENDRIL_HAS_CUDA, TENDRIL_HAS_PNG and TENDRIL_HAS_JPEG.

foreach(backend ONEDNN CUDA PNG JPEG)
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

foreach(format PNG JPEG)
  if(TENDRIL_${format} STREQUAL "OFF")
    continue()
  endif()
  find_package(${format} QUIET)
  if(${format}_FOUND)
    set(TENDRIL_HAS_${format} ON)
  elseif(TENDRIL_${format} STREQUAL "ON")
    message(FATAL_ERROR "TENDRIL_${format}=ON, but it was not found (Debian: libpng-dev, libjpeg-dev)")
  endif()
endforeach()

# Only for reading compressed .npz files.
find_package(ZLIB QUIET)
set(TENDRIL_HAS_ZLIB ${ZLIB_FOUND})

include(TendrilCuda)

message(STATUS "tendril: oneDNN ${TENDRIL_HAS_ONEDNN}, CUDA ${TENDRIL_HAS_CUDA} (cuDNN ${TENDRIL_HAS_CUDNN}, its graphs ${TENDRIL_HAS_CUDNN_FRONTEND}), PNG ${TENDRIL_HAS_PNG}, JPEG ${TENDRIL_HAS_JPEG}")
