#pragma once

#include <filesystem>

#include "tendril/tensor/export.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

namespace tendril {

/// What `torch.save` wrote of a state_dict, or of any nest of dicts, lists and tuples of tensors and numbers: the names
/// are the keys and positions on the way, with dots between them ("optimizer.state.0.exp_avg"). A list of integers is
/// one int64 vector, a number a 0-d tensor, None nothing; texts become `texts`, if given, by the same names. A file
/// that holds one tensor gives it the name "tensor".
///
/// Nothing in the file is run: its pickle is read by an interpreter that knows tensors, parameters, OrderedDict,
/// torch.Size, containers, numbers and texts. Whatever else a file asks for is an Error that names it, before anything
/// is looked up or called. So is a file that is cut short, contradicts itself, nests over 64 deep or holds itself, was
/// written on a big-endian machine, by PyTorch before 1.6 or by TorchScript. An entry of a dtype that no Tensor has
/// (int16, float8_e4m3fn, ...) is a DTypeError that names both.
///
/// Tensors are on the CPU, wherever they were saved from, and on the file's own pages, as load_safetensors' are; those
/// that shared elements share them here, and strides stay. Checksums are not compared: PyTorch may leave them out.
/// Thread-safety: any thread.
StateDict load_pytorch(const std::filesystem::path& file, FileMetadata* texts = nullptr);

}  // namespace tendril

TENDRIL_API_END
