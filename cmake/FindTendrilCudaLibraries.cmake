# Finds the libraries of the CUDA toolkit (12 or newer) that Tendril calls, and cuDNN 9 if it is there, for the build and
# for projects that link with an installed Tendril. Makes CUDA::cudart, CUDA::cublas, CUDA::cublasLt and, if found, CUDNN::CUDNN.
#
# CMake's FindCUDAToolkit knows NVIDIA's layout (/usr/local/cuda) and Debian's (/usr/bin/nvcc, /usr/lib/cuda), but wants
# the links without a version that Python's packages (site-packages/nvidia/cu13) leave out. So these are looked for
# first, where CUDAToolkit_ROOT or an nvcc says. Of several, CUDAToolkit_ROOT decides, then the nvcc in PATH.
set(_tendril_nvcc "${CMAKE_CUDA_COMPILER}")
if(NOT _tendril_nvcc)
  find_program(TENDRIL_NVCC nvcc
    HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_PATH PATHS /usr/local/cuda /usr/lib/cuda PATH_SUFFIXES bin)
  mark_as_advanced(TENDRIL_NVCC)
  set(_tendril_nvcc "${TENDRIL_NVCC}")
endif()
set(_tendril_cuda_roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_PATH})
if(_tendril_nvcc)
  cmake_path(GET _tendril_nvcc PARENT_PATH _tendril_bin)
  cmake_path(GET _tendril_bin PARENT_PATH _tendril_root)
  list(APPEND _tendril_cuda_roots "${_tendril_root}")
endif()
foreach(_tendril_root IN LISTS _tendril_cuda_roots)
  foreach(_tendril_name cudart cublas cublasLt)
    if(_tendril_name STREQUAL "cudart" AND NOT CUDA_CUDART)
      find_library(CUDA_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 NAMES_PER_DIR
        PATHS "${_tendril_root}" PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
      mark_as_advanced(CUDA_CUDART)
    endif()
    find_library(CUDA_${_tendril_name}_LIBRARY
      NAMES ${_tendril_name} lib${_tendril_name}.so.13 lib${_tendril_name}.so.12 NAMES_PER_DIR
      PATHS "${_tendril_root}" PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
    mark_as_advanced(CUDA_${_tendril_name}_LIBRARY)
  endforeach()
endforeach()
# A search that found nothing must not keep CMake's own from looking elsewhere.
foreach(_tendril_name CUDA_CUDART CUDA_cudart_LIBRARY CUDA_cublas_LIBRARY CUDA_cublasLt_LIBRARY)
  if(NOT ${_tendril_name})
    unset(${_tendril_name} CACHE)
  endif()
endforeach()

find_package(CUDAToolkit 12.0 QUIET)
find_package(CUDNN QUIET)

include(FindPackageHandleStandardArgs)
foreach(_tendril_name cudart cublas cublasLt)
  set(_tendril_${_tendril_name} FALSE)
  if(TARGET CUDA::${_tendril_name})
    set(_tendril_${_tendril_name} TRUE)
  endif()
endforeach()
find_package_handle_standard_args(TendrilCudaLibraries
  REQUIRED_VARS CUDAToolkit_FOUND _tendril_cudart _tendril_cublas _tendril_cublasLt VERSION_VAR CUDAToolkit_VERSION)
