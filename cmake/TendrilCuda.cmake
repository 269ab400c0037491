# Finds the CUDA toolkit, cuDNN and cudnn-frontend. Sets TENDRIL_HAS_CUDA, TENDRIL_HAS_CUDNN and TENDRIL_HAS_CUDNN_FRONTEND, and makes the target tendril_cuda of
# what the CUDA backend compiles with. TENDRIL_CUDA_LIBRARIES are what it links with, and so do those who link with it.

set(TENDRIL_HAS_CUDNN OFF)
set(TENDRIL_HAS_CUDNN_FRONTEND OFF)
set(TENDRIL_CUDA_LIBRARIES "")
if(TENDRIL_CUDA_EMULATOR)
  # The toolkit's headers, and our own functions behind them: nothing of CUDA runs.
  find_package(TendrilCudaLibraries REQUIRED)
  set(TENDRIL_HAS_CUDA ON)
elseif(NOT TENDRIL_CUDA STREQUAL "OFF")
  find_package(TendrilCudaLibraries QUIET)
  if(TendrilCudaLibraries_FOUND)
    if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
      set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
    endif()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      # "native" fails without a device to ask.
      execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE devices ERROR_QUIET RESULT_VARIABLE no_devices)
      if(devices MATCHES "GPU" AND NOT no_devices)
        set(CMAKE_CUDA_ARCHITECTURES native)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 75-virtual 80-real 90)
      endif()
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      # What links with us need not know CUDA, so the runtime library is named as any other, and not twice.
      set(CMAKE_CUDA_RUNTIME_LIBRARY None)
      set(TENDRIL_HAS_CUDA ON)
    endif()
  endif()
  if(NOT TENDRIL_HAS_CUDA AND TENDRIL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TENDRIL_CUDA=ON, but no CUDA toolkit 12.0 or newer with nvcc, cudart and cuBLAS was found. "
      "Set CUDAToolkit_ROOT to the folder that holds bin/nvcc: /usr/local/cuda, say, or for Python's packages "
      "(pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cublas nvidia-cudnn-cu13) site-packages/nvidia/cu13")
  endif()
endif()

if(TENDRIL_HAS_CUDA)
  set(TENDRIL_HAS_CUDNN ${CUDNN_FOUND})
  add_library(tendril_cuda INTERFACE)
  if(TENDRIL_CUDA_EMULATOR)
    target_include_directories(tendril_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR})
    target_link_libraries(tendril_cuda INTERFACE tendril_cuda_emulator)
  else()
    list(APPEND TENDRIL_CUDA_LIBRARIES CUDA::cudart CUDA::cublas CUDA::cublasLt)
    if(TENDRIL_HAS_CUDNN)
      list(APPEND TENDRIL_CUDA_LIBRARIES CUDNN::CUDNN)
      find_package(CudnnFrontend QUIET)
      if(CudnnFrontend_FOUND)
        set(TENDRIL_HAS_CUDNN_FRONTEND ON)
        target_include_directories(tendril_cuda SYSTEM INTERFACE "${CUDNN_FRONTEND_INCLUDE_DIR}")
      endif()
    endif()
    # CMake 3.25 does not know nvcc's flag for C++20, and would silently fall back to 17.
    target_compile_options(tendril_cuda INTERFACE
      "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter>"
      "$<$<AND:$<BOOL:${TENDRIL_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings;-Xcompiler=-Werror>")
  endif()
endif()
