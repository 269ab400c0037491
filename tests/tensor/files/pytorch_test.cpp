#include "tendril/tensor/files/pytorch.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tendril/tensor/files/detail/atomic_file.h"
#include "tendril/tensor/files/detail/zip.h"
#include "tests/errors.h"
#include "tests/temporary_folder.h"
#include "tests/tensor/files/pattern.h"

BOOST_AUTO_TEST_SUITE(pytorch)

using namespace tendril;
using namespace tendril::testing;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// A .pt file of this pickle, with one storage of 4 bytes.
std::string pt(const std::string& pickle, const std::string& byte_order = "little") {
  const TemporaryFolder folder;
  files::detail::AtomicFile out("test", folder / "x.pt");
  files::detail::ZipWriter writer(out);
  writer.add("x/data.pkl", bytes_of(pickle), {});
  writer.add("x/byteorder", bytes_of(byte_order), {});
  writer.add("x/data/0", bytes_of(std::string(4, '\0')), {});
  writer.finish();
  out.commit();
  return read_bytes(folder / "x.pt");
}

StateDict load(const std::string& bytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.pt", bytes);
  return load_pytorch(folder / "x.pt");
}

std::string text(const std::string& value) {
  std::string code = "\x8c";
  code += static_cast<char>(value.size());
  return code + value;
}

/// The instructions that make a tensor on storage `key`.
std::string tensor(const std::string& key, int count, const std::string& sizes, const std::string& strides,
                   int offset = 0, const std::string& type = "FloatStorage") {
  const auto number = [](int value) { return std::string("K") + static_cast<char>(value); };
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + type + "\n" + text(key) +
         text("cpu") + number(count) + "tQ" + number(offset) + sizes + strides + "\x89}tR";
}

const std::string kStart("\x80\x02", 2);

void check_refused(const std::string& pickle, const std::string& reason) {
  BOOST_TEST_CONTEXT(pickle) { BOOST_CHECK_EXCEPTION(load(pt(kStart + pickle)), Error, says("load_pytorch", reason)); }
}

}  // namespace

BOOST_AUTO_TEST_CASE(nests_become_names) {
  FileMetadata texts;
  const StateDict dict = load_pytorch(golden_file("nested.pt"), &texts);
  for (const auto& [name, dtype] : kDTypesByName) {
    BOOST_TEST(same(dict.at("dtypes." + name), pattern({3, 4}, dtype)), name);
  }
  BOOST_TEST(same(dict.at("parameter"), pattern({2}, kFloat32)));
  BOOST_TEST(same(dict.at("scalar"), pattern({}, kFloat64)));
  BOOST_TEST(same(dict.at("empty"), pattern({0, 5}, kFloat32)));
  BOOST_TEST(same(dict.at("list.0"), pattern({2}, kInt64)));
  BOOST_TEST(dict.at("list.1.0").item<double>() == 1.5);
  BOOST_TEST(dict.at("list.1.1").item<int64_t>() == 2);
  BOOST_TEST(same(dict.at("ints"), raw::from_data(std::vector<int64_t>{1, 2, 3}, {3})));
  BOOST_TEST(same(dict.at("sizes"), raw::from_data(std::vector<int64_t>{2, 3}, {2})));
  BOOST_TEST(same(dict.at("5"), pattern({1}, kFloat32)));
  BOOST_TEST(dict.at("numbers.int").item<int64_t>() == 7);
  BOOST_TEST(dict.at("numbers.negative").item<int64_t>() == -70000);
  BOOST_TEST(dict.at("numbers.large").item<int64_t>() == int64_t{1} << 40);
  BOOST_TEST(dict.at("numbers.least").item<int64_t>() == INT64_MIN);
  BOOST_TEST(dict.at("numbers.float").item<double>() == 0.1);
  BOOST_TEST(same(dict.at("numbers.true"), raw::full({}, 1, kBool)));
  BOOST_TEST(!dict.contains("none"));
  BOOST_TEST(!dict.contains("text"));
  BOOST_TEST(texts.at("text") == "h\xc3\xa9llo");
}

BOOST_AUTO_TEST_CASE(views_keep_their_strides_and_share_their_storage) {
  const StateDict dict = load_pytorch(golden_file("nested.pt"));
  const Tensor& whole = dict.at("views.whole");
  BOOST_TEST(same(whole, pattern({4, 6}, kFloat32)));
  BOOST_TEST(same(dict.at("views.row"), raw::select(whole, 0, 1)));
  BOOST_TEST(same(dict.at("views.transposed"), raw::transpose(whole, 0, 1)));
  BOOST_TEST(same(dict.at("views.step"), whole.slice(1, 0, 6, 2)));
  BOOST_TEST(same(dict.at("views.expanded"), raw::expand(whole.slice(0, 0, 1), {3, 6})));
  BOOST_TEST((dict.at("views.transposed").storage() == whole.storage()));
  raw::fill_(whole, 1);
  BOOST_TEST(same(dict.at("views.row"), raw::ones({6})));
}

BOOST_AUTO_TEST_CASE(other_protocols_and_single_tensors_are_read) {
  const StateDict dict = load_pytorch(golden_file("protocol4.pt"));
  for (const auto& [name, dtype] : kDTypesByName) BOOST_TEST(same(dict.at(name), pattern({3, 4}, dtype)), name);
  BOOST_TEST(same(load_pytorch(golden_file("one_tensor.pt")).at("tensor"), pattern({3}, kFloat32)));
}

BOOST_AUTO_TEST_CASE(a_file_that_wants_to_run_code_is_refused_by_what_it_asks_for) {
  BOOST_CHECK_EXCEPTION(load_pytorch(golden_file("runs_code.pt")), Error,
                        says("load_pytorch", "runs_code.pt", "posix.system", "not run"));
  BOOST_CHECK_EXCEPTION(load_pytorch(golden_file("sparse.pt")), Error, says("_rebuild_sparse_tensor", "not run"));
  check_refused("cbuiltins\neval\n(" + text("1") + "tR.", "builtins.eval");
  check_refused(text("os") + text("system") + "\x93.", "os.system");
  check_refused("i", "instruction 105");  // INST, OBJ and their like make objects in older protocols
}

BOOST_AUTO_TEST_CASE(files_of_other_kinds_are_refused_with_what_they_are) {
  BOOST_CHECK_EXCEPTION(load_pytorch(golden_file("legacy.pt")), Error,
                        says("is in no zip file", "if PyTorch before 1.6 did", "save it again"));
  const auto joblibs_too = [](const Error& error) {
    return std::string(error.what()).find("as PyTorch") == std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(load(kStart + "}."), Error, joblibs_too);
  BOOST_CHECK_EXCEPTION(load_pytorch(golden_file("itself.pt")), Error, says("holds itself"));
  BOOST_CHECK_EXCEPTION(load_pytorch(golden_file("stored.npz")), Error, says("without data.pkl"));
  BOOST_CHECK_EXCEPTION(load(pt(kStart + "}.", "big")), Error, says("byte order", "'big'"));
}

BOOST_AUTO_TEST_CASE(a_dtype_without_tensors_is_named_with_its_entry) {
  BOOST_CHECK_EXCEPTION(load_pytorch(golden_file("int16.pt")), DTypeError,
                        says("'weight' has the dtype int16, expected float64, float32"));
  BOOST_CHECK_EXCEPTION(load_pytorch(golden_file("float8.pt")), DTypeError,
                        says("'layer.weight' has the dtype float8_e4m3fn, expected"));
  const auto untyped_of = [&](const std::string& function, const std::string& dtype) {
    const std::string sizes = std::string("K") + '\0' + "K\x02\x85K\x01\x85\x89}";
    return "ctorch._utils\n" + function + "\n((" + text("storage") + "ctorch.storage\nUntypedStorage\n" + text("0") +
           text("cpu") + "K\x04tQ" + sizes + "ctorch\n" + dtype + "\ntR.";
  };
  check_refused(untyped_of("_rebuild_tensor_v3", "uint16"), "'tensor' has the dtype uint16");
  check_refused(untyped_of("_rebuild_tensor_v2", "uint16"), "'tensor' has the dtype untyped");
  check_refused(untyped_of("_rebuild_tensor_v3", "load"), "torch.load, which is not run");
  check_refused("ctorch\nuint16\n)R.", "calls torch uint16");
}

BOOST_AUTO_TEST_CASE(a_pickle_that_makes_no_sense_is_an_error) {
  BOOST_TEST(load(pt(kStart + "}.")).empty());
  check_refused("", "cut short");
  check_refused(".", "takes a value where there is none");
  check_refused("t.", "mark");
  check_refused("(0", "instruction 48");
  check_refused("h\x05.", "recalls");
  check_refused("K\x01K\x02s.", "takes a value");
  check_refused("}(K\x01u.", "a key has no value");
  check_refused(
      "K\x01K\x02"
      "a.",
      "puts a value into what holds none");
  check_refused(
      "X\xff\xff\xff\x7f"
      "abc.",
      "cut short");
  check_refused(
      "\x8a\x09"
      "123456789.",
      "over 64 bits");
  check_refused("}}K\x01s.", "neither text nor an integer");
  check_refused("K\x01K\x02R.", "calls what is no function");
  check_refused("ctorch._utils\n_rebuild_tensor_v2\n)R.", "arguments");
  check_refused("ccollections\nOrderedDict\n.", "is a class");
  check_refused("(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\x01tQ.",
                "is a storage");
  check_refused("}(" + text("a.b") + "K\x01" + text("a") + "}" + text("b") + "K\x02su.", "two entries");
  BOOST_CHECK_EXCEPTION(load(pt(std::string("\x80\x01", 2) + "}.")), Error, says("protocol 1"));
}

BOOST_AUTO_TEST_CASE(tensors_reach_no_further_than_their_storage) {
  const std::string vector = std::string("K\x01\x85", 3), two = std::string("K\x02\x85", 3);
  BOOST_TEST(same(load(pt(kStart + tensor("0", 1, vector, vector) + ".")).at("tensor"), raw::zeros({1})));
  check_refused(tensor("0", 1, two, vector) + ".", "storage '0'");
  check_refused(tensor("0", 1, vector, vector, 1) + ".", "does not fit");
  check_refused(tensor("0", 2, two, vector) + ".", "has 4 bytes, expected 8");
  check_refused(tensor("1", 1, vector, vector) + ".", "'1': is not in the file");
  check_refused(tensor("../data.pkl", 1, vector, vector) + ".", "not in the file");
  check_refused(tensor("0", 1, vector, ")") + ".", "1 sizes, but 0 strides");
  check_refused(tensor("0", 1, "J\xff\xff\xff\xff\x85", vector) + ".", "sizes of 0 or more");
  check_refused(tensor("0", 1, two, "J\xff\xff\xff\xff\x85") + ".", "storage '0'");
  check_refused("(" + tensor("0", 1, vector, vector) + tensor("0", 1, vector, vector, 0, "IntStorage") + "t.",
                "is of float32 and of int32");
}

BOOST_AUTO_TEST_CASE(a_small_file_cannot_hold_very_much) {
  std::string laughs = "]q";  // each list holds the one before it twice
  laughs += '\0';
  for (int i = 0; i < 60; ++i) {
    laughs += "(h";
    laughs += static_cast<char>(i);
    laughs += "h";
    laughs += static_cast<char>(i);
    laughs += "tq";
    laughs += static_cast<char>(i + 1);
  }
  check_refused(laughs + ".", "too many values");
  check_refused(std::string(1000, '(') + std::string(1000, 't') + ".", "nested over 64 deep");
  const std::string nones = kStart + std::string(2'000'000, 'N') + ".";
  BOOST_CHECK_EXCEPTION(load(pt(nones)), Error, says("load_pytorch", "too many values for its size"));
}

BOOST_AUTO_TEST_CASE(texts_are_those_of_the_file_or_as_they_were) {
  const TemporaryFolder folder;
  FileMetadata texts{{"before", "1"}};
  write_bytes(folder / "x.pt",
              pt(kStart + "}(" + text("a") + text("first") + text("b") + "ccollections\nOrderedDict\nu."));
  BOOST_CHECK_EXCEPTION(load_pytorch(folder / "x.pt", &texts), Error, says("'b' is a class"));
  BOOST_TEST((texts == FileMetadata{{"before", "1"}}));
  write_bytes(folder / "x.pt",
              pt(kStart + "}(" + text("a.b") + text("first") + text("a") + "}" + text("b") + text("second") + "su."));
  BOOST_CHECK_EXCEPTION(load_pytorch(folder / "x.pt", &texts), Error, says("two texts have the name 'a.b'"));
  write_bytes(folder / "x.pt", pt(kStart + "}" + text("a") + text("first") + "s."));
  load_pytorch(folder / "x.pt", &texts);
  BOOST_TEST((texts == FileMetadata{{"a", "first"}}));
}

BOOST_AUTO_TEST_CASE(a_small_file_cannot_ask_for_many_copies) {
  const auto times = [](int count, const std::string& code) {
    std::string all;
    for (int i = 0; i < count; ++i) all += code;
    return all;
  };
  const std::string ordered = "ccollections\nOrderedDict\nq" + std::string(1, '\0');
  const std::string call = std::string("h") + '\0' + "h\x02R";
  // A list of pairs of which many dicts are made, and many calls with more arguments than they look at.
  check_refused(ordered + "K\x01K\x02\x86q\x01](" + times(20000, "h\x01") + "e\x85q\x02(" + times(20000, call) + "t.",
                "too many values");
  check_refused(ordered + "(]" + times(20000, "N") + "tq\x02(" + times(20000, call) + "t.", "too many values");
  // One long text under many names, one long key many times.
  const std::string large = "X" + std::string("\x00\x00\x01\x00", 4) + std::string(65536, 'x');
  check_refused("](" + large + "q\x01" + times(20000, "h\x01") + "e.", "too many values");
  check_refused("}(" + large + "q\x01N" + times(20000, "h\x01N") + "u.", "too many values");
}

BOOST_AUTO_TEST_CASE(every_beginning_of_a_file_is_an_error) {
  const std::string whole = read_bytes(golden_file("one_tensor.pt"));
  for (std::size_t size = 0; size < whole.size(); size += 11) {
    BOOST_CHECK_EXCEPTION(load(whole.substr(0, size)), Error, says("load_pytorch"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
