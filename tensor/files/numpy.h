#pragma once

#include <filesystem>

#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// NumPy's files: .npy, one array (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1
/// to 3), and .npz, a zip archive of them. docs/files.md says what all formats have in common.
///
/// dtypes: all but bfloat16, which NumPy has none of: cast it first (DTypeError). Arrays of the other byte order and of
/// Fortran's order of elements are read too; other dtypes, and arrays of Python objects, are an Error.
///
/// Thread-safety: any thread; a file that is being written is seen by readers when it is whole.
namespace tendril {

/// Any layout and device; atomic. Throws Error where the disk is full or the folder missing; what was there before is
/// unchanged then. The file is numpy.save's to the last byte.
void save_npy(const Tensor& tensor, const std::filesystem::path& file);
/// On the CPU; elements are the file's own pages, as load_safetensors' are. Throws Error for what is no such file, or
/// not of the length that it says.
Tensor load_npy(const std::filesystem::path& file);

/// Not compressed, each array where it can be mapped; atomic. Throws as save_npy.
void save_npz(const StateDict& dict, const std::filesystem::path& file);
/// In the archive's order, by names without ".npy". What is not compressed is the file's own pages. Checksums are
/// compared, so all of the file is read. Throws Error for what is no such file, is damaged, or is compressed where the
/// library was built without zlib.
StateDict load_npz(const std::filesystem::path& file);

}  // namespace tendril

TENDRIL_API_END
