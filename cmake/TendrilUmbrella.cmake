# Writes <build>/include/tendril/{tendril.h,version.h}. The umbrella header includes the headers that programs are written
# with. Not those in detail/, cuda/ and cpu/ folders, of tensor's drivers and, in rpc/, in any folder; nor those that only
# kernels, operations and the engine are written with (scripts/docs.sh has the same two lists). But what a program may
# say to CUDA devices is one of them.
set(TENDRIL_INTERNAL "/(detail|cuda|cpu|drivers)/|^rpc/.+/")
string(APPEND TENDRIL_INTERNAL "|^tensor/(kernels|view|optim_step|scalar_math|raw|ref|geometry|layout|memory|philox)\\.h")
string(APPEND TENDRIL_INTERNAL "|^autograd/(accumulate_grad|history|saved)\\.h|^dist/autograd/(pass_.*|container|nodes)\\.h")
get_property(libraries GLOBAL PROPERTY TENDRIL_LIBRARIES)
set(includes)
foreach(library IN LISTS libraries)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/${library}/*.h")
  list(FILTER headers EXCLUDE REGEX "${TENDRIL_INTERNAL}")
  if(library STREQUAL "tensor")
    list(APPEND headers tensor/cuda/runtime.h)
  endif()
  list(SORT headers)
  foreach(header IN LISTS headers)
    list(APPEND includes "#include \"tendril/${header}\"  // IWYU pragma: export")
  endforeach()
endforeach()
list(JOIN includes "\n" TENDRIL_UMBRELLA_INCLUDES)
configure_file("${PROJECT_SOURCE_DIR}/cmake/tendril.h.in" "${TENDRIL_INCLUDE_DIR}/tendril/tendril.h" @ONLY)
configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in" "${TENDRIL_INCLUDE_DIR}/tendril/version.h" @ONLY)
