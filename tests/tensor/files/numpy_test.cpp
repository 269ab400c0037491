#include "tendril/tensor/files/numpy.h"

#include <boost/test/unit_test.hpp>

#include "tests/errors.h"
#include "tests/temporary_folder.h"
#include "tests/tensor/files/pattern.h"

BOOST_AUTO_TEST_SUITE(numpy)

using namespace tendril;
using namespace tendril::testing;

namespace {

std::string npy(const std::string& header, const std::string& elements = "") {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  return bytes + header + elements;
}

void check_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.npy", bytes);
  BOOST_CHECK_EXCEPTION(load_npy(folder / "x.npy"), Error, says("load_npy", "x.npy", reason));
}

StateDict two_arrays() { return {{"a", pattern({3, 4}, kFloat32)}, {"layer.weight", pattern({3, 4}, kFloat64)}}; }

void check_equal(const StateDict& got, const StateDict& expected) {
  BOOST_TEST(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    BOOST_TEST_CONTEXT(name) { BOOST_TEST(same(got.at(name), tensor)); }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(arrays_of_every_dtype_are_read_and_written_as_numpy_does) {
  const TemporaryFolder folder;
  for (const auto& [name, dtype] : kDTypesByName) {
    if (dtype == kBFloat16) continue;
    BOOST_TEST_CONTEXT(name) {
      const std::string file = golden_file(name + ".npy");
      BOOST_TEST(same(load_npy(file), pattern({3, 4}, dtype)));
      save_npy(pattern({3, 4}, dtype), folder / "x.npy");
      BOOST_TEST((read_bytes(folder / "x.npy") == read_bytes(file)));
    }
  }
}

BOOST_AUTO_TEST_CASE(arrays_of_other_shapes_are_read_and_written_as_numpy_does) {
  const TemporaryFolder folder;
  const std::pair<std::string, Tensor> cases[] = {{"scalar.npy", raw::full({}, 2.5, kFloat64)},
                                                  {"empty.npy", raw::zeros({0, 3})},
                                                  {"vector.npy", pattern({4}, kFloat32)}};
  for (const auto& [name, tensor] : cases) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(same(load_npy(golden_file(name)), tensor));
      save_npy(tensor, folder / "x.npy");
      BOOST_TEST((read_bytes(folder / "x.npy") == read_bytes(golden_file(name))));
    }
  }
}

BOOST_AUTO_TEST_CASE(other_orders_and_versions_are_read) {
  for (const std::string name : {"fortran.npy", "big_endian.npy", "version2.npy"}) {
    BOOST_TEST(same(load_npy(golden_file(name)), pattern({3, 4}, kFloat32)), name);
  }
}

BOOST_AUTO_TEST_CASE(a_view_is_written_as_what_it_shows) {
  const TemporaryFolder folder;
  const Tensor view = raw::transpose(pattern({3, 4}, kInt32), 0, 1);
  save_npy(view, folder / "x.npy");
  BOOST_TEST(same(load_npy(folder / "x.npy"), view));
}

BOOST_AUTO_TEST_CASE(dtypes_that_one_side_lacks_are_refused_by_name) {
  const TemporaryFolder folder;
  BOOST_CHECK_EXCEPTION(load_npy(golden_file("complex.npy")), Error, says("complex.npy", "'<c8'", "f4"));
  BOOST_CHECK_EXCEPTION(load_npy(golden_file("objects.npy")), Error, says("objects.npy", "'|O'"));
  BOOST_CHECK_EXCEPTION(save_npy(pattern({2}, kBFloat16), folder / "x.npy"), DTypeError,
                        says("save_npy", "bfloat16", "float32"));
  BOOST_CHECK_EXCEPTION(save_npz({{"w", pattern({2}, kBFloat16)}}, folder / "x.npz"), DTypeError,
                        says("save_npz", "'w'", "bfloat16"));
  BOOST_CHECK_EXCEPTION(save_npy(Tensor(), folder / "x.npy"), Error, says("save_npy", "undefined"));
  BOOST_TEST(folder.size() == 0u);
}

BOOST_AUTO_TEST_CASE(damaged_headers_are_refused_with_the_reason) {
  check_refused("", "is no .npy file");
  check_refused("PK\3\4 and more than ten bytes", "is no .npy file");
  check_refused(std::string("\x93NUMPY\x04\x00\x00\x00", 10), "version 4");
  check_refused(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12), "cut short");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False}"), "no descr, fortran_order or shape");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}"), "unknown");
  check_refused(npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}"), "True or False");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, __import__)}"), "expected a number");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"), "sizes of 0 or more");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} more"), "behind its end");
  check_refused(npy("{'descr': '<f4"), "string without end");
  check_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), "structures");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}", "1234"),
                "9 dimensions");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8)}"),
                "too many elements");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "expected a number");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234567"), "expected 8");
  check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "123456789"), "expected 8");
  check_refused(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\x02"), "a bool is 2");
}

BOOST_AUTO_TEST_CASE(archives_of_numpys_are_read) {
  check_equal(load_npz(golden_file("stored.npz")), two_arrays());
  try {
    check_equal(load_npz(golden_file("compressed.npz")), two_arrays());
  } catch (const Error& error) {
    BOOST_TEST(says("load_npz", "compressed.npz", "built without zlib")(error));
  }
  BOOST_CHECK_EXCEPTION(load_npz(golden_file("lzma.npz")), Error, says("load_npz", "vector.npy", "method 14"));
}

BOOST_AUTO_TEST_CASE(archives_go_there_and_back) {
  const TemporaryFolder folder;
  StateDict dict = two_arrays();
  dict.insert("empty", raw::zeros({0}));
  dict.insert("step", 5);
  save_npz(dict, folder / "x.npz");
  const StateDict loaded = load_npz(folder / "x.npz");
  check_equal(loaded, dict);
  BOOST_TEST(loaded.begin()->first == "a");
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(loaded.at("a").raw_data()) % 64 == 0u);
  for (const std::string& name : {std::string("w\xff"), std::string("a\0b", 3)}) {
    BOOST_CHECK_EXCEPTION(save_npz({{name, raw::ones({1})}}, folder / "x.npz"), Error, says("save_npz", "UTF-8"));
  }
  check_equal(load_npz(folder / "x.npz"), dict);
  save_npz({}, folder / "none.npz");
  BOOST_TEST(load_npz(folder / "none.npz").empty());
}

BOOST_AUTO_TEST_CASE(a_damaged_archive_is_an_error) {
  const TemporaryFolder folder;
  save_npz(two_arrays(), folder / "x.npz");
  const std::string whole = read_bytes(folder / "x.npz");
  const auto check = [&](const std::string& bytes, const std::string& reason) {
    write_bytes(folder / "y.npz", bytes);
    BOOST_CHECK_EXCEPTION(load_npz(folder / "y.npz"), Error, says("load_npz", "y.npz", reason));
  };
  check("", "too short");
  for (std::size_t size = 1; size < whole.size(); size += 7) check(whole.substr(0, size), "y.npz");
  std::string flipped = whole;
  char& element = flipped[flipped.find('\n') + 5];  // behind the first array's header
  element = static_cast<char>(element ^ 1);
  check(flipped, "checksum");
}

BOOST_AUTO_TEST_SUITE_END()
