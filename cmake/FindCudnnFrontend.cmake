# Finds NVIDIA's cudnn-frontend, headers only: where CUDNN_FRONTEND_ROOT says, where scripts/get_cudnn_frontend.sh puts
# them, beside Python's packages of the toolkit, and in the usual folders. Sets CudnnFrontend_FOUND,
# CUDNN_FRONTEND_INCLUDE_DIR and CUDNN_FRONTEND_VERSION. Older ones than what we were written with are not taken.
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS ${CUDNN_FRONTEND_ROOT} ENV CUDNN_FRONTEND_ROOT "${PROJECT_SOURCE_DIR}/build/cudnn-frontend"
    ${CUDAToolkit_LIBRARY_DIR}/../../.. ${CUDAToolkit_INCLUDE_DIRS}
  PATH_SUFFIXES include)
set(CUDNN_FRONTEND_VERSION "")
if(CUDNN_FRONTEND_INCLUDE_DIR AND EXISTS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h")
  file(READ "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h" _frontend_header)
  foreach(_frontend_part MAJOR MINOR PATCH)
    if(_frontend_header MATCHES "#define CUDNN_FRONTEND_${_frontend_part}_VERSION ([0-9]+)")
      list(APPEND CUDNN_FRONTEND_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN CUDNN_FRONTEND_VERSION "." CUDNN_FRONTEND_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudnnFrontend REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR CUDNN_FRONTEND_VERSION
  VERSION_VAR CUDNN_FRONTEND_VERSION)
if(CudnnFrontend_FOUND AND CUDNN_FRONTEND_VERSION VERSION_LESS 1.32)
  set(CudnnFrontend_FOUND FALSE)
endif()
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR)
