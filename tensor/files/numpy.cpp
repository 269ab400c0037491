#include "tendril/tensor/files/numpy.h"

#include <boost/json.hpp>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/atomic_file.h"
#include "tendril/tensor/files/detail/npy.h"
#include "tendril/tensor/files/detail/zip.h"

namespace tendril {

using files::detail::AtomicFile;
using files::detail::Bytes;
using files::detail::label_of;

namespace {

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void save_npy(const Tensor& tensor, const std::filesystem::path& file) {
  detail::check_defined(tensor, "save_npy");
  const std::string head = files::detail::npy_head(tensor, label_of("save_npy", file));
  Tensor holder;
  const std::span<const std::byte> elements = files::detail::elements_of(tensor, holder);
  AtomicFile out("save_npy", file, head.size() + elements.size());
  out.write(head);
  out.write(elements);
  out.commit();
}

Tensor load_npy(const std::filesystem::path& file) {
  const auto bytes = Bytes::of_file("load_npy", file);
  return files::detail::parse_npy(bytes, bytes->all(), label_of("load_npy", file));
}

void save_npz(const StateDict& dict, const std::filesystem::path& file) {
  const std::string what = label_of("save_npz", file);
  for (const auto& [name, tensor] : dict) {
    TENDRIL_CHECK(name.size() < 0xff00, what, ": a name has ", name.size(), " bytes, expected fewer than 65280");
    // Python could not open the file, with all that is in it.
    boost::system::error_code not_utf8;
    boost::json::parse(boost::json::serialize(boost::json::string(name)), not_utf8);
    TENDRIL_CHECK(!not_utf8 && name.find('\0') == std::string::npos, what, ": a name is no UTF-8, or has a NUL in it");
    files::detail::npy_head(tensor, what + ": '" + name + "'");
  }
  AtomicFile out("save_npz", file);
  files::detail::ZipWriter archive(out);
  for (const auto& [name, tensor] : dict) {
    Tensor holder;
    archive.add(name + ".npy", bytes_of_text(files::detail::npy_head(tensor, what)),
                files::detail::elements_of(tensor, holder));
  }
  archive.finish();
  out.commit();
}

StateDict load_npz(const std::filesystem::path& file) {
  return files::detail::parse_npz(Bytes::of_file("load_npz", file), label_of("load_npz", file));
}

}  // namespace tendril
