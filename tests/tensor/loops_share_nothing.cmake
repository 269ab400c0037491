# Fails when an object compiled for a newer processor holds a function that other objects may hold too (a "weak" one):
# the linker keeps one copy for all, and were it this one, older processors would meet instructions they do not know.
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --defined-only --demangle ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" shared "${symbols}")
  if(shared)
    list(JOIN shared "\n" shared)
    message(FATAL_ERROR "${object} defines functions that are not its own:\n${shared}")
  endif()
endforeach()
