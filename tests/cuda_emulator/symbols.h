#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// What the program's own symbol table says: names of kernels, and where their shared memory lies.
namespace cuda_emulator {

/// What may be a `__shared__` array: a static of a function, zero at first and aligned as such an array is (device.h).
/// Another static may be so by chance.
struct SharedArray {
  unsigned char* address;
  std::size_t bytes;
  std::string symbol;
};

/// All of them. Empty where the program has no symbol table.
const std::vector<SharedArray>& shared_arrays();

/// The mangled name of the function at this address; empty when it is not known.
std::string symbol_of(const void* function);
/// For people; the address when the name is not known.
std::string name_of(const void* function);

}  // namespace cuda_emulator
